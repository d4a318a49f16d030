"""cp.async: copies from global to shared memory that land some time before their group is waited for.

With ``late_copies`` a copy lands at the last moment that the program allows, which is when its thread waits for its
group; otherwise at once. A kernel that waits correctly cannot tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.memory import WAVEFRONTS
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering import Lowering, Refused, literal, operands
from gemmsmith.sim.memory import RAW, check_alignment
from gemmsmith.sim.operation import Slot
from gemmsmith.sim.syntax import Instruction
from gemmsmith.sim.traits import Access, Bundling, Counted, Effect, Executed, Mix, Profiled, Quantity, Space
from gemmsmith.sim.types import Array

# -- lowering -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """``bypass``: past L1 (.cg). ``zero_fill``: the form with a size that may be smaller than the width."""

    bypass: bool
    zero_fill: bool


def _decode_copy(m: Modifiers) -> bool:
    """Whether the copy goes past L1."""
    return m["cache"] == "cg"


def _lower_copy(code: Lowering, i: Instruction, bypass: bool) -> Draft[Copy]:
    to, start, length, *sized = operands(i, 3, 4)
    width = literal(length)
    if width not in ((16,) if bypass else (4, 8, 16)):
        raise Refused
    size = code.source(sized[0], "u32") if sized else np.uint32(width)
    if isinstance(size, Slot) and size.file != "w":  # the form that ignores the source by a predicate
        raise Refused
    copy = Copy(bypass, zero_fill=isinstance(size, Slot) or int(size) != width)
    return Draft(copy, (), (size,), (code.pointer(to), code.pointer(start)),
                 Access(Space.SHARED, Effect.COPY, width, width, width))  # fmt: skip


_EVERYTHING = -1


def _lower_wait_group(code: Lowering, i: Instruction, _: None) -> Draft[int]:
    """The detail is how many of the latest groups may still be in flight."""
    del code
    return Draft(literal(*operands(i, 1)))


def _lower_wait_all(code: Lowering, i: Instruction, _: None) -> Draft[int]:
    del code, i
    return Draft(_EVERYTHING)


def _lower_commit(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code, i
    return Draft(None)


# -- execution ----------------------------------------------------------------------------------------


@dataclass
class Pending:
    """Copies in flight: for each, the lane, its commit group, and where from and to."""

    lanes: Array
    group: Array
    index: Array
    source: Array
    size: Array
    width: int
    landed: bool

    def part(self, mask: Array) -> Pending:
        """The copies that ``mask`` selects."""
        if mask.all():
            return self
        return Pending(self.lanes[mask], self.group[mask], self.index[mask], self.source[mask], self.size[mask],
                       self.width, self.landed)  # fmt: skip


class AsyncCopies:
    """The copies in flight of one wave, and each lane's count of committed groups."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.committed = np.zeros(machine.wave.lanes, np.int64)
        self.pending: list[Pending] = []

    def add(self, copy: Pending) -> None:
        if copy.landed:
            self._land(copy)
        if self.machine.shadow is not None or not copy.landed:
            self.pending.append(copy)

    def commit(self, lanes: Lanes) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """Land what these lanes committed, except their last ``allowed`` groups; −1 lands everything."""
        if not self.pending:
            return
        waits = np.zeros(self.committed.size, bool)
        waits[lanes] = True
        left = []
        for copy in self.pending:
            done = waits[copy.lanes]
            if allowed != _EVERYTHING:
                done &= copy.group < self.committed[copy.lanes] - allowed
            self._finish(copy.part(done))
            if not done.all():
                left.append(copy.part(~done))
        self.pending = left

    def _finish(self, copy: Pending) -> None:
        """The copies' own threads have waited for them."""
        if copy.lanes.size == 0:
            return
        if not copy.landed:
            self._land(copy)
        if self.machine.shadow is not None:
            self.machine.shadow.copy_waited(copy.lanes, copy.index, copy.width)

    def _land(self, copy: Pending) -> None:
        memory, width = self.machine.memory, copy.width
        if (copy.size == width).all():
            self.machine.shared.scatter(copy.index, width, memory.gather(copy.source, width))
            return
        rows = np.zeros((copy.lanes.size, width), np.uint8)
        for byte in range(width):
            take = copy.size > byte
            if take.any():
                rows[take, byte] = memory.gather(copy.source[take] + np.uint64(byte), 1)
        self.machine.shared.scatter(copy.index, width, rows.reshape(-1).view(RAW[width]))


