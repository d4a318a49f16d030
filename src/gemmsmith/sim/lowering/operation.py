"""A lowered instruction: what it reads and writes, as rows of register files.

Registers are rows of four arrays, by width: predicates, 16, 32 and 64 bits. An operation names the rows it reads and
writes, so that independent operations of one kind can run as one NumPy call (``bundle.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from gemmsmith.sim.lowering.traits import Access, Flow, Profiled, Space, Traits
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.special import SPECIAL, Value

# Register files by the bytes of a register.
FILES = {1: "p", 2: "h", 4: "w", 8: "d"}
FILE_DTYPES: dict[str, np.dtype[Any]] = {
    "p": np.dtype(bool), "h": np.dtype(np.uint16), "w": np.dtype(np.uint32), "d": np.dtype(np.uint64),
}  # fmt: skip

Cell = tuple[str, int]
D = TypeVar("D")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of a register file, seen as ``dtype``. A ``dtype`` narrower than the row is converted."""

    file: str
    row: int
    dtype: np.dtype[Any]

    @property
    def cell(self) -> Cell:
        return self.file, self.row


Source = Slot | np.generic


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address operand: a base, which is a register or a constant, and an offset in bytes."""

    base: Source
    offset: int


@dataclass(frozen=True, slots=True)
class Operation(Generic[D]):
    """One instruction, ready to run. Operations of equal ``key`` may run as one.

    ``detail`` is what this kind of instruction needs besides operands: its record's ``lower`` makes it, and its
    record's ``execute``, which is ``execute`` here, uses it. ``position`` is the operation's index in the program.
    """

    position: int
    instruction: Instruction
    traits: Traits = field(repr=False)
    execute: Callable[..., None] = field(repr=False)
    detail: D
    targets: tuple[Slot, ...]
    sources: tuple[Source, ...]
    pointers: tuple[Pointer, ...]
    access: Access | None
    guard: Slot | None
    negated: bool
    key: tuple[Any, ...] = field(repr=False)

    def reads(self) -> list[Cell]:
        cells = [(s.file, s.row) for s in self.sources if isinstance(s, Slot)]
        for pointer in self.pointers:
            if isinstance(pointer.base, Slot):
                cells.append(pointer.base.cell)
        if self.guard is not None:
            cells.append(self.guard.cell)
        return cells

    def writes(self) -> list[Cell]:
        return [(t.file, t.row) for t in self.targets]

    @property
    def space(self) -> Space | None:
        """The state space that the operation accesses; a copy writes to it."""
        return None if self.access is None else self.access.space

    @property
    def profiled(self) -> Profiled:
        """How a profiler sees the operation."""
        return self.traits.counts.seen(self.space)


@dataclass(frozen=True, slots=True)
class Branch:
    """The ``detail`` of an operation that jumps."""

    label: str


@dataclass(frozen=True)
class Lowered:
    """An entry's operations, label positions, register-file heights, special registers and memory layout.

    ``start`` is where the entry begins, after the functions that it calls. ``local_size`` is all local memory of a
    thread, of which the entry itself has the first ``frame_size`` bytes. ``functions`` has the addresses that pointers
    to functions hold.
    """

    operations: tuple[Operation[Any], ...]
    labels: dict[str, int]
    heights: dict[str, int]
    special: dict[str, Slot]
    static_shared: int
    local_size: int
    start: int = 0
    frame_size: int = 0
    functions: dict[str, int] = field(default_factory=dict)
    shared_variables: tuple[tuple[str, int, int], ...] = ()  # name, first byte, size; 0 for dynamic shared memory
    machine_code: bool = False  # the operations are those of SASS, not of PTX
    reserved_shared: int = 0  # bytes of ``static_shared`` that are CUDA's, not the kernel's

    @cached_property
    def _facts(self) -> dict[Callable[[Lowered], Any], Any]:
        return {}

    def fact(self, find: Callable[[Lowered], F]) -> F:
        """What ``find`` finds in the program, looked for once."""
        if find not in self._facts:
            self._facts[find] = find(self)
        found: F = self._facts[find]
        return found

    def special_value(self, name: str) -> Value:
        """What a special register holds in every lane."""
        return SPECIAL[name].value

    def loops(self) -> list[tuple[int, int]]:
        """The first and last position of each loop: a branch that jumps back, and where it jumps to."""
        return [
            (self.labels[operation.detail.label], operation.position)
            for operation in self.operations
            if operation.traits.flow is Flow.BRANCH
            and self.labels.get(operation.detail.label, operation.position + 1) <= operation.position
        ]
