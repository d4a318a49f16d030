"""Instructions of sm_90: TMA, mbarriers, warpgroup products, clusters, and what a warp does once.

The bits of an mbarrier were read from compiled code: it is initialised with (2²⁰ − count) · 2 in its lower word, an
arrival's suffix says where its count (A) and its bytes (T) come from (0, 1, or R for the register), and the parity of a
phase is the highest bit of a word.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.async_copy import Arrive
from gemmsmith.sim.instructions.async_store import AsyncStore
from gemmsmith.sim.instructions.bulk_copy import Transfer
from gemmsmith.sim.instructions.cluster import ClusterWait
from gemmsmith.sim.instructions.mbarrier import Arrival, PhaseWait
from gemmsmith.sim.instructions.record import Draft, nothing
from gemmsmith.sim.instructions.wgmma import Product
from gemmsmith.sim.instructions.wgmma_groups import GroupWait
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Refused
from gemmsmith.sim.matrix_arithmetic import wgmma_arithmetic
from gemmsmith.sim.mbarriers import BYTES, phase_number
from gemmsmith.sim.operation import Pointer, Slot, Source
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.instructions.control import literal
from gemmsmith.sim.sass.meaning import PLAIN, Part, join, lanewise, modelled, ptx
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import Bracketed, MachineInstruction, Operand, Register, Symbol
from gemmsmith.sim.tensor_box import CHUNK
from gemmsmith.sim.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Space, Traits, Wait
from gemmsmith.sim.types import Array

_STAYS = Traits(bundling=Bundling.BOUNDARY)
_ALONE = Traits(bundling=Bundling.ALONE)
_OBJECT = Access(Space.SHARED, Effect.UPDATE, BYTES, BYTES, BYTES)
_COUNT_FIELD = 0x100000

# -- once in a warp -----------------------------------------------------------------------------------


def _leaders(machine: Execution, lanes: Lanes) -> Array:
    """Which of these lanes are the first of their warp."""
    warps = machine.warp[machine.indices(lanes)]
    first: Array = np.ones(warps.size, bool)
    first[1:] = warps[1:] != warps[:-1]
    return first


def _elect_lanes(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    machine.put(step.targets[0], lanes, _leaders(machine, lanes))


def _elect(code: Code, i: MachineInstruction) -> Part:
    target, mask, _ = i.operands
    if not isinstance(mask, Register) or mask.number is not None:
        raise Refused
    return Part(_STAYS, _elect_lanes, Draft(None, code.targets(target, "pred")))


def _first_of(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    """Of the lanes whose predicate holds, the first of each warp."""
    mine = machine.indices(lanes)
    holds = machine.spread(machine.fetch(step.sources[0], lanes), lanes) != step.detail
    found = np.zeros(mine.size, bool)
    found[holds] = _leaders(machine, mine[holds])
    machine.put(step.targets[0], lanes, found)


def _once(code: Code, i: MachineInstruction, part: Part) -> list[Part]:
    """A part that a warp executes once, by its first lane whose guard holds."""
    target = code.unused("pred")
    source: Source = np.bool_(True)
    if i.guard is not None and i.guard.number is not None:
        source = code.row(i.guard.file, i.guard.number, "pred")
    negated = i.guard is not None and i.guard.sign == "!"
    code.before.append(Part(_STAYS, _first_of, Draft(negated, (target,), (source,)), counted=False, guarded=False))
    return [Part(_STAYS, nothing, Draft(None)), replace(part, counted=False, guard=(target, False))]


def _broadcast(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    """The value of the first lane of each warp whose guard holds, in all lanes that are together. A predicate, if there
    is one, says for each of those lanes whether its own value is another, or what was in the predicate holds."""
    mine = machine.indices(lanes)
    values, guards, *before = (machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources)
    holds = np.flatnonzero(guards != step.detail)
    chosen = holds[_leaders(machine, mine[holds])]
    found = np.zeros(int(machine.warp[-1]) + 1, np.uint32)
    some = np.zeros(found.size, bool)
    found[machine.warp[mine[chosen]]], some[machine.warp[mine[chosen]]] = values[chosen], True
    told = mine[some[machine.warp[mine]]]
    if told.size:
        machine.put(step.targets[0], told, found[machine.warp[told]])
    if len(step.targets) > 1 and holds.size:
        differs = values[holds] != found[machine.warp[mine[holds]]]
        machine.put(step.targets[1], mine[holds], differs | before[0][holds] if before else differs)


def _r2ur(code: Code, i: MachineInstruction) -> list[Part]:
    *differs, target, value = i.operands
    guard: Source = np.bool_(True)
    if i.guard is not None and i.guard.number is not None:
        guard = code.row(i.guard.file, i.guard.number, "pred")
    negated = i.guard is not None and i.guard.sign == "!"
    targets, sources = code.targets(target, "u32"), (*code.source(i, value, "u32"), guard)
    for predicate in differs:
        if not isinstance(predicate, Register):
            raise Refused
        if predicate.number is not None:  # not PT
            targets += code.targets(predicate, "pred")
            if "OR" in i.modifiers:
                sources += (code.row(predicate.file, predicate.number, "pred"),)
    draft = Draft(negated, targets, sources)
    told = Part(_ALONE, _broadcast, draft, counted=False, guarded=False)
    return [Part(PLAIN, nothing, Draft(None)), told]


# -- mbarriers ----------------------------------------------------------------------------------------


def _count(low: Any, high: Any) -> Any:
    del high
    return np.uint32(_COUNT_FIELD) - (np.asarray(low) >> np.uint32(1))


def _parity(word: Any) -> Any:
    return np.asarray(word) >> np.uint32(31)


def _token(state: Any) -> tuple[Any, Any]:
    """What an arrival returns: the phase's parity as the highest bit."""
    parity = (phase_number(np.asarray(state)) % 2).astype(np.uint32)
    return np.zeros_like(parity), parity << np.uint32(31)


