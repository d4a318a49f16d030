"""What a prediction says: the time of a product, of each launch and of each round of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemmsmith.explain.timing.stalls import reasons_of
from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.sass.syntax import MachineInstruction
from gemmsmith.sim.timing.outcome import Outcome

_MOST_OF_THE_TIME = 0.75  # of the time: a unit that works for longer bounds a launch


@dataclass(frozen=True)
class RoundTime:
    """One round of blocks on an SM. ``cycles`` are at the real K; ``outcome`` is that of the longer short K."""

    blocks: int
    cycles: float
    outcome: Outcome


TimedRounds = Sequence[tuple[int, RoundTime]]  # how often each kind of round runs


def longest_of(rounds: TimedRounds) -> RoundTime:
    """The kind of round that most of the time passes in."""
    return max(rounds, key=lambda item: item[0] * item[1].cycles)[1]


@dataclass(frozen=True)
class LaunchTime:
    """The time of one launch."""

    kernel: str
    blocks: int
    resident: int
    cycles: float
    us: float
    rounds: TimedRounds = ()


@dataclass(frozen=True)
class Predicted:
    """The time of a product. ``low`` and ``high`` bound what the model missed by on kernels of this kind."""

    kernel: str
    gpu: str
    us: float
    low_us: float
    high_us: float
    mhz: float
    launches: tuple[LaunchTime, ...]
    bound: str
    busy: tuple[tuple[str, float], ...]
    origin: str = "predicted"

    @property
    def main(self) -> LaunchTime:
        return self.launches[-1]

    @property
    def outcome(self) -> Outcome:
        """Of the round that most of the time passes in."""
        return longest_of(self.main.rounds).outcome


@dataclass(frozen=True)
class Changes:
    """What a what-if takes away: parameters of the SM, bank conflicts, lines, the way to DRAM, instructions.

    ``dropped`` says of an instruction whether it is left out.
    """

    sm: Mapping[str, Any] = field(default_factory=dict)
    conflicts: bool = True
    coalesced: bool = False
    cold: bool = True
    dropped: Callable[[MachineInstruction], bool] | None = None


def bounding_unit(outcome: Outcome) -> str | None:
    """The unit that works most of the time, if one does."""
    name, share = max(outcome.busy.items(), key=lambda item: item[1])
    return name if share >= _MOST_OF_THE_TIME else None


def bound_of(outcome: Outcome) -> str:
    """What a launch is bound by: a unit that works most of the time, else waiting, for what warps wait most for."""
    unit = bounding_unit(outcome)
    if unit is not None:
        return unit
    reason = next((r for r, _ in reasons_of(outcome) if r not in ("selected", "not_selected")), "wait")
    return f"latency ({reason.replace('_', ' ')})"


def kind_of(program: MachineProgram) -> str:
    """The kind of kernel, of which each has its own range of errors."""
    opcodes = {i.opcode for i in program.instructions}
    return "wgmma" if "HGMMA" in opcodes else "mma" if "HMMA" in opcodes else "simt"
