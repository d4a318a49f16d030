"""Trials that fit one kernel: its data, scalars, k-tiles, edges and far blocks, the likeliest to fail first.

data      NaN, Inf, ±0, subnormals, and both sides of every constant that floats are compared with
indices   M, N and K beyond 65,536 (32,768), if the compiled code has an index of 16 bits; 256 tiles, if one of 8
scalars   alpha and beta below 0, above 2, and at 0 and 1
leading   padded rows with M < N and M > N, and with beta: each matrix has a leading dimension of its own
tiles     many tiles in both directions, where blocks take one after another
floats    where an index that is computed in floating point is rounded to another one (float_index_trials.py)
decisions  what the compiled code decides by sizes and scalars, alone and in pairs (decision_trials.py)
edges     both sides of every size at which the compiled code changes (kernel_edges.py)
grids     sizes at which host code's grid stops growing as before (tile_trials.py)
K         0 to 3, around multiples of the k-tile and of unrolled loops, many k-tiles
shapes    M = N, M < N, M > N, and equal to K
far       blocks far from the origin along both extents; matrices of more than 2³¹ elements (far_trials.py)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, cycle

from gemmsmith.errors import GemmsmithError
from gemmsmith.problem import FP16, INT8, INT32, INTEGER_TYPES, Problem
from gemmsmith.verify.code.edges import Edge
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.oracles.epilogue import SMOOTH
from gemmsmith.verify.trials.batch_trials import batch_trials
from gemmsmith.verify.trials.capped_grids import capped_grids
from gemmsmith.verify.trials.data_trials import data_trials
from gemmsmith.verify.trials.decision_trials import decision_trials
from gemmsmith.verify.trials.exact_trial import exact_trial
from gemmsmith.verify.trials.extents import legal_grid, with_extent
from gemmsmith.verify.trials.far_trials import (
    far_blocks,
    far_trial,
    is_large,
    large_batches,
    large_matrices,
    round_up,
    whole_tile,
)
from gemmsmith.verify.trials.float_index_trials import float_index_trials
from gemmsmith.verify.trials.sparse_launch import runs_on_parts
from gemmsmith.verify.trials.tile_trials import MOST_WORK, grid_changes, many_tiles
from gemmsmith.verify.trials.trial import CAPPED, DECISIONS, EDGES, LARGE, NO_K, TILES, Size, Trial
from gemmsmith.verify.trials.trial_subject import Subject
from gemmsmith.verify.trials.trials import padded

# The last three: each scalar alone, since kernels have branches for beta = 0 and beta = 1.
_PAIRS = ((-1.25, 2.5), (-1.0, 1.0), (0.0, 1.5), (3.0, -0.5), (1.0, 1.0), (0.5, 4.0), (-1.5, 0.0), (2.5, 1.0),
          (1.0, -0.75), (-0.5, -2.0))  # fmt: skip
_WHOLE_PAIRS = ((-1.0, 2.0), (-3.0, 1.0), (0.0, 5.0), (3.0, -1.0), (1.0, 1.0), (2.0, 4.0), (-2.0, 0.0), (5.0, 1.0),
                (1.0, -3.0), (-3.0, -2.0))  # fmt: skip
# Beyond limits that scalars may be cut to, and no integers as far as 16 bits hold them; fp16 holds results of the first
# two.
_LARGE_PAIRS = ((100.5, -100.5), (-201.0, 125.5), (10_000.5, 1000.25))
# Integer scalars beyond 8 and 16 bits, alone: the other one stays small, so that results hold 32 bits.
_LARGE_WHOLE_PAIRS = ((1000.0, -3.0), (-2.0, 70_001.0), (-70_001.0, 2.0), (3.0, -1000.0))
_BEYOND_FP32 = 1 + 2.0**-40  # times a number that fp32 holds: one that only fp64 does
_MOST_STEPS = 2**17  # integer instructions of one thread: a second or two
_DEEP_EDGE = 1000  # a K of which one trial takes a second or more
_LARGEST_BOUND = 2.0**40  # that alpha and beta may be cut to: fp32 holds a product with them
_BEYOND = 1.53125  # times a constant: beyond it, and no integer where it is a small power of two
_BYTE = 256  # numbers that 8 bits hold
_LONG_K = (2**14, 2**15, 2**16)
_BEYOND_FP16 = 98_304.0  # a beta that fp16 does not hold; times a C below 0.6 it does
_PADDING_OF_LAST_ROW = 256  # bytes that may be read: a matrix is often allocated with it
_MANY_THREADS, _IDLE = 2**22, 32  # a grid over the square around a long C has many blocks that only leave


def edge_trials(subject: Subject, full: bool = False) -> Iterator[Trial]:
    """The trials beyond the plain ones, each once; ``full``: all of them, else those that fit into seconds."""
    seen: set[tuple[Problem, str, tuple[int, ...]]] = set()
    for group, trials in (
        ("data", data_trials(subject)), ("narrow indices", _narrow_indices(subject, full)),
        ("alpha and beta", _scalars(subject)),
        ("leading dimensions", _padded_shapes(subject)),
        (TILES, many_tiles(subject, lambda trial: not _obstacle(subject, trial))),
        ("indices in floating point", float_index_trials(subject)),
        (DECISIONS, decision_trials(subject, usual_sizes(subject), full)),
        (EDGES, _edges(subject, full)), ("grids", chain(grid_changes(subject), capped_grids(subject))),
        ("K", _k_values(subject, full)), ("shapes", _shapes(subject)),
        ("far blocks", far_blocks(subject)), ("batches", batch_trials(subject)),
        ("large matrices", chain(large_matrices(subject), large_batches(subject))),
    ):  # fmt: skip
        for trial in trials:
            trial = replace(_runnable(subject, trial), group=group)
            key = trial.problem, trial.fill, trial.blocks
            if key not in seen and not _obstacle(subject, trial):
                seen.add(key)
                yield trial


def usual_sizes(subject: Subject) -> Iterator[Trial]:
    """The edges, K and shapes of a check."""
    for trial in chain(_edges(subject, False), _k_values(subject, False), _shapes(subject)):
        trial = _runnable(subject, trial)
        if not _obstacle(subject, trial):
            yield trial


def full_count(subject: Subject) -> int:
    """How many trials there are in all."""
    return sum(1 for _ in edge_trials(subject, full=True))


def _obstacle(subject: Subject, trial: Trial) -> str:
    if why := no_launch(subject.spec, subject.config, trial.problem):
        return why
    if is_large(trial.problem) and not trial.label.startswith(LARGE):
        return "a trial of its own shows what happens beyond 2³¹ elements"
    if trial.problem.activation and trial.mode not in ("float", "exact"):
        return "its mode judges no activation"
    if trial.size is Size.SPARSE and not (subject.samples or trial.label.startswith(CAPPED)):
        return "its blocks do not each compute a tile of their own"
    if trial.size is Size.SPARSE and subject.spec.is_rung and not all(
        runs_on_parts(subject.spec, subject.config, trial.problem.with_(k=k))
        for k in (trial.problem.k, min(trial.dry_k, trial.problem.k))
    ):  # fmt: skip
        return "its prologue needs whole operands"
    geometry = subject.spec.geometry(trial.problem, subject.config)
    if not legal_grid(geometry):
        return f"a grid of {geometry.grid} is too large"
    outputs, threads = trial.problem.m * trial.problem.n, geometry.blocks * math.prod(geometry.block)
    if trial.size is Size.WHOLE and threads > max(_MANY_THREADS, _IDLE * outputs):
        return f"{geometry.blocks} blocks, most of them without a tile, take too long"
    work = outputs * trial.problem.k
    return "too large to be run as a whole" if trial.size is Size.WHOLE and work > 16 * MOST_WORK else ""


def _runnable(subject: Subject, trial: Trial) -> Trial:
    """The trial, on some blocks if all of them would take too long."""
    problem = trial.problem
    if trial.size is Size.WHOLE and problem.m * problem.n * max(1, problem.k) > MOST_WORK and subject.samples:
        return far_trial(subject, trial.label, problem, why=trial.why) or trial
    return trial


# -- scalars and rows ------------------------------------------------------------------------------------------------


def _scalars(subject: Subject) -> Iterator[Trial]:
    signature, base = subject.spec.signature, subject.base
    ours = subject.spec.is_rung
    has_alpha, has_beta = ours or signature.has("alpha"), ours or signature.has("beta")
    codes = {arg.role: arg.code for arg in signature.arguments}
    if not (has_alpha or has_beta):
        return
    whole = base.out_dtype in INTEGER_TYPES or base.dtype in INTEGER_TYPES
    whole |= any(codes.get(role, "f") not in ("f", "d", "e", "bf16") for role in ("alpha", "beta"))
    if whole and (ours or base.out_dtype == INT8):
        return
    pairs = list(_WHOLE_PAIRS if whole else _PAIRS)
    if not whole and base.out_dtype.itemsize > 1 and base.activation not in SMOOTH:  # whose exp overflows
        pairs += _LARGE_PAIRS if min(base.dtype.itemsize, base.out_dtype.itemsize) > 2 else _LARGE_PAIRS[:2]
    if whole and base.out_dtype == INT32:  # wraps as int32 does, wherever it overflows
        pairs += _LARGE_WHOLE_PAIRS
    largest = _LARGEST_BOUND if min(base.dtype.itemsize, base.out_dtype.itemsize) > 2 else 2.0**14
    for constant in () if whole else subject.floats:
        if 2.0**-14 < constant < largest:
            beyond = _BEYOND * constant
            pairs += [(beyond, -beyond), (-beyond, beyond)]
            pairs += [(0.5 * constant, 0.5 * constant)]  # a small scalar may be taken for zero
    wide_scalars = all(codes.get(role, "f") in ("f", "d") for role in ("alpha", "beta"))
    if has_beta and base.out_dtype == FP16 and subject.spec.accumulator is None and wide_scalars:
        pairs.append((1.0, _BEYOND_FP16))
    bm, bn = subject.tile
    plain = subject.one_tile(subject.depth + 1)
    # Two tiles along each extent, M < N and M > N: an old C may be read from another tile, or with another stride.
    several = [subject.problem(bm + 1, 2 * bn + 1, subject.depth + 1), subject.problem(2 * bm + 1, bn + 1, plain.k)]
    short = min(base.dtype.itemsize, base.out_dtype.itemsize) < 4 or not wide_scalars
    # A short K may end early, before the scalars.
    ones = cycle((plain, subject.one_tile(2), subject.one_tile(3 * subject.depth)))
    kept = (1.0, 1.0 if signature.accumulates else 0.0)
    for alpha, beta in dict.fromkeys((a if has_alpha else kept[0], b if has_beta else kept[1]) for a, b in pairs):
        alpha, beta = (x if whole else _in_16_bits(x) if short else x * _own_digits(codes.get(role, "f"), x)
                       for role, x in (("alpha", alpha), ("beta", beta)))  # fmt: skip
        larger = beta != kept[1] and several
        problem = (several.pop(0) if larger else next(ones)).with_(alpha=alpha, beta=beta)
        c = subject.c
        if alpha == 0 and not ours:  # a user's kernel may read A and B all the same: no BLAS was promised
            if c == "zero":
                continue
            c = "set"
        yield Trial(f"alpha {alpha:g}, beta {beta:g}", problem, "float", "normal", "lockstep", c, False)


def _padded_shapes(subject: Subject) -> Iterator[Trial]:
    spec, (bm, bn) = subject.spec, subject.tile
    scaled = (spec.is_rung or spec.signature.has("beta")) and subject.base.out_dtype not in INTEGER_TYPES
    for label, m, n in (("M < N", bm, 2 * bn), ("M > N", 2 * bm, bn)):
        problem = subject.problem(m, n, max(subject.depth, 72))
        problem = padded(problem.with_(beta=0.5) if scaled else problem, spec)
        yield Trial(f"padded rows, {label}", problem, "float", "normal", "lockstep", subject.c, False)
    # Rows start on multiples of 16 bytes and end on none: the last vector of a row has padding in it.
    # Two tiles along each extent: a block's place may have a pitch of its own.
    short = subject.problem(2 * bm - 1, 2 * bn - 1, subject.depth + 3)
    vector, out = 16 // short.dtype.itemsize, 16 // short.out_dtype.itemsize
    leading = {
        "lda": round_up(short.a_shape[1], vector),
        "ldb": round_up(short.b_shape[1], vector),
        "ldc": round_up(short.n, out),
    }
    yield Trial("padded rows, ragged", short.with_(**leading), "float", "normal", "lockstep", subject.c, False,
                slack=_PADDING_OF_LAST_ROW)  # fmt: skip


def _own_digits(code: str, value: float) -> float:
    """What a scalar of a kernel's own type is multiplied by: of fp64, to one that fp32 does not hold."""
    return _BEYOND_FP32 if code == "d" and value not in (0, 1) else 1.0


