"""One operand's tile in shared memory: padded or swizzled, static or dynamic, one copy for each stage."""

from __future__ import annotations

from dataclasses import dataclass

from generated.draft import Draft


@dataclass(frozen=True)
class SharedTile:
    """``outer`` is m for A and n for B. Rows of the tile run along k if ``k_contiguous_shared``."""

    draft: Draft
    operand: str

    @property
    def name(self) -> str:
        names = self.draft.names
        return names.a_shared if self.operand == "A" else names.b_shared

    @property
    def k_contiguous(self) -> bool:
        return self.draft.recipe.k_contiguous_shared(self.operand)

    @property
    def rows(self) -> str:
        return self.draft.tile_extent(self.operand) if self.k_contiguous else self.draft.names.bk

    @property
    def columns(self) -> str:
        return self.draft.names.bk if self.k_contiguous else self.draft.tile_extent(self.operand)

    @property
    def row_count(self) -> int:
        return self.draft.tile_extent_value(self.operand) if self.k_contiguous else self.draft.recipe.bk

    @property
    def column_count(self) -> int:
        return self.draft.recipe.bk if self.k_contiguous else self.draft.tile_extent_value(self.operand)

    @property
    def pitch(self) -> str:
        pad = self.draft.recipe.pad
        return f"({self.columns} + {pad})" if pad else self.columns

    @property
    def pitch_count(self) -> int:
        return self.column_count + self.draft.recipe.pad

    @property
    def chunk(self) -> int:
        """Elements that stay together under the swizzle."""
        recipe = self.draft.recipe
        return 8 if recipe.method == "ldmatrix" else 1 if recipe.flipped(self.operand) else recipe.vector

    @property
    def elements(self) -> int:
        return self.row_count * self.pitch_count * self.draft.recipe.stages

    @property
    def words_adjacent(self) -> bool:
        """Whether neighbours in k fill aligned words of 32 bits."""
        held = 4 // self.draft.element.size
        plain = not self.draft.recipe.swizzle or self.chunk >= held
        return self.k_contiguous and plain and self.pitch_count % held == 0

    def declaration(self) -> str:
        """A static array."""
        stages = f"[{self.draft.recipe.stages}]" if self.draft.recipe.stages > 1 else ""
        aligned = "__align__(32) " if self.draft.recipe.tensor_cores else "__align__(16) "
        aligned = (
            aligned
            if self.draft.recipe.vector > 1 or self.draft.recipe.tensor_cores or self.draft.recipe.method == "dp4a"
            else ""
        )
        pitch = self.pitch.strip("()")
        return f"__shared__ {aligned}{self.draft.element.input} {self.name}{stages}[{self.rows}][{pitch}];"

    def write(self, stage: str, outer: str, k: str) -> str:
        """The element at (outer, k), where it is stored."""
        wrong = self._at(stage, k, outer, "")
        return self.draft.sites.text("index", f"swapped indices when {self.name} is stored",
                                     self._at(stage, outer, k, self.swizzle_name), wrong)  # fmt: skip

    def read(self, stage: str, outer: str, k: str) -> str:
        """The element at (outer, k), where it is read."""
        right = self._at(stage, outer, k, self.swizzle_name)
        sites = self.draft.sites
        if self.swizzle_name:
            missing = self._at(stage, outer, k, "")
            right = sites.text("swizzle", f"{self.name} is read without the swizzle", right, missing)
        right = sites.text("index", f"{self.name} is read one row off", right, self._row_off(stage, outer, k))
        if self.draft.recipe.stages > 1:
            other = self._at("0", outer, k, self.swizzle_name)
            right = sites.text("index", f"{self.name} is always read from stage 0", right, other)
        return sites.text("index", f"swapped indices when {self.name} is read", right,
                          self._at(stage, k, outer, self.swizzle_name))  # fmt: skip

    def _row_off(self, stage: str, outer: str, k: str) -> str:
        moved = f"({outer} + 1) % {self.draft.tile_extent(self.operand)}"
        return self._at(stage, moved, k, self.swizzle_name)

    @property
    def swizzle_name(self) -> str:
        return f"swizzle_{self.operand.lower()}" if self.draft.recipe.swizzle else ""

    def swizzle_function(self) -> str:
        """XOR of the chunk's number with the row."""
        if not self.draft.recipe.swizzle:
            return ""
        chunks = self.column_count // self.chunk
        return (
            f"__device__ __forceinline__ int {self.swizzle_name}(int row, int col) {{\n"
            f"    return col ^ ((row % {chunks}) * {self.chunk});\n}}"
        )

    def _at(self, stage: str, outer: str, k: str, swizzle: str) -> str:
        row, column = (outer, k) if self.k_contiguous else (k, outer)
        if swizzle:
            column = f"{swizzle}({row}, {column})"
        several = self.draft.recipe.stages > 1
        if self.draft.recipe.dynamic:
            row = f"({stage} * {self.rows} + {row})" if several else row if row.isidentifier() else f"({row})"
            return f"{self.name}[{row} * {self.pitch} + {column}]"
        return f"{self.name}[{stage}][{row}][{column}]" if several else f"{self.name}[{row}][{column}]"
