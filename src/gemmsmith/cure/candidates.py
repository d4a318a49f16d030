"""Which changes are tried for a fault, and in which order: what its evidence suggests first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from gemmsmith.cure import (
    accumulators,
    block_shapes,
    block_steps,
    bounds,
    counterparts,
    counters,
    epilogues,
    fragments,
    guards,
    index_arithmetic,
    indices,
    launches,
    like_expressions,
    pointer_steps,
    prefetches,
    reductions,
    registers,
    scalars,
    scales,
    stages,
    sum_types,
    swizzles,
    tails,
    tile_orders,
    warp_functions,
    zero_fill,
)
from gemmsmith.cure.atomics import atomics
from gemmsmith.cure.barriers import barriers
from gemmsmith.cure.branches import dissolved_branches, early_returns, late_returns, moved_barriers, opened_branches
from gemmsmith.cure.cleared_outputs import cleared_before
from gemmsmith.cure.code import Program
from gemmsmith.cure.copies import waits
from gemmsmith.cure.edit import Candidate
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.host_arguments import passed_arguments
from gemmsmith.cure.memory_orders import memory_orders
from gemmsmith.cure.overflow import overflows
from gemmsmith.cure.parities import wrong_parities
from gemmsmith.cure.passed_pitches import passed_pitches
from gemmsmith.cure.roles import missing_ways_back
from gemmsmith.cure.shared_overlap import overlapping_arrays
from gemmsmith.cure.unrolled_tails import missing_tails
from gemmsmith.cure.weak_barriers import weak_barriers


def candidates(program: Program, fault: Fault) -> Iterator[Candidate]:
    """Distinct changes, the likeliest first. What swaps extents that are equal in the failing trial comes last: it
    changes nothing there, but may reveal the product of another layout."""
    seen, later = set(), []
    for candidate in _ordered(program, fault):
        if candidate.edits and candidate.edits not in seen and not candidate.clashes:
            seen.add(candidate.edits)
            if _is_idle(program, fault, candidate):
                later.append(candidate)
            else:
                yield candidate
    yield from later


def _is_idle(program: Program, fault: Fault, candidate: Candidate) -> bool:
    """Whether every edit puts one extent for another that has the same value in the failing trial."""
    values = {name: fault.extents[role] for role, name in program.names.items() if role in fault.extents}
    texts = {code.path: code.text for code in program.files}
    pairs = [(texts[edit.path][edit.start : edit.end], edit.text) for edit in candidate.edits]
    return all(old in values and values[old] == values.get(new) for old, new in pairs)


def _ordered(program: Program, fault: Fault) -> Iterator[Candidate]:
    if program.scales and fault.kind in ("value", "bounds"):
        yield from scales.wrong_scales(program)
    if fault.unwritten:
        yield from block_steps.launched_steps(program)
    if fault.squares_pass:
        yield from _extents(program)
    yield from launches.swapped_configurations(program)
    if fault.exited:
        yield from late_returns(program)
        yield from early_returns(program, fault)
        yield from dissolved_branches(program, fault)
        yield from opened_branches(program, fault)
        yield from moved_barriers(program, fault)
    if fault.at_edges and fault.kind in ("bounds", "value"):
        yield from _at_edges(program, fault)
    elif fault.kind in _BY_KIND:
        yield from _BY_KIND[fault.kind](program, fault)


def _at_edges(program: Program, fault: Fault) -> Iterator[Candidate]:
    """For a kernel whose whole tiles are right."""
    yield from launches.floor_grids(program)
    yield from missing_tails(program)
    yield from late_returns(program)
    yield from zero_fill.unfilled_tiles(program)
    yield from _edges(program, fault)
    yield from tails.short_loops(program)
    yield from tile_orders.group_sizes(program)
    yield from prefetches.unused_tiles(program)


def _races(program: Program, fault: Fault) -> Iterator[Candidate]:
    yield from waits(program, fault)
    yield from memory_orders(program, fault)
    if any(race.is_global for race in fault.races):
        yield from _global_races(program, fault)
        return
    yield from overlapping_arrays(program)
    yield from missing_ways_back(program)
    yield from wrong_parities(program)
    yield from stages.unlike_stages(program)
    yield from stages.unswitched(program)
    yield from stages.racing_stores(program, fault)
    yield from weak_barriers(program, fault)
    yield from barriers(program, fault)
    yield from atomics(program, fault)
    yield from stages.other_stages(program)
    yield from indices.swapped_indices(program)
    yield from bounds.comparisons(program, fault, tighter=True)
    yield from index_arithmetic.counterpart_divisors(program)
    yield from index_arithmetic.unlike_strides(program)
    yield from index_arithmetic.other_strides(program)
    yield from index_arithmetic.other_numbers(program)


def _global_races(program: Program, fault: Fault) -> Iterator[Candidate]:
    yield from cleared_before(program, fault)
    yield from like_expressions.unlike_expressions(program)
    yield from tile_orders.repeated_quotients(program)
    yield from pointer_steps.missing_block_terms(program)
    yield from _block_numbers(program)
    yield from atomics(program, fault)
    yield from barriers(program, fault)
    yield from _edges(program, fault)
    yield from _indices(program)


def _stuck(program: Program, fault: Fault) -> Iterator[Candidate]:
    """For barriers that not all threads reach."""
    yield from missing_ways_back(program)
    yield from wrong_parities(program)
    yield from opened_branches(program, fault)
    yield from moved_barriers(program, fault)
    yield from late_returns(program)
    yield from warp_functions.masks(program)
    yield from bounds.comparisons(program, fault, tighter=True)


def _outside(program: Program, fault: Fault) -> Iterator[Candidate]:
    """For accesses outside their arrays, and misaligned ones."""
    if fault.large:
        yield from overflows(program)
    if fault.beyond_shared:
        yield from launches.more_shared_memory(program)
    if fault.kind == "alignment":
        yield from _at_lines(fault, program, index_arithmetic.numbered_factors(program))
    yield from block_shapes.other_tiles(program)
    yield from bounds.comparisons(program, fault, tighter=True)
    yield from _block_numbers(program)
    yield from passed_pitches(program)
    yield from indices.leading_dimensions(program)[0]
    yield from pointer_steps.steps_of_loops(program)
    yield from tails.counted_words(program)
    yield from tails.fewer_tiles(program)
    yield from tails.numbered_steps(program)
    yield from tile_orders.repeated_quotients(program)
    yield from _edges(program, fault)
    yield from _indices(program)
    yield from tails.short_loops(program)


def _at_lines(fault: Fault, program: Program, found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Those that change a line which the fault names."""
    lines, codes = {line for _, line in fault.places}, {code.path: code for code in program.files}
    yield from (each for each in found if any(codes[edit.path].line(edit.start) in lines for edit in each.edits))


