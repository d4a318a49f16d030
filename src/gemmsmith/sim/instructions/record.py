"""The record of an instruction: its form, how it is lowered and executed, and its traits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers, Pattern
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Pointer, Slot, Source
from gemmsmith.sim.lowering.places import Lowering
from gemmsmith.sim.lowering.rewriting import Rewriting
from gemmsmith.sim.lowering.traits import Access, Traits
from gemmsmith.sim.ptx.syntax import Instruction

F = TypeVar("F")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Draft(Generic[D]):
    """An operation without its position, guard and traits: what a record's ``lower`` returns."""

    detail: D
    targets: tuple[Slot, ...] = ()
    sources: tuple[Source, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    access: Access | None = None


@dataclass(frozen=True, eq=False)
class Record(Traits, Generic[F, D]):
    """One instruction, or several that differ only in their modifiers.

    ``pattern`` and ``where`` say which names the record takes (see ``Pattern``). ``decode`` turns the modifiers into a
    typed form, once for each name. ``lower`` turns the operands of one instruction into an operation; its ``detail`` is
    all that ``execute`` needs besides operands and memory access, and operations of different detail are not bundled.
    ``execute`` runs a bundle for lanes whose guard holds, after all that ``waits_on`` names have arrived.

    ``decode`` and ``lower`` raise ``Refused`` for what the record does not take. The next record is then asked; if none
    takes the instruction, it is unknown.
    """

    pattern: str
    _: KW_ONLY
    where: Mapping[str, str] = field(default_factory=dict)
    decode: Callable[[Modifiers], F]
    lower: Callable[[Lowering, Instruction, F], Draft[D]]
    execute: Callable[[Execution, Bundle[D], Lanes], None]

    @property
    def matcher(self) -> Pattern:
        return Pattern(self.pattern, self.where)


@dataclass(frozen=True, eq=False)
class Composite:
    """An instruction that ptxas builds from others: ``expand`` returns these, or raises ``Refused``."""

    pattern: str
    expand: Callable[[Rewriting, Instruction, Modifiers], Sequence[Instruction]]
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def matcher(self) -> Pattern:
        return Pattern(self.pattern, self.where)


AnyRecord = Record[Any, Any]


def no_form(_: Modifiers) -> None:
    """The ``decode`` of an instruction whose modifiers say nothing that matters."""


def nothing(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    """The ``execute`` of an instruction that changes nothing here."""
    del machine, step, lanes