def _syncs(code: Code, i: MachineInstruction) -> list[Part]:
    if "EXCH" in i.modifiers:
        return [_initialise(code, i)]
    if "ARRIVE" in i.modifiers:
        return _arrive(code, i)
    if "PHASECHK" in i.modifiers:
        return [_wait(code, i)]
    if "CCTL" in i.modifiers:
        draft = Draft(False, pointers=(code.pointer(i.operands[0], wide=False),), access=_OBJECT)
        return [modelled("mbarrier.inval.shared.b64", draft)]
    raise Refused


def _initialise(code: Code, i: MachineInstruction) -> Part:
    target, at, value = i.operands
    if not isinstance(target, Register) or target.number is not None:
        raise Refused
    count = code.unused("u32")
    code.before.append(lanewise(_count, (count,), code.words(value, 2), counted=False))
    return modelled("mbarrier.init.shared.b64", Draft(False, (), (count,), (code.pointer(at, wide=False),), _OBJECT))


def _arrive(code: Code, i: MachineInstruction) -> list[Part]:
    target, at, value = i.operands
    form = next((m for m in i.modifiers if m in ("A1T0", "ART0", "A0TR", "A0T1")), "A1TR")
    if form == "A0T1":  # what an arrival of copies will complete: ARRIVES does both
        return [Part(_STAYS, nothing, Draft(None))]
    source: Source = np.uint32(1) if form == "A1T0" else code.source(i, value, "u32")[0]
    pointer = code.pointer(at, wide=False)
    if form == "A0TR":
        draft: Draft[Any] = Draft(False, (), (source,), (pointer,), _OBJECT)
        return [modelled("mbarrier.expect_tx.relaxed.cta.shared::cluster.b64", draft)]
    wanted = isinstance(target, Register) and target.number is not None
    state = code.unused("u64")
    detail = Arrival(False, False, True, form == "A1TR")
    part = modelled("mbarrier.arrive.shared.b64",
                    Draft(detail, (state,) if wanted else (), (source,), (pointer,), _OBJECT))  # fmt: skip
    if not wanted:
        return [part]
    return [part, replace(lanewise(_token, code.targets(target, "u32", 2), (state,), counted=False), guarded=True)]


def _arrives(code: Code, i: MachineInstruction) -> Part:
    """An arrival when the thread's asynchronous copies have landed; with TRANSCNT the phase is told to expect it."""
    draft = Draft(Arrive(False, "TRANSCNT" not in i.modifiers), pointers=(code.pointer(i.operands[0], wide=False),),
                  access=_OBJECT)  # fmt: skip
    return modelled("cp.async.mbarrier.arrive.shared.b64", draft)


def _wait(code: Code, i: MachineInstruction) -> Part:
    done, at, phase = i.operands
    parity = code.unused("u32")
    code.before.append(lanewise(_parity, (parity,), code.source(i, phase, "u32"), counted=False))
    name = "mbarrier.try_wait.parity.shared.b64"
    return modelled(name, Draft(PhaseWait(False, True), code.targets(done, "pred"), (parity,),
                                (code.pointer(at, wide=False),), _OBJECT))  # fmt: skip


# -- TMA ----------------------------------------------------------------------------------------------


