"""malloc and free in device code, which ``new`` and ``delete`` call as well."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.call import call_site, parameter, parameter_words
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused
from gemmsmith.sim.lowering.traits import Bundling
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.syntax import Instruction


def _lower_malloc(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    site = call_site(i)
    if site.name != "malloc" or len(site.results) != 1 or len(site.arguments) != 1:
        raise Refused
    return Draft(None, pointers=tuple([parameter(code, o) for o in (*site.arguments, *site.results)]))


def _malloc(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    sizes = parameter_words(machine, step, lanes, 0, 8)
    threads = [f"thread {machine.thread_name(lane)} of block {machine.block_name(lane)}"
               for lane in machine.indices(lanes).tolist()]  # fmt: skip
    found = machine.memory.device_heap().malloc(sizes.tolist(), step.first.instruction.where, threads)
    if machine.log is not None and not found.all():
        machine.log.note(f"malloc at {step.first.instruction.where} returned null: the heap's 8 MiB are in use")
    at = machine.addresses(step.pointers[1], lanes, 1).astype(np.int64) + machine.local_base[lanes]
    machine.local.scatter(at, 8, found)


def _lower_free(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    site = call_site(i)
    if site.name != "free" or site.results or len(site.arguments) != 1:
        raise Refused
    return Draft(None, pointers=(parameter(code, site.arguments[0]),))


def _free(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    heap = machine.memory.device_heap()
    for n, address in enumerate(parameter_words(machine, step, lanes, 0, 8).tolist()):
        if wrong := heap.free(int(address), step.first.instruction.where):
            raise LaneFault(n, wrong)


RECORDS = (
    Record("call.uni?", decode=no_form, lower=_lower_malloc, execute=_malloc, bundling=Bundling.BOUNDARY),
    Record("call.uni?", decode=no_form, lower=_lower_free, execute=_free, bundling=Bundling.BOUNDARY),
)