def _by_fragments(program: Program) -> bool:
    """Whether lanes hold fragments, whose rows and columns the kernel computes itself."""
    texts = "".join(function.code.of(function.body) for function in program.reached)
    return "mma.sync" in texts or "ldmatrix" in texts


def _block_numbers(program: Program) -> Iterator[Candidate]:
    """Which part of C a block makes: the axes, the steps and the threads of kernel and launch must agree."""
    yield from counterparts.mismatched_axes(program)
    yield from block_steps.thread_numbers(program)
    yield from block_steps.launched_steps(program)
    yield from block_steps.warp_grids(program)
    yield from block_shapes.flat_blocks(program)


def _sums(program: Program) -> Iterator[Candidate]:
    """What is added to a sum: its type, its first value, and each element of a vector or pair once."""
    yield from sum_types.narrow_sums(program)
    yield from accumulators.misset(program)
    yield from counterparts.repeated_components(program)
    yield from counterparts.other_halves(program)
    yield from warp_functions.masks(program)
    yield from reductions.wrong_distances(program)
    yield from accumulators.not_reset(program)
    yield from accumulators.reset_too_often(program)


def _extents(program: Program) -> Iterator[Candidate]:
    """For a fault that shows only where M, N and K differ: one of them stands for another."""
    likely, others = indices.leading_dimensions(program)
    yield from likely
    yield from index_arithmetic.counterpart_divisors(program)
    yield from _in_turn(
        launches.swapped_axes(program), bounds.swapped_guards(program), bounds.loop_extents(program), others
    )


def _edges(program: Program, fault: Fault) -> Iterator[Candidate]:
    yield from bounds.comparisons(program, fault, tighter=True)
    yield from bounds.logical_operators(program)
    yield from bounds.swapped_guards(program)
    yield from guards.missing_guards(program)


