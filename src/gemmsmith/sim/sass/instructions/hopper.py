"""Instructions of sm_90: mbarriers, clusters, and registers that move between warpgroups.

The bits of an mbarrier were read from compiled code: it is initialised with (2²⁰ − count) · 2 in its lower word, an
arrival's suffix says where its count (A) and its bytes (T) come from (0, 1, or R for the register), and the parity of a
phase is the highest bit of a word.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.sim.instructions.async_copy import Arrive
from gemmsmith.sim.instructions.cluster import ClusterWait
from gemmsmith.sim.instructions.mbarrier import Arrival, PhaseWait
from gemmsmith.sim.instructions.record import Draft, nothing
from gemmsmith.sim.lowering.operation import Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Access, Effect, Space
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.instructions.once import STAYS
from gemmsmith.sim.sass.meaning import Part, lanewise, modelled
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import MachineInstruction, Register
from gemmsmith.sim.waits.mbarriers import BYTES, phase_number

_OBJECT = Access(Space.SHARED, Effect.UPDATE, BYTES, BYTES, BYTES)
_COUNT_FIELD = 0x100000

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
        draft = Draft(False, pointers=(code.pointer(i.operands[0]),), access=_OBJECT)
        return [modelled("mbarrier.inval.shared.b64", draft)]
    raise Refused


def _initialise(code: Code, i: MachineInstruction) -> Part:
    target, at, value = i.operands
    if not isinstance(target, Register) or target.number is not None:
        raise Refused
    count = code.unused("u32")
    code.before.append(lanewise(_count, (count,), code.words(value, 2), counted=False))
    return modelled("mbarrier.init.shared.b64", Draft(False, (), (count,), (code.pointer(at),), _OBJECT))


def _arrive(code: Code, i: MachineInstruction) -> list[Part]:
    target, at, value = i.operands
    form = next((m for m in i.modifiers if m in ("A1T0", "ART0", "A0TR", "A0T1")), "A1TR")
    if form == "A0T1":  # what an arrival of copies will complete: ARRIVES does both
        return [Part(STAYS, nothing, Draft(None))]
    source: Source = np.uint32(1) if form == "A1T0" else code.source(i, value, "u32")[0]
    pointer = code.pointer(at)
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
    draft = Draft(Arrive(False, "TRANSCNT" not in i.modifiers), pointers=(code.pointer(i.operands[0]),),
                  access=_OBJECT)  # fmt: skip
    return modelled("cp.async.mbarrier.arrive.shared.b64", draft)


def _wait(code: Code, i: MachineInstruction) -> Part:
    done, at, phase = i.operands
    parity = code.unused("u32")
    code.before.append(lanewise(_parity, (parity,), code.source(i, phase, "u32"), counted=False))
    name = "mbarrier.try_wait.parity.shared.b64"
    return modelled(name, Draft(PhaseWait(False, True), code.targets(done, "pred"), (parity,),
                                (code.pointer(at),), _OBJECT))  # fmt: skip


# -- clusters and registers ---------------------------------------------------------------------------


def _cluster_arrive(code: Code, i: MachineInstruction) -> Part:
    del i
    return modelled("barrier.cluster.arrive", Draft(code.published))


def _cluster_wait(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return modelled("barrier.cluster.wait", Draft(ClusterWait()))


def _true() -> Any:
    return np.bool_(True)


def _setmaxreg(code: Code, i: MachineInstruction) -> Part:
    if isinstance(i.operands[0], Register):
        return lanewise(_true, code.targets(i.operands[0], "pred"), ())
    return Part(STAYS, nothing, Draft(None))


def _view(code: Code, i: MachineInstruction) -> Part:
    del code, i
    return modelled("fence.proxy.async", Draft(None))


RECORDS = (
    Opcode("SYNCS", _syncs, "EXCH ARRIVE PHASECHK CCTL A1T0 ART0 A0TR A0T1 IV", "64 TRANS64 TRYWAIT RED"),
    Opcode("ARRIVES", _arrives, "LDGSTSBAR TRANSCNT ARVCNT", "64"),
    Opcode("UCGABAR_ARV", _cluster_arrive),
    Opcode("UCGABAR_WAIT", _cluster_wait),
    Opcode("USETMAXREG", _setmaxreg, "TRY_ALLOC DEALLOC", "CTAPOOL"),
    Opcode("FENCE", _view, "VIEW ASYNC S G"),
)  # fmt: skip
