"""Profile a launch on the simulator, from the actual addresses of all blocks or of a sample."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UnknownInstructionError, UnsupportedError
from gemmsmith.explain.access_pattern import access_patterns
from gemmsmith.explain.crosscheck import cross_check
from gemmsmith.explain.hopper_counts import is_tma, tensor_work, tma_counts
from gemmsmith.explain.instruction_mix import machine_mix, simulated_mix
from gemmsmith.explain.machine_profile import EXECUTED, executed_mix, instruction_rows, program_of
from gemmsmith.explain.metrics import simulated
from gemmsmith.explain.profile import FLIGHT, MACHINE, PTX, REQUESTED, SECTOR, Line, Profile
from gemmsmith.explain.sampling import Counted, count_launch
from gemmsmith.explain.source_text import source_lines
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.traits import Effect, Flow, Space


class Level(StrEnum):
    """What is executed and counted."""

    AUTO = "auto"
    MACHINE = "sass"
    PTX = "ptx"


def simulate(
    spec: KernelSpec,
    config: Config,
    problem: Problem,
    compiled: CompiledKernel,
    *,
    sample: int = 0,
    depth: int = 0,
    sass: Sass | None = None,
    level: Level = Level.PTX,
) -> Profile:
    """Profile a launch on the simulator; ``sample`` and ``depth`` are those of ``sampling.count_launch``.

    Pass ``sass`` if it is at hand: disassembling takes most of a second. ``level`` AUTO executes the machine code, or
    the PTX where that cannot be done; ``Profile.level`` says which it was.
    """
    reason = ""
    if level is Level.PTX:
        counted = count_launch(spec, config, problem, compiled, sample, depth)
    else:
        try:
            counted = count_launch(spec, config, problem, compiled, sample, depth, machine=True)
        except (UnknownInstructionError, UnsupportedError) as error:
            if level is Level.MACHINE:
                raise
            reason = error.message
            counted = count_launch(spec, config, problem, compiled, sample, depth)
    found = profile_of(spec.name, str(config), problem, compiled, counted, sass or disassemble(compiled),
                       spec.source.name, lambda file: source_lines(spec, file))  # fmt: skip
    return replace(found, level_reason=reason)


def counted_alike(
    both: Sequence[Callable[[Level], tuple[Profile, Sass]]], counted: Callable[[], None] = lambda: None
) -> list[tuple[Profile, Sass]]:
    """What is counted of kernels that are compared: the machine code of all of them, or else the PTX of all."""
    found = []
    for count in both:
        found.append(count(Level.AUTO))
        counted()
    reasons = [profile.level_reason for profile, _ in found if profile.level == PTX]
    if not reasons:
        return found
    made = [each if each[0].level == PTX else count(Level.PTX) for count, each in zip(both, found, strict=True)]
    return [(replace(profile, level_reason=reasons[0]), sass) for profile, sass in made]


def profile_of(
    kernel: str, config: str, problem: Problem, compiled: CompiledKernel, counted: Counted, sass: Sass, file: str,
    text_of: Callable[[str], list[str]],
) -> Profile:  # fmt: skip
    """The profile of counted blocks. ``file`` is the kernel's source, and ``text_of`` has the lines of any file."""
    counters = counted.counters
    program = program_of(counters)
    rows = instruction_rows(counters, program) if program is not None else ()
    machine, trips = (executed_mix(rows), 0.0) if program is not None else machine_mix(counters, sass)
    mix = machine if program is not None else simulated_mix(counters)
    issued = {EXECUTED: sum(row.executed for row in rows)} if program is not None else {}
    executed = sum(c.executed for c in counters.by_position.values())
    threads = sum(c.threads for c in counters.by_position.values())
    branches = [c for operation, c in counters.items() if operation.traits.flow is Flow.BRANCH]
    taken, divergent = sum(c.executed for c in branches), sum(c.divergent for c in branches)
    return Profile(
        kernel=kernel, config=config, problem=problem, device=f"simulator ({compiled.arch})",
        origin="simulated", arch=compiled.arch, geometry=counters.geometry, resources=compiled.resources,
        metrics=(*simulated(counters).items(), *issued.items(), *_bytes(counters).items()),
        lines=_lines(counters, file, text_of),
        mix=tuple(mix.most_common()), machine_mix=tuple(machine.most_common()), loop_trips=trips,
        active_lanes=threads / executed if executed else math.nan,
        branch_efficiency=100 * (1 - divergent / taken) if taken else 100.0,
        checks=() if program is not None else cross_check(counters, sass), sampled_blocks=counted.blocks,
        sampled_depth=counted.depth, errors=counted.errors, patterns=access_patterns(counters, file, text_of),
        tensor_work=tensor_work(counters), pieces=counted.pieces, level=PTX if program is None else MACHINE,
        instructions=rows,
    )  # fmt: skip


def _bytes(counters: Counters) -> dict[str, int]:
    """Bytes requested per space; for global memory also the distinct bytes, and those that the sectors can hold.

    Besides, how long asynchronous copies were in flight.
    """
    kinds = (f"{what}_{op}_bytes" for what in ("used", "packed") for op in ("load", "store"))
    total = dict.fromkeys((*REQUESTED.values(), *kinds, FLIGHT), 0)
    for operation, count in counters.items():
        if (access := operation.access) is None or is_tma(counters, operation.position):
            continue
        op = "store" if access.effect is Effect.WRITE else "load"
        if access.space is Space.LOCAL:
            total[f"local_{op}_bytes"] += count.threads * access.width
        elif count.groups:
            total[f"shared_{op}_bytes"] += count.bytes
        elif count.sectors:
            total[f"requested_{op}_bytes"] += count.bytes
            total[f"used_{op}_bytes"] += count.used
            total[f"packed_{op}_bytes"] += min(count.bytes, SECTOR * count.sectors)
            total["copied_bytes"] += count.bytes if access.effect is Effect.COPY else 0
            total[FLIGHT] += count.flight
    return {**total, **tma_counts(counters)}


def _lines(counters: Counters, own: str, text_of: Callable[[str], list[str]]) -> tuple[Line, ...]:
    """Counts by source line in file order, the kernel's file before its headers."""
    executed: Counter[tuple[str, int]] = Counter()
    callers: dict[tuple[str, int], dict[str, None]] = {}
    totals: dict[tuple[str, int], Counter[str]] = {}
    for operation, count in counters.items():
        where = operation.instruction.file, operation.instruction.line
        executed[where] += count.executed
        if where[0] != own and operation.instruction.caller:
            callers.setdefault(where, {})[operation.instruction.caller] = None
        totals.setdefault(where, Counter()).update(counters.metrics(operation, count))
    texts = {file: text_of(file) for file, _ in executed}
    lines = []
    for file, number in sorted(executed, key=lambda w: (w[0] != own, w)):
        text = texts[file][number - 1] if 0 < number <= len(texts[file]) else ""
        values = tuple((name, value) for name, value in totals[file, number].items() if value)
        lines.append(Line(file, number, text, executed[file, number], values,
                          called_at=tuple(callers.get((file, number), ()))))  # fmt: skip
    return tuple(lines)
