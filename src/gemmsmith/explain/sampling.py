"""Count a launch by simulating some of its blocks, or a part of K, and extrapolating.

Edge blocks (last row or column of tiles) do different work from interior blocks, so blocks are sampled by kind; a kind
with few blocks is simulated completely. The sample is drawn at random (seeded) in up to four groups. The error is the
95 % confidence interval of the mean of the groups' independent estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter

import numpy as np

from gemmsmith.call.binding import bind_launch, check_simulated
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.explain.metrics import simulated
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.counters import Counters, Counts
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.sass.device import MachineDevice
from gemmsmith.sim.wave import by_cluster

GROUPS = 4
_STUDENT_T = {2: 12.706, 3: 4.303, 4: 3.182}  # 95 %, two-sided, by number of groups
_WARPS = "smsp__warps_launched.sum"
BUDGET = 2**28  # multiply-adds to simulate by default; the slowest rung takes about 15 s for them
_FEW = 16  # blocks; if the budget allows fewer, K is shortened too
_SHORT = 256
# For many kernels at once: one block of each kind, and K extrapolated from runs of 64 and 128. Exact if all blocks of a
# kind and all k-steps do the same work.
QUICK_SAMPLE, QUICK_DEPTH = 1, 64
_SHARED_DEPTH = 256  # for kernels that divide work among blocks by the k-tile
_PERIOD = 64  # K is shortened by multiples of this, so that k-tiles and alignment stay the same


@dataclass(frozen=True)
class Counted:
    """A launch's counters. ``blocks`` is how many were simulated (0: all); ``errors`` are relative, per metric.

    ``pieces`` of work are shared out among the blocks of a persistent kernel; 0 if it is none.
    """

    counters: Counters
    blocks: int = 0
    errors: tuple[tuple[str, float], ...] = ()
    depth: int = 0
    pieces: int = 0


class Bench:
    """A kernel loaded once, so that the counts of several launches can be added per instruction."""

    def __init__(
        self, spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, machine: bool = False
    ) -> None:
        self.spec, self.config, self.problem = spec, config, problem
        # Rungs branch on extents, and on data only where numbers are extraordinary: zeros serve as prepared operands.
        plain = spec.is_rung and problem.k >= _PERIOD
        self.prepares = not plain
        dry = plain and spec.arch_specific > 0 and not machine
        self.device = (MachineDevice if machine else SimDevice)(compiled.arch, count=True, moves_data=not dry)
        if machine:  # the compiler joins loads, and one may then take bytes of a padding that nobody wrote or uses
            self.device.garbage = 0
        check_simulated(self.device, spec, problem)
        self.loaded: LoadedPtx = self.device.load(compiled)
        self.loaded.trusted = spec.is_rung
        self.geometry = launched(self.device, spec, config, problem, self.loaded)

    def count(self, blocks: Sequence[int] | None = None, problem: Problem | None = None) -> Counters:
        """Run all blocks, or those in ``blocks``, of the given problem or of one with the same geometry."""
        shape = problem or self.problem
        # C's contents change no count, and C can be large, so only A and B are filled. Kernels that inspect their
        # operands before they multiply them get integers.
        fill = "integers" if self.spec.prologue is not None else "normal"
        filled = operands(shape.with_(n=0, bias=""), fill).a, operands(shape.with_(m=0, bias=""), fill).b
        addresses = [upload(self.device, matrix) for matrix in filled]
        addresses.append(self.device.allocate(shape.batch * shape.m * shape.ldc * shape.out_dtype.itemsize))
        if shape.bias:
            addresses.append(upload(self.device, np.ones(shape.bias_length, shape.out_dtype.numpy)))
        places = Addresses(*addresses)
        plan = plan_launches(self.spec, self.config, shape, places, specialized=True)
        addresses.append(self.device.allocate(plan.workspace_bytes))
        for each in plan.prologue if self.prepares else ():
            step = bind_launch(self.device, each, places, addresses[-1])
            self.device.launch(step.loaded, step.launch)
        if (other := plan.decision) is not None and not other.accepts(
            self.device.read(addresses[-1], other.verdict_bytes).tobytes()
        ):
            raise UnsupportedError(
                f"with K = {shape.k}, {self.spec.name} rejects these operands and falls back to {other.spec.name}",
                f"use a K of 32 or more, or count {other.spec.name}",
            )
        step = bind_launch(self.device, plan.kernel, places, addresses[-1], self.loaded)
        self.device.launch(self.loaded, step.launch, blocks)
        for address in addresses:
            self.device.free(address)
        assert self.device.counters is not None
        return self.device.counters


def launched(device: SimDevice, spec: KernelSpec, config: Config, problem: Problem, loaded: LoadedPtx) -> Geometry:
    """The grid as it is launched: of a persistent kernel, no more blocks than run at the same time."""
    geometry = spec.geometry(problem, config)
    if not spec.persistent:
        return geometry
    most = min(geometry.grid[0], device.blocks_at_once(loaded, geometry))
    return replace(geometry, grid=(most, *geometry.grid[1:]))


def affordable(geometry: Geometry, problem: Problem) -> tuple[int, int]:
    """(sample, depth) for ``count_launch`` that stay near BUDGET multiply-adds; (0, 0) if the whole launch does."""
    total = problem.m * problem.n * problem.k
    if total <= BUDGET:
        return 0, 0
    blocks = BUDGET * geometry.blocks // total
    return (blocks, 0) if blocks >= _FEW else (_FEW, _SHORT)


def count_launch(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, sample: int = 0, depth: int = 0,
    machine: bool = False,
) -> Counted:  # fmt: skip
    """As ``_counted_launch``, with the pieces of work of a persistent kernel."""
    found = _counted_launch(spec, config, problem, compiled, sample, depth, machine)
    return replace(found, pieces=spec.geometry(problem, config).blocks) if spec.persistent else found


def _counted_launch(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, sample: int, depth: int,
    machine: bool,
) -> Counted:  # fmt: skip
    """Count a launch: all of it, a ``sample`` of its blocks, or (``depth`` > 0) blocks with a shortened K.

    With ``depth`` the blocks run for two short K, and each instruction's count is extrapolated linearly, which is exact
    for loops over K. ``depth`` is ignored if K is short or if the kernel has no K argument. ``machine``: execute the
    machine code, not the PTX.
    """
    bench = Bench(spec, config, problem, compiled, machine)
    if depth and waits_for_blocks(spec, config, problem):  # how work is shared out converges with the number of k-tiles
        depth = max(depth, _SHARED_DEPTH)
    steps = depth // _PERIOD
    short, longer = (problem.k % _PERIOD + times * steps * _PERIOD for times in (1, 2))
    if not steps or problem.k <= longer or not spec.signature.has("K"):
        return _count(bench, problem, sample)
    shapes = [problem.with_(k=k) for k in (short, longer)]
    if any(launched(bench.device, spec, config, shape, bench.loaded) != bench.geometry for shape in shapes):
        return _count(bench, problem, sample)
    low, high = (_count(bench, shape, sample) for shape in shapes)
    beyond = (problem.k - longer) / (longer - short)
    line = combine([(low.counters, -beyond), (high.counters, 1 + beyond)])
    return Counted(line, high.blocks, high.errors, longer)


def _count(bench: Bench, problem: Problem, sample: int) -> Counted:
    if not 0 < sample < bench.geometry.blocks or waits_for_blocks(bench.spec, bench.config, problem):
        return Counted(bench.count(None, problem))
    parts = min(GROUPS, sample)
    chosen, whole = draw(pieces(bench.spec, bench.config, problem, bench.geometry), sample, parts)
    weighted: list[tuple[Counters, float]] = []
    if whole:
        weighted.append((bench.count(whole, problem), 1.0))
    spread_counts: list[tuple[list[dict[str, int]], int, int]] = []
    for size, blocks in chosen:
        counts = [bench.count(sorted(blocks[g::parts]), problem) for g in range(parts)]
        weighted += [(count, size / len(blocks)) for count in counts]
        spread_counts.append(([simulated(count) for count in counts], size, len(blocks)))
    total = combine(weighted)
    simulated_blocks = math.prod(bench.geometry.cluster) * (len(whole) + sum(len(blocks) for _, blocks in chosen))
    return Counted(total, simulated_blocks, _errors(simulated(total), spread_counts))


def combine(parts: Sequence[tuple[Counters, float]]) -> Counters:
    """The weighted sum, per instruction, of the counts of several launches of one loaded kernel."""
    first = parts[0][0]
    result = Counters(first.lowered, first.geometry)
    values = attrgetter(*[field.name for field in fields(Counts)])
    for target, name in ((result.by_position, "by_position"), (result.copies, "copies")):
        for key in {key for counters, _ in parts for key in getattr(counters, name)}:
            weighted = [(values(getattr(c, name)[key]), weight) for c, weight in parts if key in getattr(c, name)]
            columns = zip(*[[weight * value for value in counts] for counts, weight in weighted], strict=True)
            target[key] = Counts(*[max(0, round(sum(column))) for column in columns])
    for counters, _ in parts:
        result.widths.update(counters.widths)
        for position, example in counters.examples.items():
            if position not in result.examples or example[0] > result.examples[position][0]:
                result.examples[position] = example
    return result


def waits_for_blocks(spec: KernelSpec, config: Config, problem: Problem) -> bool:
    """Whether blocks share flags with blocks outside their cluster, so that none can be left out."""
    return spec.workspace is not None and spec.workspace(problem, config).zeroed > 0


def pieces(spec: KernelSpec, config: Config, problem: Problem, geometry: Geometry) -> list[list[int]]:
    """What is sampled, by kind: blocks, or clusters by the number of their first block.

    Blocks of a persistent kernel are of two kinds: those that get one tile more than the others come first.
    """
    together = math.prod(geometry.cluster)
    if spec.persistent:
        tiles, workers = (g.blocks // together for g in (spec.geometry(problem, config), geometry))
        first, last = np.split(np.arange(workers) * together, [tiles % workers])
        return [kind.tolist() for kind in (first, last) if kind.size]
    kinds = strata(spec, config, problem)
    if together == 1:
        return kinds
    kind_of = np.zeros(geometry.blocks, np.int64)
    for number, blocks in enumerate(kinds):
        kind_of[blocks] = number
    clusters = by_cluster(np.arange(geometry.blocks), geometry.grid, geometry.cluster).reshape(-1, together)
    _, of = np.unique(kind_of[clusters], axis=0, return_inverse=True)
    return [clusters[of.reshape(-1) == number, 0].tolist() for number in range(int(of.max()) + 1)]


def strata(spec: KernelSpec, config: Config, problem: Problem) -> list[list[int]]:
    """Block numbers by kind: interior, last column, last row, and the corner.

    If the tiles divide the matrix evenly there is one kind. Tiles are assumed to be numbered along the rows of C, or by
    the two axes of the grid; the geometry says how many there are per row and column.
    """

    def tiles(**extents: int) -> Geometry:
        return spec.geometry(problem.with_(**extents), config)

    geometry = tiles()
    numbers = np.arange(geometry.blocks)
    try:
        thin, flat = tiles(n=min(1, problem.n)), tiles(m=min(1, problem.m))
    except UsageError:  # a grid that is rounded down has no blocks for one row: its blocks have whole tiles alone
        return [numbers.tolist()]
    down, across = thin.blocks, flat.blocks
    if down * across != geometry.blocks:
        return [numbers.tolist()]
    if geometry.grid[1] > 1 and thin.grid[0] == geometry.grid[0]:  # x counts rows of tiles
        row, column = numbers % down, numbers // down
    else:
        row, column = numbers // across, numbers % across
    # If the last tile is full, one more row needs another tile.
    last_row = (row == down - 1) & (tiles(m=problem.m + 1, n=min(1, problem.n)).blocks == down)
    last_column = (column == across - 1) & (tiles(n=problem.n + 1, m=min(1, problem.m)).blocks == across)
    kind = 2 * last_row + last_column
    return [numbers[kind == k].tolist() for k in range(4) if (kind == k).any()]


def draw(
    kinds: Sequence[Sequence[int]], sample: int, groups: int = GROUPS, seed: int = 0
) -> tuple[list[tuple[int, list[int]]], list[int]]:
    """(size of the kind, drawn blocks) per sampled kind, and all blocks of the kinds that run completely.

    A kind gets its share of ``sample`` and at least one block per group, so a few more may be drawn than requested.
    """
    random = np.random.default_rng(seed)
    total = sum(map(len, kinds))
    sampled: list[tuple[int, list[int]]] = []
    whole: list[int] = []
    for blocks in kinds:
        share = max(groups, math.ceil(sample * len(blocks) / total))
        if share >= len(blocks):
            whole += blocks
        else:
            sampled.append((len(blocks), random.permutation(np.asarray(blocks))[:share].tolist()))
    return sampled, sorted(whole)


def _errors(
    totals: dict[str, int], kinds: list[tuple[list[dict[str, int]], int, int]]
) -> tuple[tuple[str, float], ...]:
    """The relative error of each metric: Student's t times the standard error, kinds added in quadrature.

    NaN if there is only one group.
    """
    found = []
    for name, total in totals.items():
        variance = 0.0
        for groups, size, drawn in kinds:
            each = [len(range(g, drawn, len(groups))) for g in range(len(groups))]
            means = np.array([count[name] / n for count, n in zip(groups, each, strict=True)])
            spread = float(means.var(ddof=1)) if len(means) > 1 else math.nan
            variance += (1 - drawn / size) * (_STUDENT_T.get(len(means), math.nan) * size) ** 2 * spread / len(means)
        if name != _WARPS:
            found.append((name, math.sqrt(variance) / total if total else 0.0))
    return tuple(found)
