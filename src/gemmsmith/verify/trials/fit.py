"""Find out what shapes fit a kernel that passed its plain trials: tile, edges, multiples, whether blocks can be run
alone."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.element_types import vector_width
from gemmsmith.kernel.signature import SCRATCH
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.work import WORK
from gemmsmith.verify.code.edges import Coverage
from gemmsmith.verify.code.float_constants import adds_in_memory, compared_floats, has_atomics
from gemmsmith.verify.code.kernel_edges import kernel_edges
from gemmsmith.verify.formula.documented import documented
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.host.dispatched import forgotten_extents
from gemmsmith.verify.host.launched_products import asked_multiple, excluded
from gemmsmith.verify.host.rounded_grids import is_for_any
from gemmsmith.verify.oracles.promises import takes_any
from gemmsmith.verify.trials.axis_multiple import LaunchSteps
from gemmsmith.verify.trials.check_shapes import block_tile, tile_of_grid
from gemmsmith.verify.trials.decision_coverage import coverage
from gemmsmith.verify.trials.decision_trials import plain_problems
from gemmsmith.verify.trials.edge_trials import edge_trials, usual_sizes
from gemmsmith.verify.trials.extents import with_extent
from gemmsmith.verify.trials.far_trials import far_trial
from gemmsmith.verify.trials.float_index_trials import misrounded_indices
from gemmsmith.verify.trials.least_depth import with_least_depth
from gemmsmith.verify.trials.multiples import ANY, Raggedness, WrongGuard
from gemmsmith.verify.trials.raggedness import find_raggedness, with_padded_rows
from gemmsmith.verify.trials.trial import LARGE, Size, Trial
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.trials.trial_subject import Subject
from gemmsmith.verify.trials.trials import ragged_trial
from gemmsmith.verify.verdict import Verdict

# Rows and columns of tiles. Orders in groups of 2, 4 and 8 have a second group, which may run backwards.
_CORNER_TILES = ((2, 3), (7, 1), (1, 7), (5, 4), (7, 2), (2, 7), (12, 3), (3, 12))
_VECTOR_STORE = re.compile(r"\bst\.(?:volatile\.)?global\.(?:\w+\.)*v([248])\b")
_GLOBAL_ACCESS = re.compile(
    r"\b(?:ld|st)(?:\.\w+)*?\.global(?:\.(?!v\d|[busf]\d)\w+(?:::\w+)*)*(?:\.v([248]))?\.[busf](\d+)"
)
_EXPLAINING = 2.0  # seconds of a search in which wrong results are launched again to look for races
_PATIENCE = 4.0  # seconds; a block takes a tenth of that


def fit_subject(
    runner: TrialRunner, base: Problem, c: str, ragged: tuple[Trial, Verdict | None] | None = None, square: bool = False
) -> tuple[Subject, Raggedness]:
    """The kernel with its shapes. ``ragged``: the trial of a ragged shape, if it failed or has no launch."""
    spec, config, ptx = runner.spec, runner.config, runner.compiled.ptx
    edges = kernel_edges(spec, config, runner.compiled, base)
    # Host code that computes how long the last part is was meant to take any extent.
    edges = replace(edges, guards=edges.guards | getattr(spec.geometry, "divided", frozenset()))
    tile = tile_of_grid(spec, config)
    found = Raggedness(ANY)
    if ragged is not None:
        tied = spec.signature.tied
        axes: tuple[str, ...] = ("MNK",) if spec.signature.square else ("MN", "K") if square else ("M", "N", "K")
        axes = (*(axis for axis in axes if axis not in tied), tied) if tied else axes
        launch = LaunchSteps(
            parts=1 if spec.batched else spec.geometry(base, config).grid[2],
            rounds_down=partial(_rounds_down, spec, config),
            grid_unit=partial(_grid_unit, spec, config, base),
            flat=_flat(spec, ptx),
            packed=max((vector_width(a.ctype) for a in spec.signature.arguments), default=1),
            known=getattr(spec.geometry, "site", None) is not None and not getattr(spec.geometry, "guessed", True),
            asked=partial(asked_multiple, spec),
            said=partial(_says, spec),
            single=takes_single_elements(ptx, base.dtype.itemsize),
        )
        run = cache(partial(_run, runner, until=WORK.seconds + _EXPLAINING))  # some extents are asked for twice
        found = find_raggedness(run, *ragged, base, tile, edges, axes, launch)
    if ragged is not None and found.multiples.k > 1 and not (spec.signature.square or tied):
        try:
            least = with_least_depth(partial(_run, runner), ragged[0], base, found.multiples, edges.depth)
            found = replace(found, multiples=least)
        except WrongGuard as ended:
            found = ended.found
    if ragged is not None and found.trial is None:
        found = _as_promised(runner, found, ragged[0], base)
    subject = Subject(spec, config, base, tile, edges, found.multiples, compared_floats(ptx), adds_in_memory(ptx),
                      has_atomics(ptx), c, square=square, own=block_tile(spec, config))  # fmt: skip
    subject = replace(subject, samples=_samples(runner, subject))
    subject = replace(subject, corner=subject.samples and _ends_in_corner(runner, subject))
    return (subject if found.trial is not None else replace(subject, coverage=_coverage(runner, subject))), found


def _as_promised(runner: TrialRunner, found: Raggedness, trial: Trial, base: Problem) -> Raggedness:
    """A kernel that needs multiples is wrong where its comments say that it takes any size, or its own guards and host
    code that just has too few blocks, or host code that sends other remainders to another kernel."""
    spec, needed = runner.spec, found.multiples
    steps = {"M": needed.m, "N": needed.n, "K": needed.k}
    names = {axis: spec.signature.named(axis) for axis in steps if spec.signature.has(axis)}
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    promised = takes_any(spec.code, kernel, list(names.values())) if kernel is not None else frozenset()
    meant = {axis for axis, name in names.items() if name in promised}
    meant |= {
        axis for axis in "MN" if steps[axis] > 1 and not _says(spec, axis, steps[axis]) and is_for_any(spec, axis)
    }
    meant |= {axis for axis in forgotten_extents(spec, base) if not _says(spec, axis, steps[axis])}
    for axis in (axis for axis in names if axis in meant and steps[axis] > 1):
        alone = replace(trial, problem=with_extent(base, axis, getattr(base, axis.lower()) + 1))
        if all(spec.signature.has(role) for role in ("lda", "ldb", "ldc")):
            alone = with_padded_rows(alone)  # any K, not any leading dimension
        verdict = _run(runner, alone)
        if verdict is not None and not verdict.trusted:
            return Raggedness(ANY, axis, alone, verdict, told=True)
    return found


def _coverage(runner: TrialRunner, subject: Subject) -> Coverage:
    """Products that cover the decisions of the code; none where it cannot be read."""
    usual = [trial.problem for trial in usual_sizes(subject) if trial.size is Size.WHOLE]
    with suppress(GemmsmithError):
        entry = parse(runner.compiled.ptx).entry(runner.compiled.entry)
        covered = coverage(entry, subject, plain_problems(subject), usual)
        return replace(covered, misrounded=misrounded_indices(entry, subject))
    return Coverage()


def _says(spec: KernelSpec, axis: str, step: int) -> bool:
    """Whether comments ask the extent to be a multiple of so many, or of what is not understood."""
    told = documented(spec.code, [spec.signature.named(each) for each in axis if spec.signature.has(each)])
    return bool(told.vague) or told.multiple % step == 0


def takes_single_elements(ptx: str, itemsize: int) -> bool:
    """Whether the code accesses global memory by one element of A and B at a time, or less."""
    sizes = [int(width or 1) * int(bits) // 8 for width, bits in _GLOBAL_ACCESS.findall(ptx)]
    return "cp.async" not in ptx and "wmma" not in ptx and 0 < max(sizes, default=0) <= itemsize


def _flat(spec: KernelSpec, ptx: str) -> int:
    """How many outputs the second of two kernels stores at once, which walks C as one long row; 1 for others."""
    if getattr(spec.geometry, "second", None) is None:
        return 1
    return max((int(width) for width in _VECTOR_STORE.findall(ptx)), default=1)


def _rounds_down(spec: KernelSpec, config: Config, base: Problem, shorter: Problem) -> bool:
    """Whether a product that is a little smaller than whole tiles gets fewer blocks than these: ``M / 32``."""
    if shorter.k != base.k or no_launch(spec, config, shorter):
        return False
    return spec.geometry(shorter, config).blocks < spec.geometry(base, config).blocks


def _grid_unit(spec: KernelSpec, config: Config, base: Problem, axis: str, extent: int, tile: int) -> int:
    """Rows or columns that the grid counts by: 16 of ``(M / 16 + 1) / 2``, which gives a block of 32 rows to the last
    16 as well. 0: it counts single ones, or whole tiles."""
    if axis == "K" or not 1 < tile <= extent:
        return 0

    sources = getattr(spec.geometry, "sources", lambda _: ("", ""))

    def blocks(value: int) -> int:
        shorter = with_extent(base, axis, value)
        if no_launch(spec, config, shorter) or sources(shorter) != sources(base):  # host code launches nothing
            return 0
        return spec.geometry(shorter, config).blocks

    whole = blocks(extent)
    first = next((value for value in range(extent - tile + 1, extent + 1) if blocks(value) == whole), extent)
    unit = first - (extent - tile)
    return unit if whole and 1 < unit < tile and tile % unit == 0 else 0


def _ends_in_corner(runner: TrialRunner, subject: Subject) -> bool:
    """Whether the last block of small products computes the last rows and columns: then that of a large one must.
    Several shapes, since an order of tiles in groups may end in the corner by chance."""
    rows, columns = subject.tile
    for down, across in _CORNER_TILES:
        problem = subject.cubed(subject.base.with_(m=down * rows, n=across * columns))
        trial = far_trial(replace(subject, corner=True), "the last block", problem)
        if trial is None or not runner.run(trial).trusted:
            return False
    return True


def fitted_trials(runner: TrialRunner, base: Problem, c: str, full: bool) -> list[Trial]:
    """The trials that fit a kernel; a ragged shape is tried first, to see which multiples it needs."""
    trial = ragged_trial(runner.spec, base, c)
    verdict = _run(runner, trial)
    passed = verdict is not None and verdict.trusted
    subject, _ = fit_subject(runner, base, c, None if passed else (trial, verdict))
    # Usual int indices end at 2³¹ elements, which only --full counts as a failure.
    return [each for each in edge_trials(subject, full) if full or not each.label.startswith(LARGE)]


def _run(runner: TrialRunner, trial: Trial, until: float = math.inf) -> Verdict | None:
    """The verdict, where the problem has a launch, and no condition of host code rules it out. ``until``: how much the
    simulator may have done before; from then on no race is looked for that would explain a wrong result."""
    if no_launch(runner.spec, runner.config, trial.problem) or excluded(runner.spec, trial.problem):
        return None
    return runner.run(trial, explained=until > WORK.seconds)


def _samples(runner: TrialRunner, subject: Subject) -> bool:
    """Whether the first and the last block of several, each run alone, give one tile."""
    bm, bn = subject.of_block
    rows, columns = subject.tile
    problem = subject.cubed(subject.base.with_(m=2 * rows, n=3 * columns, k=subject.base.k))
    if not isinstance(runner.open_device("lockstep", False), SimDevice):
        return False
    if any(arg.table for arg in subject.spec.signature.arguments):  # arrays of pointers: not in memory of parts
        return False
    if no_launch(subject.spec, subject.config, problem):
        return False
    geometry = subject.spec.geometry(problem, subject.config)
    if geometry.cooperative or subject.spec.signature.has(SCRATCH):  # blocks wait for one another, or meet in memory
        return False
    total, larger = geometry.blocks, problem.with_(m=2 * problem.m)
    if total * bm * bn != problem.m * problem.n or total < 2:
        return False
    has_larger = not no_launch(subject.spec, subject.config, larger)
    if has_larger and subject.spec.geometry(larger, subject.config).blocks != 2 * total:  # one grid for every product
        return False
    alone = (Trial("one block", problem, "exact", "integers", "lockstep", subject.c, False, Size.BLOCKS, (block,),
                   bm * bn) for block in (0, total - 1))  # fmt: skip
    # Each on its own: of a grid that is too large, the first blocks may write the tiles of the last ones.
    limited = runner.limited(_PATIENCE)  # a block of a kernel whose blocks wait for one another never ends
    return all(limited.run(trial).trusted for trial in alone)
