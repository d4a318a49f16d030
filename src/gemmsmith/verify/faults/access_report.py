"""Faults of single threads, and threads that wait for ever, as their author reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.sim.faults import Fault
from gemmsmith.sim.lowering.shared_arrays import array_at
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED
from gemmsmith.sim.races.spots import Spot
from gemmsmith.verify.faults.element_names import operand_at, shared_name
from gemmsmith.verify.faults.fault_loops import iterations
from gemmsmith.verify.faults.fault_marks import Marker
from gemmsmith.verify.faults.fault_report import FaultReport, Mark
from gemmsmith.verify.faults.fault_words import (
    block_name,
    does,
    is_write,
    legend,
    misaligned,
    nth_iteration,
    signed,
    thread_name,
    warp_title,
)


@dataclass(frozen=True)
class FaultReporter(Marker):
    """Reports the fault that ended a launch."""

    def fault(self, fault: Fault) -> FaultReport:
        """The report of a thread that a GPU would stop, or that waits for ever."""
        ptx = tuple(spot.ptx for spot in fault.spots)
        if fault.kind in ("divergent barrier", "hang"):
            return self._waiting(fault, ptx)
        spot = fault.spots[0]
        name, element, why, facts = self._accessed(fault, spot)
        who = thread_name(spot, True)
        act = does(fault.verb or spot.verb, reads=fault.space == "global")
        rounds = iterations(spot, self.source)
        said = {
            "out-of-bounds": f"{who} {act} {element}, {why}",
            "misaligned": f"{who} {act} {fault.width} bytes at {element}, {why}",
            "uninitialised": f"{who} {act} {element}, {why}",
            "forbidden": f"{who} {act} {element}, but {why}",
        }.get(fault.kind) or warp_title(fault.detail, who)
        words = f"{thread_name(spot)} {act} {element} here" if element else f"{thread_name(spot)} is here"
        place = None if fault.array is None else (fault.array, fault.address)
        words += f", {rounds[-1].short}" if rounds else ""
        marks = self.marks(spot, words, name, is_write(fault.verb), place)
        marks += self.loop_heads((spot,))
        count = fault.counts[0] - 1 if fault.counts else 0
        notes = [*map(nth_iteration, rounds), *facts]
        if count > 0:
            notes.append(
                f"{count:,} more thread{'s' if count != 1 else ''} of this block do{'es' * (count == 1)} the same"
            )
        notes.append(legend(spot))
        lane = "assertion" if fault.detail.startswith(ASSERTION_FAILED) else "warp"
        rule = {"uninitialised": "uninitialised-read", "lane": lane, "forbidden": "forbidden-read"}.get(
            fault.kind, fault.kind
        )
        return FaultReport(rule, said, tuple(marks), tuple(filter(None, notes)), ptx, max(0, count))

    def _accessed(self, fault: Fault, spot: Spot) -> tuple[str, str, str, list[str]]:
        """The array's name, the element, why it must not be accessed, and further sentences."""
        if fault.space == "global":
            return self._in_global(fault)
        if fault.space == "shared":
            return self._in_shared(fault, spot)
        if fault.space == "local":
            return self._in_local(fault, spot)
        where = f"byte {fault.address:#x} of {fault.space} memory" if fault.space else ""
        return "", where, fault.detail, []

    def _in_local(self, fault: Fault, spot: Spot) -> tuple[str, str, str, list[str]]:
        """An array of the thread's own, in registers as a rule; in local memory if its index is not constant."""
        offset = signed(fault.address)
        held = re.search(r"has (\d+) bytes", fault.detail)
        array = self.source.local_array(spot.file, spot.line, int(held[1]) if held else 0)
        if array is None or fault.kind != "out-of-bounds" or not (element := array.element(offset)):
            where = f"byte {offset} of its local memory" if offset >= 0 else f"{-offset} bytes before its local memory"
            return "", where, fault.detail, []
        fact = f"{array.name} is the thread's own array: a GPU does not stop there, and another value is lost"
        end = f"first element of {array.name} is {array.element(0)}"
        if offset >= 0:
            end = f"last element of {array.name}{array.shape} is {array.last}"
        return array.name, element, f"but the {end}", [fact]

    def _in_global(self, fault: Fault) -> tuple[str, str, str, list[str]]:
        names = self.source.parameters
        name = names[fault.parameter] if 0 <= fault.parameter < len(names) else ""
        if not name and "null pointer" in fault.detail:
            return "", "memory", fault.detail, []
        operand = operand_at(self.operands, fault.address, name)
        if operand is None:
            element, _, why = fault.detail.partition(
                ", "
            )  # arrays of a launch and of the module have names and elements
            array, bracket, _ = element.partition("[")
            if bracket and array.isidentifier() and name in ("", array):
                return array, element, why, []
            return name, name or f"address {fault.address:#x}", fault.detail, []
        element = operand.element(fault.address)
        if fault.kind == "out-of-bounds":
            return operand.name, element, operand.outside(fault.address), [operand.shape]
        if fault.kind == "misaligned":
            return operand.name, element, misaligned(fault.width, operand.itemsize), []
        return operand.name, element, fault.detail, []

    def _in_shared(self, fault: Fault, spot: Spot) -> tuple[str, str, str, list[str]]:
        array = fault.array
        if "mbarrier" in fault.detail:  # whose array is not the one that the access means
            _, _, barrier = fault.detail.partition(": ")
            return "", f"byte {fault.address:#x} of shared memory", f"but {barrier or fault.detail}", []
        if array is None:
            where = f"byte {fault.address:#x} of shared memory"
            if (offset := signed(fault.address)) < 0:
                where = f"{-offset} bytes before the block's shared memory"
            return "", where, fault.detail, []
        tree = self.source.tree(spot.file)
        expression = self.expression(spot, array.name, is_write(fault.verb), (array, fault.address))
        pointer = expression.root if expression is not None else ""
        named = shared_name(array, fault.address, self.source, tree, spot.line, pointer)
        why, facts = fault.detail, [named.facts]
        if fault.kind == "uninitialised":
            why = "which no thread has written before"
        elif fault.kind == "misaligned":
            why = misaligned(fault.width, named.array.itemsize if named.array is not None else 0)
        elif fault.kind == "out-of-bounds" and named.array is not None and named.array.shape:
            why = f"but the last element of {array.name}{named.array.shape} is {named.array.element(array.size - 1)}"
            neighbour = self._neighbour(fault, spot)
            facts += [f"a GPU does not stop there: the access reaches {neighbour}"] if neighbour else []
        return array.name, named.element, why, facts

    def _neighbour(self, fault: Fault, spot: Spot) -> str:
        other = array_at(spot.program, fault.address) if spot.program is not None else None
        if other is None or other.name == (fault.array.name if fault.array else ""):
            return ""
        return shared_name(other, fault.address, self.source).element

    def _waiting(self, fault: Fault, ptx: tuple[str, ...]) -> FaultReport:
        marks: list[Mark] = []
        notes: list[str] = []
        counts = fault.counts or (1,) * len(fault.spots)
        for spot, count in zip(fault.spots, counts, strict=False):
            who = f"{count} threads wait" if count > 1 else f"{thread_name(spot)} waits"
            some = f", {thread_name(spot)} among them" if count > 1 else ""
            text = f"{who} here{some}" if fault.kind != "hang" or fault.counts else f"{thread_name(spot)} is here"
            marks += [*self.marks(spot, text), *self.loop_heads((spot,))]
            notes += [note for each in iterations(spot, self.source) if (note := nth_iteration(each)) not in notes]
        if fault.kind == "divergent barrier":
            title = "threads of one block wait at different __syncthreads(), each group for the other, for ever"
            notes.append(
                "__syncthreads() inside an if or a loop must be reached by all threads of the block, or by none"
            )
        else:
            title = fault.detail
        if fault.spots:
            notes.append("; ".join(filter(None, (f"in {block_name(fault.spots[0])}", legend(fault.spots[0])))))
        rule = "divergent-barrier" if fault.kind == "divergent barrier" else "hang"
        return FaultReport(rule, title, tuple(marks), tuple(notes), ptx)
