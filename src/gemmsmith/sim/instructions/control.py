"""Branches and exits."""

from __future__ import annotations

from gemmsmith.sim.instructions.record import Draft, Record, no_form, nothing
from gemmsmith.sim.lowering import Lowering, Refused, operands
from gemmsmith.sim.operation import Branch
from gemmsmith.sim.syntax import Instruction, Symbol
from gemmsmith.sim.traits import Bundling, Counted, Executed, Flow, Mix, Profiled


def _lower_branch(code: Lowering, i: Instruction, _: None) -> Draft[Branch]:
    del code
    (target,) = operands(i, 1)
    if not isinstance(target, Symbol):
        raise Refused
    return Draft(Branch(target.name))


def _lower_exit(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code, i
    return Draft(None)


_NEVER = Counted(executed=Executed.NEVER)

RECORDS = (
    Record("bra.uni?", decode=no_form, lower=_lower_branch, execute=nothing, flow=Flow.BRANCH,
           bundling=Bundling.BOUNDARY, counts=Counted(Profiled(Mix.BRANCH), executed=Executed.ARRIVED)),
    Record("ret.uni?", decode=no_form, lower=_lower_exit, execute=nothing, flow=Flow.EXIT,
           bundling=Bundling.BOUNDARY, counts=_NEVER),
    Record("exit", decode=no_form, lower=_lower_exit, execute=nothing, flow=Flow.EXIT, bundling=Bundling.BOUNDARY,
           counts=_NEVER),
)  # fmt: skip
