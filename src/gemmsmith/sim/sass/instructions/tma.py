"""TMA and stores to other blocks: copies that mbarriers count.

Uniform registers in a row say where to write, the mbarrier, and the coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.instructions.async_store import AsyncStore
from gemmsmith.sim.instructions.bulk_copy import Transfer
from gemmsmith.sim.instructions.record import Draft, nothing
from gemmsmith.sim.lowering.operation import Pointer, Slot
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Access, Effect, Space
from gemmsmith.sim.memory.tensor_box import CHUNK
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.instructions.once import STAYS, once
from gemmsmith.sim.sass.meaning import Part, join, lanewise, modelled
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import Bracketed, MachineInstruction, Operand, Register


def joined(code: Code, first: Operand, plus: int = 0) -> Slot:
    """A row with the 64 bits of two uniform registers, from the one that lies ``plus`` further on."""
    if not isinstance(first, Register) or first.number is None:
        raise Refused
    target = code.unused("u64")
    words = code.words(Register(first.file, first.number + plus), 2)
    code.before.append(lanewise(join, (target,), words, counted=False))
    return target


def inside(operand: Operand, name: str = "") -> Register:
    """The one register in an operand's brackets."""
    if not isinstance(operand, Bracketed) or operand.name != name or len(operand.groups[-1]) != 1:
        raise Refused
    (register,) = operand.groups[-1]
    if not isinstance(register, Register) or register.number is None:
        raise Refused
    return register


def _upper_half(code: Code, operand: Operand) -> Slot:
    """The mask of a multicast is in the upper half of its register."""
    target = code.unused("u32")
    code.before.append(lanewise(_shifted, (target,), code.words(operand, 1), counted=False))
    return target


def _shifted(word: Any) -> Any:
    return np.asarray(word) >> np.uint32(16)


def _stas(code: Code, i: MachineInstruction) -> Part:
    """A store to another block: a pair of registers has the address and the mbarrier."""
    at, value = i.operands
    pair = inside(at)
    count = next((n for m, n in (("64", 2), ("128", 4)) if m in i.modifiers), 1)
    assert pair.number is not None
    places = tuple([code.pointer(Bracketed("", ((Register("R", pair.number + n),),))) for n in range(2)])
    form = AsyncStore("b32", count)
    name = f"st.async.shared::cluster.mbarrier::complete_tx::bytes{f'.v{count}' if count > 1 else ''}.b32"
    return modelled(name, Draft(form, (), code.words(value, count), places,
                                Access(Space.SHARED, Effect.WRITE, form.nbytes, 4, form.nbytes)))  # fmt: skip


def _utmaldg(code: Code, i: MachineInstruction) -> list[Part]:
    """Uniform registers in a row: where to write, the mbarrier, then the coordinates."""
    block, tensor, *rest = [o for o in i.operands if not (isinstance(o, Bracketed) and o.name == "desc")]
    rank = _rank(i)
    multicast = "MULTICAST" in i.modifiers
    if not rank or len(rest) != multicast:
        raise Refused
    first = inside(block)
    assert first.number is not None
    places = [code.pointer(Bracketed("", ((Register("UR", first.number + n),),))) for n in range(2)]
    coordinates = code.words(Register("UR", first.number + 2), rank, "s32")
    masks = (_upper_half(code, rest[0]),) if multicast else ()
    sources = (joined(code, inside(tensor)), *coordinates, *masks)
    form = Transfer(True, False, rank, multicast)
    name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    draft = Draft(form, (), sources, tuple(places), Access(Space.SHARED, Effect.WRITE, CHUNK, 4, 0))
    return once(code, i, modelled(name, draft))


def _utmastg(code: Code, i: MachineInstruction) -> list[Part]:
    """Uniform registers in a row: where to read, then the coordinates."""
    block, tensor = i.operands
    rank = _rank(i)
    if not rank:
        raise Refused
    first = inside(block)
    assert first.number is not None
    place = code.pointer(Bracketed("", ((Register("UR", first.number),),)))
    sources = (joined(code, inside(tensor)), *code.words(Register("UR", first.number + 1), rank, "s32"))
    name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    draft = Draft(Transfer(False, True, rank), (), sources, (place,), Access(Space.SHARED, Effect.READ, CHUNK, 4, 0))
    return once(code, i, modelled(name, draft))


def _rank(i: MachineInstruction) -> int:
    """Dimensions of the tensor; 0 if no modifier says so."""
    return next((int(m[0]) for m in i.modifiers if m in ("1D", "2D", "3D", "4D", "5D")), 0)


def _utmacmdflush(code: Code, i: MachineInstruction) -> Part:
    """The stores of a thread so far become a group, for which DEPBAR.LE SB0 waits."""
    del code, i
    return modelled("cp.async.bulk.commit_group", Draft(None))


def _ublkcp(code: Code, i: MachineInstruction) -> list[Part]:
    """A copy without a tensor map: where to write and the mbarrier, the source, and the size in units of 16 bytes."""
    block, start, size = i.operands
    if i.modifiers != ("S", "G"):
        raise Refused
    first = inside(block)
    assert first.number is not None
    to, barrier = (code.pointer(Bracketed("", ((Register("UR", first.number + n),),))) for n in range(2))
    nbytes = code.unused("u32")
    code.before.append(lanewise(_sixteens, (nbytes,), code.words(size, 1), counted=False))
    source = Pointer(joined(code, inside(start)), 0)
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    draft = Draft(Transfer(True, False), (), (nbytes,), (to, source, barrier),
                  Access(Space.SHARED, Effect.WRITE, CHUNK, 4, 0))  # fmt: skip
    return once(code, i, modelled(name, draft))


def _sixteens(count: Any) -> Any:
    return np.asarray(count) * np.uint32(CHUNK)


def _hint(code: Code, i: MachineInstruction) -> Part:
    """A prefetch of a tensor map."""
    del code, i
    return Part(STAYS, nothing, Draft(None))


RECORDS = (
    Opcode("UTMALDG", _utmaldg, "1D 2D 3D 4D 5D MULTICAST"),
    Opcode("UTMASTG", _utmastg, "1D 2D 3D 4D 5D"),
    Opcode("UTMACMDFLUSH", _utmacmdflush),
    Opcode("UBLKCP", _ublkcp, "S G"),
    Opcode("STAS", _stas, "64 128"),
    Opcode("UTMACCTL", _hint, "PF"),
)
