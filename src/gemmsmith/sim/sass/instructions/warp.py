"""Lanes of a warp together: shuffles, votes, matches and reductions. They execute for the lanes that are together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.instructions.vote import Vote
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Traits, Wait
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.meaning import Part, modelled, ptx
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import MachineInstruction, Register

_ALL = np.uint32(0xFFFFFFFF)


@cache
def _unsynchronised(name: str) -> Traits:
    """The traits of a PTX instruction, without the wait for other lanes: WARPSYNC comes before, where one is needed."""
    return replace(ptx(name).record, waits_on=Wait.NOTHING)


def _alone(part: Part, name: str) -> Part:
    return replace(part, traits=_unsynchronised(name))


_MODES = {"IDX": "idx", "UP": "up", "DOWN": "down", "BFLY": "bfly"}


def _shfl(code: Code, i: MachineInstruction) -> Part:
    predicate, target, value, lane, clamp = i.operands
    mode = next(_MODES[m] for m in i.modifiers if m in _MODES)
    name = f"shfl.sync.{mode}.b32"
    sources = [code.source(i, operand, "u32")[0] for operand in (value, lane, clamp)]
    targets = (*code.targets(target, "u32"), *code.targets(predicate, "pred"))
    return _alone(modelled(name, Draft(ptx(name).form, targets, (*sources, _ALL))), name)


def _vote(code: Code, i: MachineInstruction) -> list[Part]:
    """VOTE writes the mask of lanes that hold, and whether any or all do."""
    *results, voted = i.operands
    if not isinstance(voted, Register) or not voted.predicate:
        raise Refused
    mode = next((m.lower() for m in i.modifiers if m in ("ANY", "ALL")), "uni" if "EQ" in i.modifiers else "")
    if not mode:
        raise Refused
    source: Any = np.bool_(True) if voted.number is None else code.row(voted.file, voted.number, "pred")
    parts: list[Part] = []
    for result in results:
        if not isinstance(result, Register) or result.number is None:
            continue
        kind = "pred" if result.predicate else "u32"
        name = f"vote.sync.{mode}.pred" if result.predicate else "vote.sync.ballot.b32"
        draft = Draft(Vote(mode if result.predicate else "ballot", voted.sign == "!"), code.targets(result, kind),
                      (source, _ALL))  # fmt: skip
        parts.append(replace(_alone(modelled(name, draft), name), counted=not parts))
    if not parts:
        raise Refused
    return parts


def _redux(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    op = next((m.lower() for m in i.modifiers if m in ("SUM", "MIN", "MAX", "AND", "OR", "XOR")), "or")
    op = "add" if op == "sum" else op
    kind = "b32" if op in ("and", "or", "xor") else "s32" if "S32" in i.modifiers else "u32"
    name = f"redux.sync.{op}.{kind}"
    draft = Draft(ptx(name).form, code.targets(target, "u32"), (code.source(i, value, kind)[0], _ALL))
    return _alone(modelled(name, draft), name)


def _match(code: Code, i: MachineInstruction) -> Part:
    if i.modifiers != ("ANY",):
        raise Refused
    target, value = i.operands
    name = "match.any.sync.b32"
    draft = Draft(ptx(name).form, code.targets(target, "u32"), (code.source(i, value, "u32")[0], _ALL))
    return _alone(modelled(name, draft), name)


RECORDS = (
    Opcode("SHFL", _shfl, " ".join(_MODES)),
    Opcode("VOTE VOTEU", _vote, "ANY ALL EQ"),
    Opcode("REDUX", _redux, "SUM MIN MAX AND OR XOR S32 U32"),
    Opcode("MATCH", _match, "ANY"),
)  # fmt: skip
