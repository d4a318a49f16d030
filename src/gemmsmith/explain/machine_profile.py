"""The machine's own counts: every instruction of a launch whose machine code was executed."""

from __future__ import annotations

from collections import Counter

from gemmsmith.explain.instruction_mix import sass_class
from gemmsmith.explain.profile import InstructionRow
from gemmsmith.sim.counters import Counters, Counts
from gemmsmith.sim.sass.pipes import pipe_of
from gemmsmith.sim.sass.program import MachineProgram

EXECUTED = "smsp__inst_executed.sum"


def program_of(counters: Counters) -> MachineProgram | None:
    """The machine code that was counted; None for PTX."""
    return counters.lowered if isinstance(counters.lowered, MachineProgram) else None


def instruction_rows(counters: Counters, program: MachineProgram) -> tuple[InstructionRow, ...]:
    """Every instruction in the order of the code, with its counts."""
    rows = []
    for position in sorted(program.counted):
        i, operation = program.instructions[position], program.operations[position]
        count = counters.by_position.get(position) or Counts()
        metrics = counters.metrics(operation, count) if position in counters.by_position else {}
        control = i.control
        barriers = tuple([b for b in (control.write_barrier, control.read_barrier) if b is not None])
        rows.append(InstructionRow(i.offset, str(i), i.file, i.line, count.executed, count.threads,
                                   tuple((name, value) for name, value in metrics.items() if value),
                                   pipe_of(i).value, control.stall, control.wait, barriers))  # fmt: skip
    return tuple(rows)


def executed_mix(rows: tuple[InstructionRow, ...]) -> Counter[str]:
    """Executed machine instructions by class."""
    mix: Counter[str] = Counter()
    for row in rows:
        mix[sass_class(row.opcode)] += row.executed
    return mix
