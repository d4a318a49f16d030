"""Races as their author reads them: who accesses what, at which two lines, in which iterations."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gemmsmith.sim.races.hazards import FENCE_REMEDY, Hazard, HazardKind
from gemmsmith.sim.races.spots import Spot
from gemmsmith.verify.faults.element_names import operand_holding, shared_name
from gemmsmith.verify.faults.fault_loops import iterations, kernel_place
from gemmsmith.verify.faults.fault_marks import Marker
from gemmsmith.verify.faults.fault_report import FaultReport
from gemmsmith.verify.faults.fault_words import (
    barrier_between,
    block_name,
    does,
    in_iteration,
    is_write,
    legend,
    race_title,
    thread_name,
    when,
)

_MOST_ALIKE = 6  # pairs of lines that are named beside the first


@dataclass(frozen=True)
class RaceReporter(Marker):
    """Reports the races of one launch."""

    def races(self, hazards: tuple[Hazard, ...]) -> list[FaultReport]:
        """One report: the first race in full, the others by their lines. Before it a barrier that the wrong threads may
        complete, since that is what makes others race."""
        barriers = [hazard for hazard in hazards if hazard.kind is HazardKind.BARRIER_REUSED]
        ended = [hazard for hazard in hazards if hazard.kind is HazardKind.ENDED_BLOCK]
        unequal = [hazard for hazard in hazards if hazard.kind is HazardKind.UNEQUAL_BARRIERS]
        races = tuple(hazard for hazard in hazards if hazard not in (*barriers, *ended, *unequal))
        made = [self._barrier(hazard) for hazard in barriers[:1]] + self._memory_races(races)
        made += [self._unequal(hazard) for hazard in unequal[:1]]
        if not made:
            return []  # each as it is
        notes = (f"and {self._ended(hazard)}" for hazard in ended[:1])
        return [*made[:-1], replace(made[-1], notes=(*made[-1].notes, *notes))]

    def _ended(self, hazard: Hazard) -> str:
        """An access to the shared memory of a block that may have ended, in words."""
        place = re.search(r":(\d+)$", hazard.first.where)
        line = f"line {place[1]}" if place else hazard.first.where
        return (f"the {hazard.first.verb} of {line} reaches the shared memory of another block, which may have ended "
                f"by then: {hazard.remedy}")  # fmt: skip

    def _memory_races(self, hazards: tuple[Hazard, ...]) -> list[FaultReport]:
        # What orders two blocks or warps orders the lanes of one warp too.
        hazards = tuple(sorted(hazards, key=lambda h: 0 if h.across_blocks else 1 if h.across_warps else 2))
        made = [self._race(hazard) for hazard in hazards[:1]]
        rest = hazards[1:]
        if not made or not rest:
            return made
        named = [f"{self._lines(h)} ({self._element(h)})" for h in rest[:_MOST_ALIKE]]
        count = f"{len(rest)} more pair{'s' if len(rest) != 1 else ''} of accesses race{'s' if len(rest) == 1 else ''}"
        more = f" and {len(rest) - len(named)} more" if len(rest) > len(named) else ""
        ptx = tuple(text for h in rest for text in (h.first.text, h.second.text))
        first = made[0]
        return [replace(first, notes=(*first.notes, f"{count} like this: {'; '.join(named)}{more}"),
                        ptx=(*first.ptx, *ptx), alike=len(rest))]  # fmt: skip

    def _lines(self, hazard: Hazard) -> str:
        """The two lines of a race; of a helper that is none of the user's, the line that calls it."""
        spots = [side.spot for side in (hazard.first, hazard.second) if side.spot is not None]
        places = [(s.file, s.line) if self.source.tree(s.file) is not None else kernel_place(s) for s in spots]
        one, two = (f"line {line}" if file == self.source.path.name else f"{file}:{line}" for file, line in places)
        return f"{one} with itself" if one == two else f"{one} and {two}"

    def _element(self, hazard: Hazard, spot: Spot | None = None) -> str:
        if hazard.is_global:
            operand = operand_holding(self.operands, hazard.address)
            return operand.element(hazard.address) if operand is not None else hazard.memory
        return self._shared(hazard, spot or hazard.first.spot)[0]

    def _overlapping(self, hazard: Hazard, first: Spot, second: Spot) -> str:
        """The second array, where two writes go to one place of shared memory by way of two; else empty."""
        if hazard.array is None or hazard.kind is not HazardKind.WRITE_AFTER_WRITE:
            return ""
        found = [self.expression(spot, hazard.array.name, True, (hazard.array, hazard.address))
                 for spot in (first, second)]  # fmt: skip
        roots = [expression.root for expression in found if expression is not None]
        return roots[1] if len(roots) == 2 and roots[0] != roots[1] else ""

    def _shared(self, hazard: Hazard, spot: Spot | None) -> tuple[str, str]:
        tree = self.source.tree(spot.file) if spot is not None else None
        pointer, line = "", 0
        if spot is not None and hazard.array is not None:
            expression = self.expression(spot, hazard.array.name, is_write(spot.verb), (hazard.array, hazard.address))
            pointer, line = (expression.root, spot.line) if expression is not None else ("", 0)
        named = shared_name(hazard.array, hazard.address, self.source, tree, line, pointer)
        return named.element, named.facts

    def _race(self, hazard: Hazard) -> FaultReport:
        first, second = hazard.first.spot, hazard.second.spot
        assert first is not None
        assert second is not None
        element, name = self._element(hazard), self._array_name(hazard)
        place = None if hazard.array is None else (hazard.array, hazard.address)
        apart = hazard.across_blocks
        one, two = thread_name(first, apart), thread_name(second, apart)
        rounds = iterations(first, self.source), iterations(second, self.source)
        same = rounds[0] == rounds[1]
        unless = ", perhaps an old value" if hazard.remedy == FENCE_REMEDY else " without waiting"
        reads = (hazard.kind is HazardKind.WRITE_AFTER_READ, hazard.kind is HazardKind.READ_AFTER_WRITE)
        other = self._overlapping(hazard, first, second) if same else ""
        through = f", through {other}," if other else ""
        words = (
            f"1. {one} {does(first.verb, reads[0])} {element} here{in_iteration(rounds[0], same)}",
            f"2. {two} {does(second.verb, reads[1])} {element} here{through}{unless}{in_iteration(rounds[1], same)}",
        )
        here = self.marks(first, words[0], name, is_write(first.verb), place)
        there = self.marks(second, words[1], name, is_write(second.verb), place)
        marks = [*here, *there, *self.loop_heads((first, second))]
        title = race_title(hazard.kind, one, two, first.verb, second.verb, element)
        together = same and hazard.kind is HazardKind.WRITE_AFTER_WRITE and hazard.first.where == hazard.second.where
        between = barrier_between(here[-1:], there[-1:], rounds)
        notes = [*when(rounds, same), *self._race_notes(hazard, first, between, together)]
        if other:
            array = element.partition("[")[0]
            notes[-2] = (f"{array} and {other} overlap in shared memory: let {other} begin where the other array ends; "
                         "where they are meant to share it, put a __syncthreads() between the two")  # fmt: skip
        return FaultReport("race", title, tuple(marks), tuple(filter(None, notes)),
                           (hazard.first.text, hazard.second.text))  # fmt: skip

    def _barrier(self, hazard: Hazard) -> FaultReport:
        """A barrier at which a thread may be counted that does not belong to those who meet."""
        first, second = hazard.first.spot, hazard.second.spot
        assert first is not None
        assert second is not None
        one, two = thread_name(first), thread_name(second)
        place = first.file, first.line, first.caller
        same = place == (second.file, second.line, second.caller)
        text = f"{one} and {two} arrive here" if same else f"2. {two} arrives here"
        marks = [*([] if same else self.marks(first, f"1. {one} arrives here")), *self.marks(second, text)]
        title = f"{two} arrives at {hazard.place} without waiting until {one} and those it meets there have come"
        notes = (hazard.remedy, "; ".join(filter(None, (f"in {block_name(second)}", legend(second)))))
        return FaultReport("race", title, tuple(marks), notes, (hazard.first.text, hazard.second.text))

    def _unequal(self, hazard: Hazard) -> FaultReport:
        """A barrier at which threads wait that others will not come to."""
        first, second = hazard.first.spot, hazard.second.spot
        assert first is not None
        assert second is not None
        one, two = thread_name(first), thread_name(second)
        same = (first.file, first.line, first.caller) == (second.file, second.line, second.caller)
        end = f"{one} is here for the last time, and then ends"
        text = f"2. {two} waits here once more"
        marks = [
            *([] if same else self.marks(first, f"1. {end}")),
            *self.marks(second, f"{end}; {text[3:]}" if same else text),
        ]
        title = f"{two} comes to {hazard.place} more often than {one}"
        notes = (hazard.remedy, "; ".join(filter(None, (f"in {block_name(second)}", legend(second)))))
        return FaultReport("race", title, tuple(marks), notes, (hazard.first.text, hazard.second.text))

    def _array_name(self, hazard: Hazard) -> str:
        if not hazard.is_global:
            return hazard.array.name if hazard.array is not None else ""
        operand = operand_holding(self.operands, hazard.address)
        return operand.name if operand is not None else hazard.memory.partition("[")[0]

    def _race_notes(self, hazard: Hazard, first: Spot, between: str, together: bool) -> list[str]:
        notes = []
        if hazard.kind is HazardKind.IN_FLIGHT_COPY and hazard.first.verb.endswith("TMA"):
            notes.append(hazard.needed)
        elif hazard.kind is HazardKind.IN_FLIGHT_COPY:
            notes.append("an asynchronous copy goes on in the background: its own thread must wait for it "
                         "(cp.async.wait_group, __pipeline_wait_prior), then a barrier must follow")  # fmt: skip
        elif hazard.remedy:
            notes.append(hazard.remedy)
        elif together:
            notes.append("two threads write one element at the same line: give each thread an element of its own, "
                         "let one thread write, or use an atomic")  # fmt: skip
        elif hazard.across_blocks:
            if hazard.first.where == hazard.second.where:
                notes.append("two blocks use one element at the same line: if each block should have its own elements, "
                             "the block's offset is computed wrongly from blockIdx")  # fmt: skip
            notes.append("no barrier makes blocks wait for one another: __threadfence() must follow the first access, "
                         "then an atomic on a flag or counter, which the other block must see before the second; or "
                         "use atomics for the data itself, or a second launch")  # fmt: skip
        elif hazard.across_warps and any(
            side.verb.endswith(("TMA", "wgmma")) for side in (hazard.first, hazard.second)
        ):
            notes.append(f"nothing makes either thread wait for the other: {between} a barrier of both threads "
                         "(__syncthreads() where all threads of the block reach it, else bar.sync of those that do), "
                         "or an mbarrier that one arrives at and the other waits for")  # fmt: skip
        elif hazard.across_warps:
            notes.append(f"nothing makes either thread wait for the other: {between} a __syncthreads() "
                         "that all threads of the block reach")  # fmt: skip
        else:
            notes.append(f"both threads are in one warp, which does not run in step: {between} a "
                         "__syncthreads() or __syncwarp()")  # fmt: skip
        facts = "" if hazard.is_global else self._shared(hazard, first)[1]
        place = "" if hazard.across_blocks else f"in {block_name(first)}"
        notes.append("; ".join(filter(None, (facts, place, legend(first)))))
        return notes
