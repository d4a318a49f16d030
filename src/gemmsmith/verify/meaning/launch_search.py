"""The launch of a kernel whose file does not show it, found by running single blocks.

One block is run on a matrix larger than any tile. Where it writes shows the tile; where its neighbour along x writes
shows in which direction x goes. Where a neighbour begins inside its tile, the block is too large. The launches that
follow are candidates: the trials judge them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.run.device import Device
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts

SIDE = 512  # rows and columns of C: more than any tile
DEPTH = 64
_BLOCK_S, _SEARCH_S = 2.0, 6.0  # of one core: for a block, and for the search
_BLOCKS = (256, 128, 64, 512, 1024, 32)
_SQUARE_BLOCKS = ((16, 16, 1), (32, 32, 1), (8, 8, 1), (32, 8, 1), (32, 4, 1))


@dataclass(frozen=True)
class TileLaunch:
    """One block for each tile of the user's own C.

    x_walks_rows  blockIdx.x counts tiles down, not across
    facts         what the sources tell about the kernel: its guards and the width of its indices are judged by it
    """

    block: Dim3
    smem: int
    rows: int
    columns: int
    x_walks_rows: bool
    linear: bool
    swapped: bool = False
    facts: KernelFacts | None = field(default=None, compare=False, repr=False)

    def __call__(self, problem: Problem, config: Config) -> Geometry:  # noqa: ARG002
        m, n = (problem.n, problem.m) if self.swapped else (problem.m, problem.n)
        down, across = max(1, ceil_div(m, self.rows)), max(1, ceil_div(n, self.columns))
        if self.linear:
            return Geometry((down * across, 1, problem.batch), self.block, self.smem)
        x, y = (down, across) if self.x_walks_rows else (across, down)
        return Geometry((x, y, problem.batch), self.block, self.smem)

    def read_as(self, signature: Signature) -> TileLaunch:
        return replace(self, swapped=signature.column_major)

    def __str__(self) -> str:
        grid = f"ceil(M/{self.rows}),ceil(N/{self.columns})" if self.x_walks_rows else (
            f"ceil(N/{self.columns}),ceil(M/{self.rows})")  # fmt: skip
        grid = f"ceil(M/{self.rows})*ceil(N/{self.columns})" if self.linear else grid
        return f"--grid '{grid}' --block {','.join(map(str, self.block[: 2 if self.block[1] > 1 else 1]))}"


def search_launches(
    device: Device, spec: KernelSpec, config: Config, ptx: str, compile_fn: binding.CompileFn
) -> Iterator[TileLaunch]:
    """Launches under which one block writes a whole rectangle of C, the likeliest first."""
    if not isinstance(device, SimDevice) or spec.signature.unknown or spec.signature.square:
        return
    if any(arg.table for arg in spec.signature.arguments):
        return
    # A block that strides over all of C computes the whole of a large product.
    limit, end = min(device.timeout, _BLOCK_S), time.process_time() + _SEARCH_S

    def written(geometry: Geometry, block: int) -> Any:
        device.timeout = min(limit, max(0.0, end - time.process_time()))
        return _written(device, spec, config, geometry, block, compile_fn)

    yield from launches_by_writes(spec, config, ptx, written)


def launches_by_writes(
    spec: KernelSpec, config: Config, ptx: str, written: Callable[[Geometry, int], Any]
) -> Iterator[TileLaunch]:
    """The same for a kernel of which ``written`` says what one block of a launch on the problem of the search changes:
    an array of flags over C, or None if it faults."""
    linear = "%ctaid.y" not in ptx
    guess, found = _tried(spec, config, ptx)
    for block in found:
        first = written(Geometry((1, 1, 1), block, guess.smem), 0)
        tile = _rectangle(first)
        if tile is None:
            continue
        second = written(Geometry((2, 1, 1), block, guess.smem), 1)
        below = None if linear else written(Geometry((1, 2, 1), block, guess.smem), 1)
        if not (_is_beside(second, tile) and _is_beside(below, tile)):
            continue
        along_fast = second is None or not second.any() or int(np.flatnonzero(second)[0]) < SIDE
        slow, fast = tile
        facts = getattr(spec.geometry, "facts", None)
        yield TileLaunch(block, guess.smem, slow, fast, not along_fast, linear, facts=facts)
        yield TileLaunch(block, guess.smem, fast, slow, along_fast, linear, facts=facts)


def blocks_tried(spec: KernelSpec, config: Config, ptx: str) -> str:
    """The blocks of the search, as text: "blocks of 16x16, 32x32 and 8x8 threads"."""
    *others, last = ("x".join(map(str, block[: 2 if block[1] > 1 else 1])) for block in _tried(spec, config, ptx)[1])
    return f"blocks of {', '.join(others)} and {last} threads" if others else f"a block of {last} threads"


def _tried(spec: KernelSpec, config: Config, ptx: str) -> tuple[Geometry, tuple[Dim3, ...]]:
    """The guessed launch, and the blocks to try: that of the guess, and unless it is known, usual ones."""
    flat_block = "%tid.y" not in ptx
    try:
        guess = spec.geometry(_problem(spec), config)
    except GemmsmithError:
        guess = Geometry((1, 1, 1), (256, 1, 1) if flat_block else (16, 16, 1))
    others = [(threads, 1, 1) for threads in _BLOCKS] if flat_block else list(_SQUARE_BLOCKS)
    if getattr(spec.geometry, "block_known", False):
        others = []
    return guess, tuple(dict.fromkeys([guess.block, *others]))


def _problem(spec: KernelSpec) -> Problem:
    return spec.problem(SIDE, SIDE, DEPTH)


def _written(
    device: SimDevice, spec: KernelSpec, config: Config, geometry: Geometry, block: int, compile_fn: binding.CompileFn
) -> Any:
    """Which elements of C one block of a launch on the problem of the search changes; None if it faults."""
    return elements_written(device, spec, config, _problem(spec), geometry, block, compile_fn)


def elements_written(
    device: SimDevice, spec: KernelSpec, config: Config, problem: Problem, geometry: Geometry, block: int,
    compile_fn: binding.CompileFn,
) -> Any:  # fmt: skip
    """Which elements of C, and of the room behind it, one block changes; None if it faults, or cannot be launched."""
    try:
        return run_block(device, spec, config, problem, geometry, block, compile_fn)
    except GemmsmithError:
        return None


def run_block(
    device: SimDevice, spec: KernelSpec, config: Config, problem: Problem, geometry: Geometry, block: int,
    compile_fn: binding.CompileFn,
) -> Any:  # fmt: skip
    """Which elements of C, and of the room behind it, one block changes; raises where it faults, or is refused."""
    own = replace(spec, geometry=lambda *_: geometry)
    size = max(SIDE * SIDE, problem.batch * max(problem.m, problem.n, problem.k) ** 2)
    sizes = (problem.dtype.itemsize, problem.dtype.itemsize, problem.out_dtype.itemsize)
    addresses = [device.allocate(size * width) for width in sizes]
    extra = device.allocate(size * sizes[2])
    poison = np.full(size * sizes[2], 0xFF, np.uint8)  # NaN, or -1: what a kernel adds to it changes it
    try:
        device.write(addresses[2], poison)
        device.write(extra, np.zeros(size * sizes[2], np.uint8))
        for address, width in zip(addresses[:2], sizes[:2], strict=True):
            device.write(address, np.ones(size * width, np.uint8))
        given = Addresses(addresses[0], addresses[1], addresses[2], extra)
        plan = plan_launches(own, config, problem, given)
        *_, step = binding.load_plan(device, plan, compile_fn).steps(given)
        device.launch(step.loaded, step.launch, [block])
        after = device.read(addresses[2], poison.size)
    finally:
        for address in (*addresses, extra):
            device.free(address)
    return (after != poison).reshape(size, sizes[2]).any(axis=1)


def _rectangle(written: Any) -> tuple[int, int] | None:
    """Slow and fast extent of the elements from the first on, if they are a whole rectangle."""
    if written is None or not written.any():
        return None
    matrix = written.reshape(SIDE, SIDE)
    slow, fast = int(np.flatnonzero(matrix.any(axis=1))[-1]) + 1, int(np.flatnonzero(matrix.any(axis=0))[-1]) + 1
    return (slow, fast) if matrix[:slow, :fast].all() and slow * fast > 1 else None


def _is_beside(written: Any, tile: tuple[int, int]) -> bool:
    """Whether another block writes from the corner of a tile on, or nothing."""
    if written is None or not written.any():
        return True
    slow, fast = divmod(int(np.flatnonzero(written)[0]), SIDE)
    return slow % tile[0] == 0 and fast % tile[1] == 0
