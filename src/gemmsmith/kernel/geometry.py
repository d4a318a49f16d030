"""How a kernel is launched: grid, block, shared memory, tensor maps; and the formulas they come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.expressions import Formulas
from gemmsmith.problem import DType, Problem

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """How a kernel is launched: everything a device needs besides code and arguments.

    ``pdl``: programmatic dependent launch. The blocks may start while the kernel before it on the stream still runs;
    the kernel itself waits for the end of that one (griddepcontrol.wait) before it touches global memory.
    ``cooperative``: all blocks run at the same time and may wait for one another (``grid.sync()``).
    ``resident``: blocks wait for one another, so a GPU must start all of them together; without that, two such kernels
    on two streams could each hold a part of the SMs, and wait for ever. PDL is then left out.
    ``cluster_at_launch``: the cluster is not compiled into the kernel (``__cluster_dims__``), so the launch sets it.
    """

    grid: Dim3
    block: Dim3
    smem: int = 0
    cluster: Dim3 = (1, 1, 1)
    pdl: bool = False
    cooperative: bool = False
    cluster_at_launch: bool = False
    resident: bool = False

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class ScratchArray:
    """An array that the blocks of a user's kernel share: the parameter's name, and how many of its bytes are set to
    zero before the launch, from the first on; ``kept``: once, before several launches."""

    name: str
    nbytes: int
    itemsize: int
    zeroed: int
    kept: bool = False


@dataclass(frozen=True)
class LaunchFormulas:
    """A launch as formulas of the configuration's parameters and the problem's sizes (``formula_names``).

    ``grid`` is the number of blocks along x. One block computes one tile of C unless told otherwise, and batches go
    along z. Nothing goes along y, as gridDim.y ends at 65,535.
    """

    threads: str
    smem: str = "0"
    grid: str = "ceil(M/BM)*ceil(N/BN)"
    batches: str = "BATCH"
    cluster: str = "1"
    pdl: bool = False
    resident: str = "0"
    idle: str = "0"  # not 0 where blocks should start on an idle GPU: then without ``pdl``

    def __call__(self, problem: Problem, config: Config) -> Geometry:
        grid, batches, threads, smem, cluster, resident, idle = self._formulas(formula_names(problem, config))
        pdl = self.pdl and idle == 0
        return Geometry((grid, 1, batches), (threads, 1, 1), smem, (cluster, 1, 1), pdl, resident=resident != 0)

    @cached_property
    def _formulas(self) -> Formulas:
        return Formulas(self.grid, self.batches, self.threads, self.smem, self.cluster, self.resident, self.idle)


def formula_names(problem: Problem, config: Config) -> dict[str, int]:
    """What formulas may use; an operand is K-major if its elements along k are contiguous."""
    return {
        **config.by_name, "M": problem.m, "N": problem.n, "K": problem.k, "BATCH": problem.batch,
        "A_K_MAJOR": not problem.trans_a, "B_K_MAJOR": problem.trans_b, "OUT_BYTES": problem.out_dtype.itemsize,
    }  # fmt: skip


@dataclass(frozen=True)
class Im2col:
    """The pixels that one copy of an im2col map visits: of a bounding box in (W), (W, H) or (W, H, D).

    lower, upper  the corners of the box, relative to the tensor's first and last pixel, W first
    channels      elements of each pixel
    pixels        how many pixels a copy moves
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True)
class TensorMap:
    """A tensor as the tensor memory accelerator (TMA) addresses it; its address comes later.

    operand     'A', 'B' or 'C': whose memory this is; the name of the array in a launch of any kernel
    extents     elements along each dimension, innermost first
    strides     bytes from one line to the next, of all dimensions but the innermost
    box         elements along each dimension that one copy spans; (channels, pixels) of an im2col map
    swizzle     bytes of the span within which 16-byte chunks are permuted in shared memory: 128, 64, 32, or 0 for none
    interleave  bytes of a slice of channels: 16, 32, or 0 for none
    nan_fill    elements outside the tensor are NaN instead of zero
    steps       the element strides: along a dimension every such element is copied; () is 1 everywhere
    im2col      of an im2col map
    fetch       bytes that the L2 fetches from DRAM for a request at most; 0: as the rows' alignment suggests
    """

    operand: str
    dtype: DType
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    interleave: int = 0
    nan_fill: bool = False
    steps: tuple[int, ...] = ()
    im2col: Im2col | None = None
    fetch: int = 0

    @property
    def every(self) -> tuple[int, ...]:
        """The element stride of each dimension. TMA ignores the innermost unless channels are interleaved."""
        given = self.steps or (1,) * len(self.extents)
        return given if self.interleave else (1, *given[1:])
