"""Block and grid inferred from a kernel's own text, where no launch of it is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from gemmsmith.errors import UsageError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.expressions import evaluate_c
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem

_TILES = (
    "TILE_SIZE", "TILE_WIDTH", "TILE_DIM", "TILE", "BLOCK_SIZE", "BLOCKSIZE", "BLOCK_DIM", "BLOCK", "BS", "TS",
    "TILESIZE", "BLOCK_WIDTH", "KTILE",
)  # fmt: skip
# Names for the tile of a block and of a thread.
_NAMES = {
    "BM": ("BM", "BLOCK_M", "BLOCK_SIZE_M", "TILE_M"), "BN": ("BN", "BLOCK_N", "BLOCK_SIZE_N", "TILE_N"),
    "TM": ("TM", "THREAD_M", "THREAD_SIZE_Y", "THREAD_TILE_M"),
    "TN": ("TN", "THREAD_N", "THREAD_SIZE_X", "THREAD_TILE_N"),
}  # fmt: skip
_DEFAULT_TILE = 32
# Ways to tell blocks and threads apart.
_NUMBERED = re.compile(r"(?:block|thread)(?:Idx|_rank|_index)|%\w*(?:ctaid|tid|laneid|warpid)")
# What a block of one thread has no use for: other threads, and tiles.
_SEVERAL = re.compile(r"thread(?:Idx|_rank|_index)|blockDim|warpSize|mma|__(?:shared|shfl|sync)|blockIdx\.\w\s*\*|"
                      r"\*\s*blockIdx|%\w*(?:tid|laneid|warpid)")  # fmt: skip


def _place(axis: str) -> re.Pattern[str]:
    """An initializer that numbers the threads along an axis."""
    block, threads, thread = (rf"{name}\.{axis}" for name in ("blockIdx", "blockDim", "threadIdx"))
    first = rf"\(?\s*(?:{block}\s*\*\s*{threads}|{threads}\s*\*\s*{block})\s*\)?"
    return re.compile(rf"=\s*(?:{first}\s*\+\s*{thread}|{thread}\s*\+\s*{first})\s*[,;]")


_PLACES = _place("x"), _place("y")


@dataclass(frozen=True)
class LaunchGuess:
    """What a kernel's text tells about its launch.

    body       the kernel's body
    reached    the same with the bodies of the device functions that it calls
    bounds     the first argument of ``__launch_bounds__``
    constants  integers by name: the file's, the template's values, the body's own
    flipped    the grid's x and y the other way round
    """

    signature: Signature
    body: str
    reached: str
    bounds: str
    constants: Mapping[str, int]
    flipped: bool = False

    @property
    def two_dimensional(self) -> bool:
        return "threadIdx.y" in self.reached

    @property
    def alone(self) -> bool:
        """Whether one thread does everything: the kernel asks for no number of a thread or block."""
        return _NUMBERED.search(self.reached) is None

    @property
    def one_thread_a_block(self) -> bool:
        """Whether blocks number the elements of C, as ``row = blockIdx.y, col = blockIdx.x``."""
        return "blockIdx.y" in self.reached and _SEVERAL.search(self.reached) is None

    @property
    def has_sizes(self) -> bool:
        """Whether constants, ``__launch_bounds__`` or square arrays for a block of rows and columns say how large a
        block or a tile is."""
        square = self.two_dimensional and self._tile_of_arrays() > 0
        return bool(self.bounds) or square or any(self._constant(*names) for names in (_TILES, *_NAMES.values()))

    @property
    def one_element_a_thread(self) -> bool:
        """Whether threads number the elements of C, as ``blockIdx.x * blockDim.x + threadIdx.x`` and the same of y do:
        then any block will do, and the grid follows from it."""
        text = self.reached
        for place in _PLACES:
            text, found = place.subn("", text)
            if not found:
                return False
        return not re.search(r"\b(?:blockIdx|blockDim|threadIdx|gridDim|extern)\b", text)

    def block(self) -> Dim3:
        block = self._block()
        if not 0 < block[0] * block[1] <= cuda_limits().threads_per_block:
            raise UsageError(
                f"the block of {self.signature.entry} is not known; {block[0]} x {block[1]} threads, as its constants "
                "suggest, cannot be launched", "give it with --block X[,Y] (and --grid)")  # fmt: skip
        return block

    def grid(self, problem: Problem, block: Dim3) -> Dim3:
        if self.alone:
            return 1, 1, 1
        if self.one_thread_a_block:
            return (problem.m, problem.n, 1) if self.x_walks_rows() else (problem.n, problem.m, 1)
        rows, cols = self._constant(*_NAMES["BM"]), self._constant(*_NAMES["BN"])
        linear = "blockIdx.y" not in self.reached
        if rows is None or cols is None:
            if linear and not self.two_dimensional and re.search(r"blockIdx\.x\s*\*\s*blockDim\.x", self.reached):
                return max(1, -(-problem.m * problem.n // block[0])), 1, 1
            rows = cols = self._tile()
            if self.two_dimensional:
                rows, cols = (block[0], block[1]) if self._x_walks_rows() else (block[1], block[0])
        across, down = max(1, -(-problem.n // cols)), max(1, -(-problem.m // rows))
        if linear:
            return across * down, 1, 1
        return (down, across, 1) if self.x_walks_rows() else (across, down, 1)

    def _constant(self, *names: str) -> int | None:
        upper = {name.upper(): value for name, value in self.constants.items() if value > 0}
        return next((upper[name] for name in names if name in upper), None)

    def _mentions(self, *names: str) -> bool:
        return any(word.upper() in names for word in re.findall(r"[A-Za-z_]\w*", self.reached))

    def _tile(self) -> int:
        return self._constant(*_TILES) or self._tile_of_arrays() or _DEFAULT_TILE

    def _tile_of_arrays(self) -> int:
        """The side of the first square array in shared memory, which may have a column more; 0: there is none."""
        for first, second in re.findall(r"__shared__\s+\w+\s+\w+\s*\[([^\]]+)\]\s*\[([^\]]+)\]", self.body):
            try:
                rows, cols = evaluate_c(first, self.constants), evaluate_c(second, self.constants)
            except UsageError:
                continue
            if rows > 0 and cols - rows in (0, 1):
                return rows
        return 0

    def _block(self) -> Dim3:
        if self.alone or self.one_thread_a_block:
            return 1, 1, 1
        bm, bn = self._constant(*_NAMES["BM"]), self._constant(*_NAMES["BN"])
        tm, tn = self._constant(*_NAMES["TM"]), self._constant(*_NAMES["TN"])
        if self.two_dimensional:
            if bm and bn and (tm or tn):  # a thread has one column, or one row, where only the other is used
                used = [bool(size) and self._mentions(*_NAMES[side]) for size, side in ((tm, "TM"), (tn, "TN"))]
                rows, cols = (each if not any(used) or told else 1 for each, told in zip((tm, tn), used, strict=True))
                return bn // (cols or 1), bm // (rows or 1), 1
            return self._tile(), self._tile(), 1
        if self.bounds:
            with suppress(UsageError):  # a template parameter that has no value yet
                return evaluate_c(self.bounds, self.constants), 1, 1
        threads = self._constant("NUM_THREADS", "THREADS", "NTHREADS", "BLOCK_THREADS")
        if threads is None and bm and bn:
            threads = bm * bn // ((tm or 1) * (tn or 1))
        return threads or self._stride() or self._tile() ** 2, 1, 1

    def _stride(self) -> int:
        """The step of loops that threads enter at their own number, ``for (i = threadIdx.x; i < n; i += 256)``, as many
        as a block has threads; 0 where there are none, or several."""
        numbers = "|".join([r"threadIdx\.x", *re.findall(r"(\w+)\s*=\s*threadIdx\.x\s*[;,]", self.reached)])
        loops = re.findall(rf"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=\s*(?:{numbers})\s*;[^;]*;\s*\1\s*\+=\s*([^;)]+)\)",
                           self.reached)  # fmt: skip
        steps = set()
        for _, step in loops:
            with suppress(UsageError):
                steps.add(evaluate_c(step, self.constants))
        return steps.pop() if len(steps) == 1 else 0

    def x_walks_rows(self) -> bool:
        """Whether the grid's x is launched along rows of C."""
        return self._x_walks_rows() != self.flipped

    def _x_walks_rows(self) -> bool:
        named = {arg.role: arg.name for arg in self.signature.arguments}
        return _x_counts_rows(self.body, *(named.get(role, role) for role in "MNAC"))


@lru_cache
def _x_counts_rows(body: str, m: str, n: str, a: str, c: str) -> bool:
    """Whether blockIdx.x counts rows of C: by what its variable is compared with, named, or multiplied by.

    ``m``, ``n``, ``a``, ``c``: what the kernel calls these.
    """
    direct = re.findall(r"(\w+)\s*=\s*[^;=]*blockIdx\.x", body)
    further = [w for d in direct for w in re.findall(rf"(\w+)\s*=(?!=)[^;=]*\b{d}\b", body) if w not in direct]
    for name in direct + further:
        for size, answer in ((f"(?:M|{m})", True), (f"(?:N|{n})", False)):
            if re.search(rf"\b{name}\s*(?:<|>=)\s*{size}\b|\b{size}\s*(?:>|<=)\s*{name}\b", body):
                return answer
        if "row" in name.lower() or "col" in name.lower():
            return "row" in name.lower()
        if re.search(rf"\b(?:{a}|{c})\s*\[\s*\(?{name}\s*\*", body):
            return True
    return False