def _in_16_bits(value: float) -> float:
    """With four significant bits more or less: fp16 and bf16 scalars hold it."""
    if value == 0:
        return value
    scale = 1.0
    while abs(value) * scale < 64:
        scale *= 2
    while abs(value) * scale >= 128:
        scale /= 2
    return round(value * scale) / scale


# -- sizes ------------------------------------------------------------------------------------------------------------


def _edges(subject: Subject, full: bool) -> Iterator[Trial]:
    usual = 4 * subject.depth
    found = [edge for edge in subject.edges.edges if not (edge.axis == "K" and edge.value <= usual)]
    found = [edge for edge in found if not (edge.axis in ("M", "N", "MN") and edge.value < 2)]
    for edge in sorted(found, key=lambda edge: edge.value):
        values = [edge.value - 1, edge.value, edge.value + 1] if full else [edge.value]
        if edge.axis == "K":
            # Past the edge of a loop's counter there must be terms to lose. More shows there than at the edge, so where
            # either takes seconds, it comes first.
            values.insert(0 if edge.value > _DEEP_EDGE else len(values), _past(subject, edge.value))
        for value in values:
            if value >= 0:
                yield from _at_edge(subject, replace(edge, value=value))
    corner = {axis: max((e.value for e in found if e.axis == axis), default=0) for axis in ("M", "N", "K")}
    if sum(value > 0 for value in corner.values()) > 1:
        tile = subject.one_tile(usual)
        m, n, k = (max(own, corner[axis] + 1) for own, axis in zip((tile.m, tile.n, tile.k), corner, strict=True))
        k = max(k, _past(subject, corner["K"])) if corner["K"] else k
        yield exact_trial(subject, "beyond all edges at once", subject.problem(m, n, k))