def _joined(code: Code, first: Operand, plus: int = 0) -> Slot:
    """A row with the 64 bits of two uniform registers, from the one that lies ``plus`` further on."""
    if not isinstance(first, Register) or first.number is None:
        raise Refused
    target = code.unused("u64")
    words = code.words(Register(first.file, first.number + plus), 2)
    code.before.append(lanewise(join, (target,), words, counted=False))
    return target


def _inside(operand: Operand, name: str = "") -> Register:
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
    pair = _inside(at)
    count = next((n for m, n in (("64", 2), ("128", 4)) if m in i.modifiers), 1)
    assert pair.number is not None
    places = tuple([code.pointer(Bracketed("", ((Register("R", pair.number + n),),)), wide=False) for n in range(2)])
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
    first = _inside(block)
    assert first.number is not None
    places = [code.pointer(Bracketed("", ((Register("UR", first.number + n),),)), wide=False) for n in range(2)]
    coordinates = code.words(Register("UR", first.number + 2), rank, "s32")
    masks = (_upper_half(code, rest[0]),) if multicast else ()
    sources = (_joined(code, _inside(tensor)), *coordinates, *masks)
    form = Transfer(True, False, rank, multicast)
    name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    draft = Draft(form, (), sources, tuple(places), Access(Space.SHARED, Effect.WRITE, CHUNK, 4, 0))
    return _once(code, i, modelled(name, draft))


def _utmastg(code: Code, i: MachineInstruction) -> list[Part]:
    """Uniform registers in a row: where to read, then the coordinates."""
    block, tensor = i.operands
    rank = _rank(i)
    if not rank:
        raise Refused
    first = _inside(block)
    assert first.number is not None
    place = code.pointer(Bracketed("", ((Register("UR", first.number),),)), wide=False)
    sources = (_joined(code, _inside(tensor)), *code.words(Register("UR", first.number + 1), rank, "s32"))
    name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    draft = Draft(Transfer(False, True, rank), (), sources, (place,), Access(Space.SHARED, Effect.READ, CHUNK, 4, 0))
    return _once(code, i, modelled(name, draft))


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
    first = _inside(block)
    assert first.number is not None
    to, barrier = (code.pointer(Bracketed("", ((Register("UR", first.number + n),),)), wide=False) for n in range(2))
    nbytes = code.unused("u32")
    code.before.append(lanewise(_sixteens, (nbytes,), code.words(size, 1), counted=False))
    source = Pointer(_joined(code, _inside(start)), 0)
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    draft = Draft(Transfer(True, False), (), (nbytes,), (to, source, barrier),
                  Access(Space.SHARED, Effect.WRITE, CHUNK, 4, 0))  # fmt: skip
    return _once(code, i, modelled(name, draft))


def _sixteens(count: Any) -> Any:
    return np.asarray(count) * np.uint32(CHUNK)


# -- warpgroup products -------------------------------------------------------------------------------

_INPUTS = {"BF16": "bf16", "TF32": "tf32", "S8": "s8", "U8": "u8", "E4M3": "e4m3", "E5M2": "e5m2"}
_DEFAULT = {"HGMMA": "f16", "IGMMA": "s8", "QGMMA": "e4m3"}
_HGMMA = Counted(Profiled(Mix.TENSOR))


@cache
def _at_once(name: str) -> Traits:
    return replace(ptx(name).record, waits_on=Wait.NOTHING)


