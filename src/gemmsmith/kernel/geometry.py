"""How a kernel is launched: grid, block, shared memory, tensor maps."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import DType

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """How a kernel is launched: everything a device needs besides code and arguments.

    ``early``: its blocks may start while the kernel before it on the stream still runs. It waits for that one's end
    itself, before it touches global memory (griddepcontrol).
    """

    grid: Dim3
    block: Dim3
    smem: int = 0
    cluster: Dim3 = (1, 1, 1)
    early: bool = False

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class TensorMap:
    """A matrix, or a batch of them, as the tensor memory accelerator (TMA) is told of it; its address comes later.

    operand  'A', 'B' or 'C': whose memory this is
    extents  elements along each dimension, innermost first
    strides  bytes from one line to the next, of all dimensions but the innermost
    box      elements along each dimension that one copy moves
    swizzle  bytes of the span within which 16-byte pieces change places in shared memory: 128, 64, 32, or 0 for none
    """

    operand: str
    dtype: DType
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
