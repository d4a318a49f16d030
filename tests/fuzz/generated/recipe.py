"""All choices of one generated kernel, and what is true of a kernel made so."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from generated.elements import ELEMENTS, Element

ROW_MAJOR, COLUMN_MAJOR = ("NN", "NT", "TN", "TT"), ("col-NN", "col-NT", "col-TN", "col-TT")
PRODUCERS = 64  # threads that only load, of a specialised pipeline
LARGEST_STATIC = 48 * 1024  # bytes of static shared memory


@dataclass(frozen=True)
class Recipe:
    """The defaults are the plainest kernel; a failure is shrunk towards them.

    method       naive and shuffle (a thread, a warp for each output; no shared memory), simt, dp4a (simt, four bytes at
                 a time), mma (32-bit fragment loads; of fp32 elements TF32), ldmatrix, wmma
    types        a key of ELEMENTS
    layout       NN, NT, TN, TT of row-major matrices; col-NN … of column-major ones
    epilogue     plain, scaled (alpha and beta), bias (per column of C)
    separate     the result is written to D, and C is only read
    persistent   blocks take one tile of C after another
    beta         of scaled: "always" reads C, "checked" only if beta is not 0
    split        "", "atomic" (blocks add to C), "ticket" (the last block of a tile adds what all left), "slice" (groups
                 of threads share the k of a tile), "slice atomics" (and add their sums by atomics in shared memory)
    bm, bn, bk   the block's tile; tm, tn: a thread's (simt) or a warp's (tensor cores)
    vector       elements per global load
    pipeline     plain, registers (double buffering), async (cp.async with ``stages``), specialised (producer warps)
    guarded      edges are guarded; else whole tiles only
    pad          elements after each row of a shared tile
    flip_a, flip_b  the shared tile is stored transposed to the global one
    """

    method: str = "simt"
    types: str = "f32"
    layout: str = "NN"
    epilogue: str = "plain"
    beta: str = "always"
    split: str = ""
    batch: bool = False
    separate: bool = False
    persistent: bool = False
    leading: bool = False
    bm: int = 16
    bn: int = 16
    bk: int = 16
    tm: int = 1
    tn: int = 1
    vector: int = 1
    pipeline: str = "plain"
    stages: int = 1
    guarded: bool = True
    pad: int = 0
    swizzle: bool = False
    flip_a: bool = False
    flip_b: bool = False
    staged: bool = False  # mma: each warp's results pass through shared memory of its own
    strided: bool = False  # a thread's rows and columns are interleaved with others'
    dynamic: bool = False  # dynamic shared memory
    # How it is written.
    names: str = "blas"
    order: str = "pointers first"
    sizes: str = "int"
    constants: str = "macro"
    indices: str = "plain"
    block: str = "1d"
    grid: str = "xy"
    ceil: str = "inline"
    host: str = "dim3"
    barrier: str = "plain"
    loop: str = "k0"

    @property
    def element(self) -> Element:
        return ELEMENTS[self.types]

    @property
    def column_major(self) -> bool:
        return self.layout.startswith("col-")

    @property
    def fragment_k(self) -> int:
        """k of one mma: eight words of 32 bits."""
        return 32 // self.element.size

    @property
    def tf32(self) -> bool:
        return self.types == "f32" and self.tensor_cores

    @property
    def divided(self) -> bool:
        """Whether blocks along z share k."""
        return self.split in ("atomic", "ticket")

    @property
    def tensor_cores(self) -> bool:
        return self.method in ("mma", "ldmatrix", "wmma")

    @property
    def shared(self) -> bool:
        """Whether tiles are kept in shared memory."""
        return self.method not in ("naive", "shuffle")

    @property
    def slices(self) -> int:
        return 2 if self.split.startswith("slice") else 1

    @property
    def consumers(self) -> int:
        """Threads that compute."""
        across = (self.bm // self.tm) * (self.bn // self.tn)
        return across * (32 if self.tensor_cores or self.method == "shuffle" else self.slices)

    @property
    def threads(self) -> int:
        """All threads of a block."""
        return self.consumers + (PRODUCERS if self.pipeline == "specialised" else 0)

    def k_contiguous(self, operand: str) -> bool:
        """Whether neighbours in memory are neighbours in k."""
        transposed = self.layout[-2 if operand == "A" else -1] == "T"
        return transposed == (self.column_major == (operand == "A"))

    def flipped(self, operand: str) -> bool:
        return self.flip_a if operand == "A" else self.flip_b

    def k_contiguous_shared(self, operand: str) -> bool:
        return self.k_contiguous(operand) != self.flipped(operand)

    @property
    def status(self) -> str:
        """What ``gemmsmith check`` must say of the kernel without a fault."""
        if not self.guarded:
            return "whole_tiles"
        return "column_major" if self.column_major else "right"

    def differences(self) -> dict[str, Any]:
        """The choices that differ from the plainest kernel's."""
        plain = Recipe()
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(plain, f.name)}