def _copy(machine: Execution, step: Bundle[Copy], lanes: Lanes) -> None:
    assert step.access is not None
    width = step.access.width
    to, start = step.pointers
    target = machine.addresses(to, lanes, step.count)
    # Copied: addresses may be a view of registers, which change before a late copy lands.
    source = machine.addresses(start, lanes, step.count).copy()
    size = np.broadcast_to(machine.fetch(step.sources[0], lanes), target.shape)
    index = machine.shared.index(target, machine.shared_base[lanes], width)
    check_alignment(source, width, Space.GLOBAL)
    used = size > 0
    if used.any():  # a fault belongs to the instruction that issues the copy, so look for it now
        machine.memory.gather(np.where(used, source, source[used][0]), width if (size[used] == width).all() else 1)
    copies = machine.unit(AsyncCopies)
    each = np.broadcast_to(machine.indices(lanes), target.shape)
    copies.add(Pending(each.reshape(-1), copies.committed[each].reshape(-1), index.reshape(-1), source.reshape(-1),
                       np.array(size).reshape(-1), width, landed=not machine.late_copies))  # fmt: skip
    _watch(machine, step, lanes, target, source, size, index)


def _watch(machine: Execution, step: Bundle[Copy], lanes: Lanes, *arrays: Array) -> None:
    """Tell the counters and the race detector, operation by operation."""
    rows = (x.reshape(step.count, -1) for x in arrays)
    for operation, target, source, size, index in zip(step.operations, *rows, strict=True):
        if machine.counters is not None:
            machine.counters.copy(machine, operation, lanes, target, source, size, bypass=step.detail.bypass,
                                  zero_fill=step.detail.zero_fill)  # fmt: skip
        if machine.shadow is not None:
            machine.shadow.copy_issued(operation, machine.indices(lanes), index)


def _commit(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(AsyncCopies).commit(lanes)


def _wait(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    machine.unit(AsyncCopies).wait(lanes, step.detail)


# -- records ------------------------------------------------------------------------------------------

_LDGSTS = Counted(Profiled(
    Mix.COPY, "LDGSTS",
    metrics=(("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", Quantity.REQUESTS),
             ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", Quantity.SECTORS)),
    copy_metrics=(("smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum", Quantity.SECTORS),
                  ("smsp__inst_executed_op_ldgsts.sum", Quantity.REQUESTS),
                  (WAVEFRONTS.format("ldgsts"), Quantity.WAVEFRONTS),
                  ("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum", Quantity.CONFLICTS)),
))  # fmt: skip
_UNCOUNTED: dict[str, Any] = {"bundling": Bundling.BOUNDARY, "counts": Counted(executed=Executed.NEVER)}

RECORDS = (
    Record("cp.async.cache.shared.global.prefetch?", decode=_decode_copy, lower=_lower_copy, execute=_copy,
           where={"cache": "ca cg", "shared": "shared shared::cta", "prefetch": "L2::64B L2::128B L2::256B"},
           verb="asynchronous copy", counts=_LDGSTS),
    Record("cp.async.commit_group", decode=no_form, lower=_lower_commit, execute=_commit, **_UNCOUNTED),
    Record("cp.async.wait_group", decode=no_form, lower=_lower_wait_group, execute=_wait, verb="copy", **_UNCOUNTED),
    Record("cp.async.wait_all", decode=no_form, lower=_lower_wait_all, execute=_wait, verb="copy", **_UNCOUNTED),
)  # fmt: skip