def _past(subject: Subject, edge: int) -> int:
    """A K with two more k-tiles than the last of the edges that follow one another within a k-tile."""
    for other in sorted(subject.edges.along("K")):
        edge = other if edge < other <= edge + subject.depth else edge
    return edge + 2 * subject.depth + 1


def _at_edge(subject: Subject, edge: Edge) -> Iterator[Trial]:
    label = f"{' = '.join(edge.axis)} = {edge.value}, where {edge.where} changes"
    if edge.axis in "xyz":
        trial = _at_block(subject, edge)
        if trial is not None:
            yield trial
        return
    base = subject.one_tile(subject.depth + 1) if edge.axis != "K" else subject.one_tile(edge.value)
    # Code that other shapes do not reach may lack a barrier, too.
    problem = subject.multiples.up(subject.cubed(with_extent(base, edge.axis, edge.value)))
    yield replace(exact_trial(subject, label, problem, edge.text), hazards=True)


def _at_block(subject: Subject, edge: Edge) -> Trial | None:
    """The block at an edge, in a product that has it, and a block on the other side."""
    index, (bm, bn) = "xyz".index(edge.axis), subject.of_block
    if (batch := _at_product(subject, edge)) is not None:
        return batch
    count, side = edge.value + 2, math.isqrt(edge.value + 1) + 2
    for rows, columns in ((count, 1), (1, count), (side, side)):
        try:
            whole = whole_tile(subject)
            problem = subject.cubed(whole.with_(m=max(whole.m, rows * bm), n=max(whole.n, columns * bn)))
            grid = subject.spec.geometry(problem, subject.config).grid
        except GemmsmithError:
            continue
        if grid[index] > edge.value and all(extent < 2**31 for extent in grid):
            block = [0, 0, 0]
            block[index] = edge.value
            number = block[0] + grid[0] * (block[1] + grid[1] * block[2])
            label = f"block {edge.axis} = {edge.value}, where {edge.where} changes"
            return far_trial(subject, label, problem, (0, number), edge.text)
    return None


