"""Groups of bulk copies out of shared memory: a thread commits them and waits for them; and prefetches."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, literal, operands
from gemmsmith.sim.lowering.traits import Bundling
from gemmsmith.sim.memory.bulk_copies import BulkCopies
from gemmsmith.sim.ptx.syntax import Instruction


def _lower_commit(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code
    operands(i, 0)
    return Draft(None)


def _commit(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(BulkCopies).commit(machine.indices(lanes))


def _only_read(m: Modifiers) -> bool:
    return "read" in m


@dataclass(frozen=True)
class GroupWait:
    """How many of the latest groups may still be in flight, and whether it is enough that the others were read."""

    allowed: int
    only_read: bool


def _lower_wait(code: Lowering, i: Instruction, only_read: bool) -> Draft[GroupWait]:
    del code
    return Draft(GroupWait(literal(*operands(i, 1)), only_read))


def _wait(machine: Execution, step: Bundle[GroupWait], lanes: Lanes) -> None:
    machine.unit(BulkCopies).wait(machine.indices(lanes), step.detail.allowed, step.detail.only_read)


def _lower_nothing(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    """Caches change nothing here."""
    del code, i
    return Draft(None)


RECORDS = (
    Record("cp.async.bulk.commit_group", decode=no_form, lower=_lower_commit, execute=_commit,
           bundling=Bundling.BOUNDARY, called="cp.async.bulk.commit_group"),
    Record("cp.async.bulk.wait_group.read?", decode=_only_read, lower=_lower_wait, execute=_wait,
           bundling=Bundling.BOUNDARY, called="cp.async.bulk.wait_group"),
    Record("cp.async.bulk.prefetch.L2.global.L2::cache_hint?", decode=no_form, lower=_lower_nothing, execute=nothing),
    Record("cp.async.bulk.prefetch.tensor.rank.L2.global.mode?.L2::cache_hint?",
           where={"rank": "1d 2d 3d 4d 5d", "mode": "tile im2col im2col_no_offs"}, decode=no_form, lower=_lower_nothing,
           execute=nothing),
    Record("prefetch.space?.tensormap", where={"space": "const param"}, decode=no_form, lower=_lower_nothing,
           execute=nothing),
)  # fmt: skip
