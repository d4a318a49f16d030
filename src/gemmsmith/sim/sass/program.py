"""A kernel's machine code as operations: the same ``Lowered`` that PTX becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim.lowering.operation import Lowered, Operation, Slot, Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Counted, Executed, Traits
from gemmsmith.sim.memory.global_memory import LOCAL_WINDOW, SHARED_WINDOW
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.image import Parameter
from gemmsmith.sim.sass.instructions.table import table
from gemmsmith.sim.sass.meaning import Part
from gemmsmith.sim.sass.reader import Routine
from gemmsmith.sim.sass.syntax import MachineInstruction
from gemmsmith.sim.special import SPECIAL, Value

# Instructions of kernels whose shared addresses name the block of a cluster.
_OF_CLUSTERS = ("UCGABAR_ARV", "UCGABAR_WAIT", "CGAERRBAR")
# What stands between accesses to memory and an arrival at the cluster's barrier that releases them; nothing does before
# barrier.cluster.arrive.relaxed.
_CLUSTER_FENCE = "CGAERRBAR"
_ACCESSES = ("LD", "ST", "ATOM", "RED")
# Architectures whose machine code is executed.
EXECUTED = (80, 86, 87, 89, 90)


@dataclass(frozen=True)
class MachineProgram(Lowered):
    """The operations of a kernel's machine code.

    ``instructions`` has the instruction of each operation, by position; ``counted`` the positions that stand for one.
    ``banks`` are the constant banks as bytes in global memory, with their addresses. ``for_clusters`` lowers the kernel
    again, with shared addresses that name a block of a cluster; None where they do already.
    """

    instructions: tuple[MachineInstruction, ...] = ()
    counted: frozenset[int] = frozenset()
    banks: dict[int, tuple[int, Array]] = field(default_factory=dict)
    first_parameter: int = 0  # in bank 0
    parameters: tuple[Parameter, ...] = ()
    for_clusters: Callable[[], MachineProgram] | None = None

    def special_value(self, name: str) -> Value:
        if name in SPECIAL:
            return SPECIAL[name].value
        if name.startswith("c["):
            bank, offset = (int(part) for part in name[2:-1].split("]["))
            word = self.banks[bank][1][offset : offset + 4]  # fewer bytes at the end of a bank of narrow constants
            return lambda _: int.from_bytes(word.tobytes(), "little")
        if name.startswith("bank "):
            address = self.banks[int(name.split()[1])][0]
            half = address >> 32 if "upper" in name else address & 0xFFFFFFFF
            return lambda _: half
        value = {"shared window, upper word": SHARED_WINDOW >> 32, "local window, upper word": LOCAL_WINDOW >> 32}
        return lambda _: value.get(name, 0)


def lower_routine(
    routine: Routine, arch: int, banks: dict[int, tuple[int, Array]], static_shared: int, local: int,
    first_parameter: int, mod32: bool = False, parameters: tuple[Parameter, ...] = (), clusters: bool = False,
) -> MachineProgram:  # fmt: skip
    """Lower all instructions of a kernel; raises ``UnknownInstructionError`` for one that is not known.

    ``clusters``: its blocks have a rank in a cluster, even if no instruction tells.
    """
    clusters = clusters or any(i.opcode in _OF_CLUSTERS or "MULTICAST" in i.modifiers for i in routine.instructions)
    code = Code(arch, mod32, clusters)
    operations: list[Operation[Any]] = []
    instructions: list[MachineInstruction] = []
    counted: set[int] = set()
    starts: dict[int, int] = {}
    for i in routine.instructions:
        starts[i.offset] = len(operations)
        written = Instruction(i.name, (), None, False, i.file, i.line, str(i))
        for part in _parts(code, i):
            if part.counted:
                counted.add(len(operations))
            operations.append(_operation(code, len(operations), i, written, part))
            instructions.append(i)
        code.published = i.opcode == _CLUSTER_FENCE or (code.published and not i.opcode.startswith(_ACCESSES))
    end = len(operations)
    code.places.positions = np.array([starts.get(16 * n, end) for n in range(len(starts) + 1)], np.int64)
    labels = {name: starts.get(offset, end) for name, offset in routine.labels}
    return MachineProgram(tuple(operations), labels, code.heights, code.special, static_shared, local,
                          machine_code=True, instructions=tuple(instructions), counted=frozenset(counted),
                          banks=banks, first_parameter=first_parameter, parameters=parameters,
                          for_clusters=None if clusters else partial(
                              lower_routine, routine, arch, banks, static_shared, local, first_parameter, mod32,
                              parameters, clusters=True))  # fmt: skip


def _parts(code: Code, i: MachineInstruction) -> Sequence[Part]:
    record, code.before = table().get(i.opcode), []
    register = ""
    if record is not None and record.takes(i.modifiers):
        try:
            found = record.lower(code, i)
            return [*code.before, *([found] if isinstance(found, Part) else found)]
        except Refused as refused:
            register = refused.register
        except (ValueError, IndexError, StopIteration, KeyError, AssertionError):
            pass  # other operands than the record unpacks
    raise unknown(i, register)


def unknown(i: MachineInstruction, register: str = "") -> UnknownInstructionError:
    """The error for an instruction that no record takes, or for the special register that it reads."""
    what = f"special register {register!r} of {i.name!r}" if register else f"machine instruction {i.name!r}"
    where = f"{i.file}:{i.line}" if i.line else f"offset {i.offset:#x}"
    return UnknownInstructionError(
        f"the simulator does not know the {what} ({i}; {where})", "its PTX is simulated instead: leave --level at ptx"
    )


def _operation(code: Code, position: int, i: MachineInstruction, written: Instruction, part: Part) -> Operation[Any]:
    draft, guard, negated = part.draft, None, False
    if part.guard is not None:
        guard, negated = part.guard
    elif part.guarded and i.guard is not None and i.guard.number is not None:
        guard, negated = code.row(i.guard.file, i.guard.number, "pred"), i.guard.sign == "!"
    elif part.guarded and i.guard is not None and i.guard.sign:
        guard = code.hidden("false", "pred")  # !PT: a row that is never written
    traits = _counting(part.traits, Executed.ISSUED if part.counted else Executed.NEVER)
    key = (traits, part.execute, draft.detail, draft.access, tuple([_form(s) for s in draft.sources]),
           tuple([_form(t) for t in draft.targets]), tuple([_form(p.base) for p in draft.pointers]),
           None if guard is None else (guard.row, negated))  # fmt: skip
    return Operation(position, written, traits, part.execute, draft.detail, draft.targets, draft.sources,
                     draft.pointers, draft.access, guard, negated, key)  # fmt: skip


@cache
def _counting(traits: Traits, executed: Executed) -> Traits:
    """The traits of a machine instruction: as those of PTX, but every one that is issued counts."""
    counts: Counted = replace(traits.counts, executed=executed)
    return replace(traits, counts=counts)


def _form(source: Source) -> tuple[str, str] | None:
    return (source.file, source.dtype.str) if isinstance(source, Slot) else None