def _at_product(subject: Subject, edge: Edge) -> Trial | None:
    """A batch that has the product at an edge of the axis along which the grid counts products."""
    if not subject.spec.batched or subject.spec.is_rung:
        return None
    one = subject.one_tile(subject.multiples.k)
    many = subject.spec.signature.batch_of(one, edge.value + 2)
    index = "xyz".index(edge.axis)
    try:
        few, grid = (subject.spec.geometry(each, subject.config).grid[index] for each in (one, many))
    except GemmsmithError:
        return None
    if few > edge.value or grid <= edge.value or one.m * one.n * one.k * many.batch > MOST_WORK:
        return None
    return exact_trial(subject, f"product {edge.value} of a batch, where {edge.where} changes", many, edge.text)


def _k_values(subject: Subject, full: bool) -> Iterator[Trial]:
    d, step = subject.depth, subject.multiples.k
    small = [edge for edge in subject.edges.along("K") if edge <= 4 * d]
    if step > 1:
        values = [step * times for times in (1, 3, 2, 5, 9, 17, 4, 6, 7)]
    else:
        around = [d + 1, d - 1, d, 2 * d - 1, 2 * d + 1, 3 * d + 1, 9 * d + 1, 17 * d + 3]
        values = [1, 2, 3, *around, *small]
        values += [n * unit + off for unit in subject.edges.depths[1:] for n in (1, 2) for off in (-1, 1)]
        values += [n * d + off for n in range(1, 9) for off in (-1, 0, 1)] if full else []
    # The last of many k-tiles lacks one row: others lack most of them.
    values += [round_up(1024 + max(3, d - 1), step), *([round_up(4099, step), round_up(8195, step)] if full else [])]
    for k in dict.fromkeys(value for value in values if value > 0 and value >= subject.multiples.from_k):
        # A short K may leave out a part of a pipeline, and with it what orders the rest.
        yield replace(exact_trial(subject, f"K = {k}", subject.one_tile(k)), hazards=k <= 4 * d)
    if full:
        yield from _long_k(subject)
    # What a loop over K orders is ordered by nothing where it does not run.
    yield replace(exact_trial(subject, NO_K, subject.one_tile(1).with_(k=0)), hazards=True)