def _indices(program: Program) -> Iterator[Candidate]:
    likely, others = indices.leading_dimensions(program)
    yield from likely
    yield from index_arithmetic.counterpart_divisors(program)
    yield from _in_turn(
        launches.swapped_axes(program),
        others,
        indices.swapped_indices(program),
        chain(indices.tile_constants(program), index_arithmetic.other_operators(program)),
        index_arithmetic.other_strides(program),
        chain(index_arithmetic.other_numbers(program), index_arithmetic.other_factors(program)),
        index_arithmetic.other_offsets(program),
    )


def _tiles(program: Program) -> Iterator[Candidate]:
    """Which tiles are used, in which order, and each once."""
    yield from tails.fewer_tiles(program)
    if _by_fragments(program):
        yield from registers.interchanged(program)
    yield from tile_orders.repeated_quotients(program)
    yield from tile_orders.group_sizes(program)
    yield from prefetches.unused_tiles(program)
    yield from tails.numbered_steps(program)


def _fragments(program: Program) -> Iterator[Candidate]:
    """Rows, columns and k of what a thread holds of mma's operands."""
    yield from fragments.wrong_fragments(program)
    yield from fragments.transposed_loads(program)
    yield from index_arithmetic.other_offsets(program)
    yield from index_arithmetic.other_numbers(program)
    yield from index_arithmetic.other_factors(program)


def _values(program: Program, fault: Fault) -> Iterator[Candidate]:
    if fault.large:
        yield from overflows(program)
    yield from scalars.unused_scalars(program)
    if fault.scaled:
        yield from scalars.repeated_scalars(program)
    yield from epilogues.rewritten_stores(program)
    likely, others = indices.leading_dimensions(program)
    yield from accumulators.unset(program)
    yield from accumulators.unfilled_fragments(program)
    yield from passed_pitches(program)
    yield from _tiles(program)
    if _by_fragments(program):
        yield from _fragments(program)
    if fault.unwritten:
        yield from _block_numbers(program)
        yield from launches.floor_grids(program)
        yield from index_arithmetic.counterpart_divisors(program)
        yield from likely
        yield from bounds.swapped_guards(program)
        yield from launches.swapped_axes(program)
    yield from overlapping_arrays(program)
    yield from _sums(program)
    yield from counters.missing_counters(program)
    yield from epilogues.too_often(program)
    yield from epilogues.late_biases(program)
    yield from epilogues.activated_terms(program)
    yield from tails.wrong_steps(program, computed=True)
    yield from stages.unlike_stages(program)
    yield from stages.unswitched(program)
    yield from swizzles.unlike_swizzles(program)
    yield from index_arithmetic.unlike_strides(program)
    yield from late_returns(program)
    yield from _block_numbers(program)
    yield from pointer_steps.steps_of_loops(program)
    yield from counterparts.other_layouts(program)
    yield from likely
    yield from index_arithmetic.counterpart_divisors(program)
    yield from _in_turn(
        like_expressions.unlike_expressions(program),
        tails.short_loops(program),
        others,
        counterparts.other_threads(program),
        chain(bounds.comparisons(program, fault, tighter=False), bounds.comparisons(program, fault, tighter=True)),
        chain(launches.swapped_axes(program), block_shapes.other_blocks(program)),
        indices.swapped_indices(program),
        chain(indices.swapped_arrays(program), zero_fill.unfilled_tiles(program)),
        chain(counters.other_counters(program), bounds.swapped_guards(program), bounds.loop_extents(program)),
        chain(indices.tile_constants(program), stages.other_stages(program)),
        tails.wrong_steps(program, computed=False),
        index_arithmetic.other_strides(program),
        chain(index_arithmetic.other_numbers(program), index_arithmetic.other_factors(program)),
        chain(index_arithmetic.other_operators(program), index_arithmetic.other_offsets(program)),
    )
    yield from guards.missing_guards(program)
    yield from launches.floor_grids(program)
    yield from overflows(program)


_BY_KIND: dict[str, Callable[[Program, Fault], Iterator[Candidate]]] = {
    "race": _races,
    "barrier": _stuck,
    "threads": lambda program, _: block_shapes.smaller_blocks(program),
    "launch": lambda program, _: passed_arguments(program),
    "mask": lambda program, _: warp_functions.masks(program),
    "bounds": _outside,
    "alignment": _outside,
    "value": _values,
}


def _in_turn(*groups: Iterable[Candidate]) -> Iterator[Candidate]:
    """Two of each group at a time, so that none waits for the whole of another."""
    open_groups = [iter(group) for group in groups]
    while open_groups:
        left = []
        for group in open_groups:
            some = list(islice(group, 2))
            yield from some
            if some:
                left.append(group)
        open_groups = left