def _gmma(code: Code, i: MachineInstruction) -> list[Part]:
    shape = next(m for m in i.modifiers if "x" in m)
    if not set(i.modifiers) <= {shape, "F32", "F16", "SAT", *_INPUTS}:
        raise Refused
    rows, columns, depth = shape.split("x")
    inputs = [_INPUTS[m] for m in i.modifiers if m in _INPUTS] or [_DEFAULT[i.opcode]]
    kinds = inputs * 2 if len(inputs) == 1 else inputs
    result = "s32" if i.opcode == "IGMMA" else "f16" if "F16" in i.modifiers else "f32"
    name = f"wgmma.mma_async.sync.aligned.m{rows}n{columns}k{depth}.{result}.{kinds[0]}.{kinds[1]}"
    name += ".satfinite" if "SAT" in i.modifiers else ""
    form = ptx(name).form
    target, *operands = i.operands
    first = operands[0]
    in_registers = isinstance(first, Register)
    of_a = code.words(replace(first, sign=""), 4) if isinstance(first, Register) else ()
    operands = operands[1:] if in_registers else operands
    descriptor, accumulators, *rest = operands
    base = _inside(descriptor, "gdesc")
    assert isinstance(descriptor, Bracketed)
    if not in_registers:
        of_a = (_joined(code, base),)
    of_b = _joined(code, base, 2)  # the second pair, also where A is in registers and there is no first
    scale, negated = _scale(code, accumulators, rest)
    flags = set(descriptor.suffixes)
    if not flags <= {"tnspA", "tnspB", "negA", "negB"}:
        raise Refused
    negate_a = first.sign == "-" if isinstance(first, Register) else "negA" in flags
    product = Product(wgmma_arithmetic(form.a, form.b, form.d, form.saturate), form, in_registers, negate_a,
                      "negB" in flags, "tnspA" in flags, "tnspB" in flags, negated)  # fmt: skip
    targets = code.targets(target, "u32", form.columns * form.accumulator // 8)
    draft = Draft(product, targets, (*of_a, of_b, scale), access=Access(Space.SHARED, Effect.READ, CHUNK, 4, 0))
    parts = [replace(modelled(name, draft), traits=_at_once(name))]
    if Symbol("gsb0") in rest:
        commit = "wgmma.commit_group.sync.aligned"
        parts.append(replace(modelled(commit, Draft(None), counted=False), traits=_at_once(commit)))
    return parts


def _scale(code: Code, accumulators: Operand, rest: list[Operand]) -> tuple[Source, bool]:
    """Whether the accumulators are added to: always, never, or as a uniform predicate says; and if that is negated."""
    predicates = [o for o in rest if isinstance(o, Register) and o.predicate]
    if not predicates:
        if isinstance(accumulators, Register) and accumulators.number is None:
            return np.bool_(False), False
        return np.bool_(True), False
    (predicate,) = predicates
    if predicate.number is None:
        return np.bool_(predicate.sign != "!"), False
    return code.row(predicate.file, predicate.number, "pred"), predicate.sign == "!"


def _warpgroup(code: Code, i: MachineInstruction) -> Part:
    del code
    if i.modifiers == ("ARRIVE",):
        name = "wgmma.fence.sync.aligned"
        return replace(modelled(name, Draft(None)), traits=_at_once(name))
    if i.modifiers == ("DEPBAR", "LE"):
        return modelled("wgmma.wait_group.sync.aligned", Draft(GroupWait(literal(i.operands[1]))))
    raise Refused


# -- clusters and registers ---------------------------------------------------------------------------


def _cluster_arrive(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return modelled("barrier.cluster.arrive", Draft(True))


def _cluster_wait(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return modelled("barrier.cluster.wait", Draft(ClusterWait()))


def _true() -> Any:
    return np.bool_(True)


def _setmaxreg(code: Code, i: MachineInstruction) -> Part:
    if isinstance(i.operands[0], Register):
        return lanewise(_true, code.targets(i.operands[0], "pred"), ())
    return Part(_STAYS, nothing, Draft(None))


def _view(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return modelled("fence.proxy.async", Draft(None))


def _hint(code: Code, i: MachineInstruction) -> Part:
    """A prefetch of a tensor map."""
    del code, i
    return Part(_STAYS, nothing, Draft(None))


_GMMA = "*"
RECORDS = (
    Opcode("ELECT", _elect),
    Opcode("R2UR", _r2ur, "", "OR FILL"),
    Opcode("SYNCS", _syncs, "EXCH ARRIVE PHASECHK CCTL A1T0 ART0 A0TR A0T1 IV", "64 TRANS64 TRYWAIT RED"),
    Opcode("ARRIVES", _arrives, "LDGSTSBAR TRANSCNT ARVCNT", "64"),
    Opcode("UTMALDG", _utmaldg, "1D 2D 3D 4D 5D MULTICAST"),
    Opcode("UTMASTG", _utmastg, "1D 2D 3D 4D 5D"),
    Opcode("UTMACMDFLUSH", _utmacmdflush),
    Opcode("UBLKCP", _ublkcp, "S G"),
    Opcode("STAS", _stas, "64 128"),
    Opcode("UTMACCTL", _hint, "PF"),
    Opcode("HGMMA IGMMA QGMMA", _gmma, _GMMA),
    Opcode("WARPGROUP", _warpgroup, "ARRIVE DEPBAR LE"),
    Opcode("UCGABAR_ARV", _cluster_arrive),
    Opcode("UCGABAR_WAIT", _cluster_wait),
    Opcode("USETMAXREG", _setmaxreg, "TRY_ALLOC DEALLOC", "CTAPOOL"),
    Opcode("FENCE", _view, "VIEW ASYNC S G"),
)  # fmt: skip