def _long_k(subject: Subject) -> Iterator[Trial]:
    """K beyond what an index of 16 bits holds, where a block's tile is small."""
    for limit in _LONG_K:
        problem = subject.one_tile(round_up(limit + 2 * subject.depth + 3, subject.multiples.k))
        if problem.m * problem.n * problem.k <= 4 * MOST_WORK:
            yield exact_trial(subject, f"K = {problem.k}", problem)


def _narrow_indices(subject: Subject, full: bool) -> Iterator[Trial]:
    """K, N and M beyond what an index of 16 bits holds, where the code has one; N and M of a kernel whose blocks cannot
    be run alone (others have far blocks). More tiles than a byte counts, where the code cuts a number to one."""
    most = 16 * MOST_WORK if full else 2 * MOST_WORK
    if subject.edges.counts_bytes:
        (bm, bn), depth = subject.tile, subject.multiples.k
        for label, m, n in (("rows", _BYTE * bm + 1, 1), ("columns", 1, _BYTE * bn + 1)):
            problem = subject.problem(m, n, depth)
            if problem.m * problem.n * problem.k <= most:
                yield exact_trial(subject, f"more than {_BYTE} {label} of tiles", problem)
    steps = dict(zip(subject.edges.narrow, subject.edges.long_steps, strict=False))
    for limit in subject.edges.narrow:
        problems = {"K": subject.problem(1, 1, limit + 2 * subject.depth + 3)}  # one output has all of K
        for axis, tile in zip("NM", reversed(subject.tile), strict=True) if not subject.samples else ():
            problems[axis] = subject.multiples.up(with_extent(subject.problem(1, 1, subject.depth), axis, limit + tile))
        for axis, problem in problems.items():
            # Along K a block works on its whole tile, however few outputs there are.
            outputs = math.prod(subject.of_block) if axis == "K" else problem.m * problem.n
            if outputs * problem.k <= most or (
                axis == "K" and steps.get(limit, most) <= (8 * _MOST_STEPS if full else _MOST_STEPS)
            ):
                yield exact_trial(subject, f"{axis} = {getattr(problem, axis.lower())}", problem)


def _shapes(subject: Subject) -> Iterator[Trial]:
    bm, bn = subject.tile
    side, k = max(bm, bn), subject.depth + 1

    def equal(least: int, axes: str) -> int:
        """An extent from ``least`` on that all of these may have, with the multiples that each needs."""
        return round_up(least, math.lcm(*(getattr(subject.multiples, axis) for axis in axes)))

    mn, mnk, mk, nk = equal(side + 1, "mn"), equal(side, "mnk"), equal(side, "mk"), equal(side, "nk")
    for label, (m, n, depth) in {
        "M = N": (mn, mn, k),
        "M = N = K": (mnk, mnk, mnk),
        "M < N": (bm - 1 or 1, 3 * bn + 1, k),
        "M > N": (3 * bm + 1, bn - 1 or 1, k),
        "M = K": (mk, bn + mk, mk),
        "N = K": (bm + nk, nk, nk),
        "one row": (1, 2 * bn, k),
        "one column": (2 * bm, 1, k),
        # What is left of a vector of four in the last of several tiles: three, and two.
        "one short of several tiles": (3 * bm - 1, 3 * bn - 1, k),
        "two short of several tiles": (2 * bm - 2, 3 * bn - 2, k),
    }.items():
        yield exact_trial(subject, label, subject.problem(m, n, depth))
