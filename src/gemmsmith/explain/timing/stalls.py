"""Stall reasons under ncu's names: of a launch, of each instruction, of each source line."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.timing.outcome import REASONS, SELECTED, Outcome


@dataclass(frozen=True)
class StallRow:
    """An instruction or a line: how often it issued for a warp, and the cycles that warps waited for it, by reason."""

    file: str
    line: int
    text: str
    issued: float
    stalls: tuple[tuple[str, float], ...]

    @property
    def cycles(self) -> float:
        """Cycles that warps waited, over all reasons."""
        return sum(value for _, value in self.stalls)


def reasons_of(outcome: Outcome) -> list[tuple[str, float]]:
    """Cycles that warps waited for each instruction that they issued, by reason, the longest first."""
    totals = [sum(tally[n] for tally in outcome.stalls.values()) / max(1, outcome.issued) for n in range(len(REASONS))]
    found = [(name, value) for name, value in zip(REASONS, totals, strict=True) if value > 0]
    return sorted(found, key=lambda item: -item[1])


def by_instruction(outcome: Outcome, program: MachineProgram) -> list[StallRow]:
    """Every instruction that issued, in the order of the code."""
    rows = []
    for position in sorted(outcome.stalls):
        i, tally = program.instructions[position], outcome.stalls[position]
        rows.append(StallRow(i.file, i.line, str(i), tally[SELECTED], _named(tally)))
    return rows


def by_line(outcome: Outcome, program: MachineProgram) -> list[StallRow]:
    """Every source line, the one that warps wait at longest first."""
    sums: dict[tuple[str, int], list[float]] = {}
    for position, tally in outcome.stalls.items():
        i = program.instructions[position]
        mine = sums.setdefault((i.file, i.line), [0.0] * len(REASONS))
        for n, value in enumerate(tally):
            mine[n] += value
    rows = [StallRow(file, line, "", tally[SELECTED], _named(tally)) for (file, line), tally in sums.items()]
    return sorted(rows, key=lambda row: -row.cycles)


def _named(tally: list[float]) -> tuple[tuple[str, float], ...]:
    found = [
        (name, value) for n, (name, value) in enumerate(zip(REASONS, tally, strict=True)) if value > 0 and n != SELECTED
    ]
    return tuple(sorted(found, key=lambda item: -item[1]))
