"""Loads of one operand's tile from global memory, with guards at the edges and vectors where rows are aligned."""

from __future__ import annotations

from dataclasses import dataclass

from generated.draft import Draft, block_of
from generated.elements import WORDS
from generated.shared_tile import SharedTile


@dataclass(frozen=True)
class GlobalTile:
    """``slow`` and ``fast``: the two indices of the matrix as stored; loads walk along ``fast``."""

    draft: Draft
    operand: str
    thread: str = "tid"
    threads: str = "THREADS"

    @property
    def shared(self) -> SharedTile:
        return SharedTile(self.draft, self.operand)

    @property
    def k_fast(self) -> bool:
        return self.draft.recipe.k_contiguous(self.operand)

    @property
    def vector(self) -> int:
        return self.draft.recipe.vector

    @property
    def word(self) -> str:
        return WORDS[self.vector * self.draft.element.size]

    @property
    def fast_tile(self) -> str:
        return self.draft.names.bk if self.k_fast else self.draft.tile_extent(self.operand)

    @property
    def loads_text(self) -> str:
        """How many loads the block makes for one tile."""
        total = f"{self.draft.tile_extent(self.operand)} * {self.draft.names.bk}"
        return f"{total} / {self.vector}" if self.vector > 1 else total

    @property
    def loads_per_thread(self) -> int:
        recipe = self.draft.recipe
        total = self.draft.tile_extent_value(self.operand) * recipe.bk // self.vector
        return -(-total // recipe.threads)

    def coordinates(self) -> str:
        """r and c: this load's place in the tile, from its number i."""
        if self.vector == 1:
            return f"const int r = i / {self.fast_tile}, c = i % {self.fast_tile};"
        loads = f"({self.fast_tile} / {self.vector})"
        return f"const int r = i / {loads}, c = i % {loads} * {self.vector};"

    def _slow(self) -> str:
        return f"{self.draft.origin(self.operand)} + r" if self.k_fast else "k0 + r"

    def _fast(self, step: str = "") -> str:
        base = "k0 + c" if self.k_fast else f"{self.draft.origin(self.operand)} + c"
        return f"{base} + {step}" if step else base

    def index(self, step: str = "") -> str:
        leading = self.draft.leading(self.operand)
        other = self.draft.leading("B" if self.operand == "A" else "A")
        if other == leading:
            other = self.draft.names.m if leading != self.draft.names.m else self.draft.names.n
        right = self.draft.offset(self._slow(), self._fast(step), leading)
        wrong = self.draft.offset(self._slow(), self._fast(step), other)
        return self.draft.sites.text("stride", f"leading dimension of {self.operand}", right, wrong)

    def element(self, step: str = "") -> str:
        return f"{self.draft.pointer(self.operand)}[{self.index(step)}]"

    def inside(self, step: str = "") -> str:
        """The guard of one element."""
        sites, k_end, extent = self.draft.sites, self.draft.k_end, self.draft.extent(self.operand)
        slow_end, fast_end = (extent, k_end) if self.k_fast else (k_end, extent)
        slow, fast = f"{self._slow()} < {slow_end}", f"{self._fast(step)} < {fast_end}"
        slow_name, fast_name = ("outer", "k") if self.k_fast else ("k", "outer")
        slow = sites.text("guard", f"{self.operand}: {slow_name} guard off by one", slow, slow.replace("<", "<="))
        both = f"{slow} && {fast}"
        both = sites.text("guard", f"{self.operand}: no {slow_name} guard", both, fast)
        both = sites.text("guard", f"{self.operand}: no {fast_name} guard", both, slow)
        return sites.text("guard", f"{self.operand}: {fast_name} guard off by one", both,
                          f"{slow} && {fast.replace('<', '<=')}")  # fmt: skip

    def vector_fits(self) -> str:
        """The guard of a whole vector, which also asks whether rows are aligned."""
        sites, k_end, extent = self.draft.sites, self.draft.k_end, self.draft.extent(self.operand)
        slow_end, fast_end = (extent, k_end) if self.k_fast else (k_end, extent)
        ends = f"{self._fast()} + {self.vector} <= {fast_end}"
        # Without a leading dimension an aligned row holds whole vectors; past n or m, what is read is never stored.
        if self.draft.recipe.leading and self.k_fast:
            ends = sites.text("guard", f"{self.operand}: a vector may reach past the row", ends,
                              f"{self._fast()} < {fast_end}")  # fmt: skip
        aligned = sites.text("guard", f"{self.operand}: unaligned rows are read as vectors",
                             f"aligned_{self.operand.lower()}", "true")  # fmt: skip
        return f"{aligned} && {self._slow()} < {slow_end} && {ends}"

    def alignment(self) -> str:
        """Whether every row starts on a vector."""
        if self.vector == 1 or not self.draft.recipe.guarded:
            return ""
        leading = self.draft.leading(self.operand)
        batch = f" && stride{self.operand} % {self.vector} == 0" if self.draft.recipe.batch else ""
        return f"const bool aligned_{self.operand.lower()} = {leading} % {self.vector} == 0{batch};"

    # --- through registers

    def fetch(self, value: str) -> str:
        """Set ``value`` (an element, or an array of ``vector``) from global memory; r, c and k0 are known."""
        zero = self.draft.element.input_zero
        if self.vector == 1:
            source = self.element()
            return f"{value} = {f'({self.inside()}) ? {source} : {zero}' if self.draft.recipe.guarded else source};"
        whole = f"*reinterpret_cast<{self.word}*>({value}) = *reinterpret_cast<const {self.word}*>(&{self.element()});"
        if not self.draft.recipe.guarded:
            return whole
        return "\n".join([
            f"if ({self.vector_fits()}) {{", block_of(whole), "} else {",
            block_of(f"for (int v = 0; v < {self.vector}; ++v)",
                     f"    {value}[v] = ({self.inside('v')}) ? {self.element('v')} : {zero};"), "}",
        ])  # fmt: skip

    def put(self, value: str, stage: str) -> str:
        """Store what ``fetch`` read to shared memory."""
        if self.vector == 1:
            return f"{self._place(stage, '')} = {value};"
        if not self.draft.recipe.flipped(self.operand):
            place = f"*reinterpret_cast<{self.word}*>(&{self._place(stage, '')})"
            return f"{place} = *reinterpret_cast<const {self.word}*>({value});"
        return f"for (int v = 0; v < {self.vector}; ++v) {self._place(stage, 'v')} = {value}[v];"

    def _place(self, stage: str, step: str) -> str:
        fast = f"c + {step}" if step else "c"
        outer, k = ("r", fast) if self.k_fast else (fast, "r")
        return self.shared.write(stage, outer, k)

    def copy(self, stage: str) -> str:
        """The loop of the plain pipeline: global to shared."""
        body: list[str]
        if self.vector == 1:
            body = [self._copy_element(stage)]
        else:
            body = [f"__align__(16) {self.draft.element.input} value[{self.vector}];", self.fetch("value"),
                    self.put("value", stage)]  # fmt: skip
        return self.loop(*body)

    def _copy_element(self, stage: str) -> str:
        """One element; without its zero-fill the tail keeps what the tile held before."""
        place = self._place(stage, "")
        if not self.draft.recipe.guarded:
            return f"{place} = {self.element()};"
        guard, source = self.inside(), self.element()
        right = f"{place} = ({guard}) ? {source} : {self.draft.element.input_zero};"
        return self._tail(right, f"if ({guard}) {place} = {source};")

    def _tail(self, right: str, wrong: str) -> str:
        """The zero-fill of the tail. Integers do not need it: the other operand's zeros times anything are zero."""
        whole = self.draft.element.accumulator == "int"
        return self.draft.sites.text("tail", f"{self.operand}: the tail is not set to zero", right, wrong,
                                     "an integer times the other operand's zero is zero" if whole else "")  # fmt: skip

    def loop(self, *body: str) -> str:
        lines = [
            f"for (int i = {self.thread}; i < {self.loads_text}; i += {self.threads}) {{",
            block_of(self.coordinates(), *body),
            "}",
        ]
        return "\n".join(lines)

    def register_loop(self, body: str) -> str:
        """A loop whose values stay in registers: its count is a constant."""
        return "\n".join([
            "#pragma unroll", f"for (int p = 0; p < {self.loads_per_thread}; ++p) {{",
            block_of("const int i = tid + p * THREADS;", f"if (i < {self.loads_text}) {{",
                     block_of(self.coordinates(), body), "}"), "}",
        ])  # fmt: skip

    # --- cp.async

    def issue(self, stage: str) -> str:
        """The loop that starts asynchronous copies of a tile."""
        copied = self.vector * self.draft.element.size
        place = self._place(stage, "")
        start = f"cp_async_{copied}(&{place}, &{self.element()});"
        if not self.draft.recipe.guarded:
            return self.loop(start)
        if self.vector == 1:
            inside = self.inside()
            pointer = self.draft.pointer(self.operand)
            right = f"cp_async_zfill_{copied}(&{place}, inside ? &{self.element()} : {pointer}, inside ? {copied} : 0);"
            wrong = f"if (inside) cp_async_{copied}(&{place}, &{self.element()});"
            return self.loop(f"const bool inside = {inside};", self._tail(right, wrong))
        zero = self.draft.element.input_zero
        slowly = f"    {self._place(stage, 'v')} = ({self.inside('v')}) ? {self.element('v')} : {zero};"
        return self.loop(f"if ({self.vector_fits()}) {{", block_of(start), "} else {",
                         block_of(f"for (int v = 0; v < {self.vector}; ++v)", slowly), "}")  # fmt: skip
