"""What every part of a kernel needs to write its text: the recipe, the author's names, and the places for faults."""

from __future__ import annotations

from dataclasses import dataclass

from generated.elements import Element
from generated.names import NAMES, Names
from generated.recipe import Recipe
from generated.sites import Sites


@dataclass(frozen=True)
class Draft:
    recipe: Recipe
    sites: Sites

    @property
    def names(self) -> Names:
        return NAMES[self.recipe.names]

    @property
    def element(self) -> Element:
        return self.recipe.element

    @property
    def k_begin(self) -> str:
        """Where this block's share of k starts."""
        return "k_begin" if self.recipe.divided else "0"

    @property
    def k_end(self) -> str:
        return "k_end" if self.recipe.divided else self.names.k

    def k_at(self, tile: str) -> str:
        """The first k of a tile."""
        offset = f"{tile} * {self.names.bk}"
        return f"k_begin + {offset}" if self.recipe.divided else offset

    def leading(self, operand: str) -> str:
        """The leading dimension: a parameter, or the extent that is contiguous."""
        n, recipe = self.names, self.recipe
        if recipe.leading:
            return {"A": n.lda, "B": n.ldb, "C": n.ldc}[operand]
        if operand == "C":
            return n.m if recipe.column_major else n.n
        return n.k if recipe.k_contiguous(operand) else self.extent(operand)

    def extent(self, operand: str) -> str:
        return self.names.m if operand == "A" else self.names.n

    def origin(self, operand: str) -> str:
        return "m0" if operand == "A" else "n0"

    def pointer(self, operand: str) -> str:
        n = self.names
        return {"A": n.a, "B": n.b, "C": n.c}[operand]

    @property
    def output(self) -> str:
        return self.names.d if self.recipe.separate else self.names.c

    def tile_extent(self, operand: str) -> str:
        return self.names.bm if operand == "A" else self.names.bn

    def tile_extent_value(self, operand: str) -> int:
        return self.recipe.bm if operand == "A" else self.recipe.bn

    @property
    def index_type(self) -> str:
        """64 bits where the index is computed in 64 bits: a wider name for a 32-bit product would be a mistake."""
        return "size_t" if self.recipe.indices == "wide" or self.recipe.sizes == "size_t" else "int"

    def offset(self, slow: str, fast: str, leading: str) -> str:
        """An index into a matrix, as this author writes it."""
        if self.recipe.indices == "macro":
            return f"OFFSET({slow}, {fast}, {leading})"
        plain = slow if slow.isidentifier() else f"({slow})"
        return (
            f"(size_t){plain} * {leading} + {fast}"
            if self.recipe.indices == "wide"
            else f"{plain} * {leading} + {fast}"
        )


def block_of(*lines: str, indent: str = "    ") -> str:
    """Lines one level deeper; empty ones are left out."""
    return "\n".join(indent + line for text in lines if text for line in text.splitlines())
