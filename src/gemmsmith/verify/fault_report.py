"""A fault as its author reads it: what happened in the source's own words, with the lines it happened at.

The simulator gives facts (``sim.faults.Fault``, ``sim.hazards.Hazard``): addresses, threads, positions. Here they
become names: the expression of the source, the element of the array, the iteration of the loop. What is not certain is
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gemmsmith.sim.faults import Fault
from gemmsmith.sim.hazards import Hazard, HazardKind
from gemmsmith.sim.spots import Spot
from gemmsmith.sim.wave import Size
from gemmsmith.userfile.expression_at import Expression, expression_at, statement_span
from gemmsmith.userfile.source_tree import SourceTree, Span
from gemmsmith.verify.element_names import Operand, operand_at, shared_name
from gemmsmith.verify.fault_loops import Iteration, iterations, kernel_place, ordinal
from gemmsmith.verify.kernel_source import SourceOfKernel

_Rounds = tuple[tuple[Iteration, ...], tuple[Iteration, ...]]
_MOST_ALIKE = 6  # pairs of lines that are named beside the first


@dataclass(frozen=True)
class Mark:
    """Part of a source line, from column 0, with a few words on what happens there.

    Without words it is context: the head of a loop. ``source`` is the line; ``context`` are lines of the file from
    ``context_line`` on, for an excerpt.
    """

    file: str
    line: int
    column: int
    length: int
    text: str
    source: str
    context: tuple[str, ...] = field(default=(), repr=False, compare=False)
    context_line: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "column": self.column + 1, "length": self.length,
                "text": self.text}  # fmt: skip


@dataclass(frozen=True)
class FaultReport:
    """One fault. ``rule`` is its kind's identifier, ``title`` the fault in one sentence.

    notes   further sentences
    ptx     the instructions, for who asks for them
    alike   how many faults of the same kind this one stands for, besides itself
    """

    rule: str
    title: str
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    alike: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"rule": self.rule, "title": self.title, "marks": [mark.to_json() for mark in self.marks if mark.text],
                "notes": list(self.notes), "ptx": list(self.ptx), "alike": self.alike}  # fmt: skip


def explained(explain: Callable[[], list[FaultReport]]) -> list[FaultReport]:
    """The reports, or none: a source that cannot be made sense of must not hide the fault that was found."""
    try:
        return explain()
    except Exception:  # any text may come here
        return []


@dataclass
class Explainer:
    """Makes reports for one kernel, with the arrays that it was launched with."""

    source: SourceOfKernel
    operands: tuple[Operand, ...] = ()

    # -- who and where ----------------------------------------------------------------------------

    @property
    def _names(self) -> frozenset[str]:
        return frozenset(self.source.parameters) | {operand.name for operand in self.operands}

    def _expression(self, spot: Spot, name: str, writes: bool | None) -> Expression | None:
        tree = self.source.tree(spot.file)
        if tree is None or not spot.line:
            return None
        return expression_at(tree, spot.line, spot.column, name, writes, self._names - {name})

    def _marks(self, spot: Spot, text: str, name: str = "", writes: bool | None = None) -> list[Mark]:
        """The mark of a place; in a helper function also the line that calls it."""
        found, who = [], thread_name(spot)
        tree = self.source.tree(spot.file)
        if tree is not None and spot.line:
            expression = self._expression(spot, name, writes) if name else None
            span = expression.span if expression is not None else statement_span(tree, spot.line, spot.column)
            if span is not None:
                found.append(_mark(tree, span, text))
        file, line = kernel_place(spot)
        if (file, line) != (spot.file, spot.line) and (calling := self.source.tree(file)) is not None:
            passed = expression_at(calling, line, 0, name, None, self._names - {name}) if name and not found else None
            span = passed.span if passed is not None else statement_span(calling, line, 0)
            if span is not None:
                found.append(_mark(calling, span, f"{who} calls it here" if found else text))
        return found

    def _loop_heads(self, spots: tuple[Spot, ...]) -> list[Mark]:
        """The heads of the loops that the iterations belong to, as context."""
        found = []
        for spot in spots:
            tree = self.source.tree(kernel_place(spot)[0])
            if tree is None:
                continue
            for each in iterations(spot, self.source):
                span = statement_span(tree, each.line, 0)
                if span is not None:
                    found.append(_mark(tree, span, ""))
        return list(dict.fromkeys(found))

    # -- races ------------------------------------------------------------------------------------

    def races(self, hazards: tuple[Hazard, ...]) -> list[FaultReport]:
        """One report: the first race in full, the others by their lines."""
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
            operand = operand_at(self.operands, hazard.address)
            return operand.element(hazard.address) if operand is not None else hazard.memory
        return self._shared(hazard, spot or hazard.first.spot)[0]

    def _shared(self, hazard: Hazard, spot: Spot | None) -> tuple[str, str]:
        tree = self.source.tree(spot.file) if spot is not None else None
        pointer, line = "", 0
        if spot is not None and hazard.array is not None:
            expression = self._expression(spot, hazard.array.name, _writes(spot.verb))
            pointer, line = (expression.name, spot.line) if expression is not None else ("", 0)
        named = shared_name(hazard.array, hazard.address, self.source, tree, line, pointer)
        return named.element, named.facts

    def _race(self, hazard: Hazard) -> FaultReport:
        first, second = hazard.first.spot, hazard.second.spot
        assert first is not None
        assert second is not None
        element, name = self._element(hazard), self._array_name(hazard)
        apart = hazard.across_blocks
        one, two = thread_name(first, apart), thread_name(second, apart)
        rounds = iterations(first, self.source), iterations(second, self.source)
        same = rounds[0] == rounds[1]
        words = (
            f"1. {one} {_does(first.verb)} {element} here{_short(rounds[0], same)}",
            f"2. {two} {_does(second.verb)} {element} here without waiting{_short(rounds[1], same)}",
        )
        marks = [
            *self._marks(first, words[0], name, _writes(first.verb)),
            *self._marks(second, words[1], name, _writes(second.verb)),
            *self._loop_heads((first, second)),
        ]
        title = _race_title(hazard.kind, one, two, first.verb, second.verb, element)
        notes = [*_when(rounds, same), *self._race_notes(hazard, first, second, rounds)]
        return FaultReport("race", title, tuple(marks), tuple(filter(None, notes)),
                           (hazard.first.text, hazard.second.text))  # fmt: skip

    def _array_name(self, hazard: Hazard) -> str:
        if not hazard.is_global:
            return hazard.array.name if hazard.array is not None else ""
        operand = operand_at(self.operands, hazard.address)
        return operand.name if operand is not None else ""

    def _race_notes(self, hazard: Hazard, first: Spot, second: Spot, rounds: _Rounds) -> list[str]:
        notes, between = [], _between(first, second, rounds)
        if hazard.kind is HazardKind.IN_FLIGHT_COPY:
            notes.append("an asynchronous copy goes on in the background: its own thread must wait for it "
                         "(cp.async.wait_group, __pipeline_wait_prior), then a barrier must follow")  # fmt: skip
        elif hazard.across_blocks:
            notes.append("no barrier makes blocks wait for one another: use atomics, a fence and a flag, or a second "
                         "launch")  # fmt: skip
        elif hazard.across_warps:
            notes.append(f"nothing makes either thread wait for the other: {between} a __syncthreads() "
                         "that all threads of the block reach")  # fmt: skip
        else:
            notes.append(f"both threads are in one warp, which does not run in step: {between} a "
                         "__syncthreads() or __syncwarp()")  # fmt: skip
        facts = "" if hazard.is_global else self._shared(hazard, first)[1]
        place = "" if hazard.across_blocks else f"in {block_name(first)}"
        notes.append("; ".join(filter(None, (facts, place, _legend(first)))))
        return notes

    # -- faults -----------------------------------------------------------------------------------

    def fault(self, fault: Fault) -> FaultReport:
        """The report of a thread that a GPU would stop, or that waits for ever."""
        ptx = tuple(spot.ptx for spot in fault.spots)
        if fault.kind in ("divergent barrier", "hang"):
            return self._waiting(fault, ptx)
        spot = fault.spots[0]
        name, element, why, facts = self._accessed(fault, spot)
        who = thread_name(spot, True)
        does = _does(fault.verb or spot.verb)
        rounds = iterations(spot, self.source)
        said = {
            "out-of-bounds": f"{who} {does} {element}, {why}",
            "misaligned": f"{who} {does} {fault.width} bytes at {element}, {why}",
            "uninitialised": f"{who} {does} {element}, {why}",
            "forbidden": f"{who} {does} {element}, but {why}",
        }.get(fault.kind, f"{fault.detail}: {who}")
        words = f"{thread_name(spot)} {does} {element} here" if element else f"{thread_name(spot)} is here"
        marks = self._marks(spot, words + (f", {rounds[-1].short}" if rounds else ""), name, _writes(fault.verb))
        marks += self._loop_heads((spot,))
        count = fault.counts[0] - 1 if fault.counts else 0
        notes = [*map(_counted, rounds), *facts]
        if count > 0:
            notes.append(f"and {count:,} more thread{'s' if count != 1 else ''} of this block like it")
        notes.append(_legend(spot))
        rule = {"uninitialised": "uninitialised-read", "lane": "warp", "forbidden": "forbidden-read"}.get(
            fault.kind, fault.kind
        )
        return FaultReport(rule, said, tuple(marks), tuple(filter(None, notes)), ptx, max(0, count))

    def _accessed(self, fault: Fault, spot: Spot) -> tuple[str, str, str, list[str]]:
        """The array's name, the element, why it must not be accessed, and further sentences."""
        if fault.space == "global":
            return self._in_global(fault)
        if fault.space == "shared":
            return self._in_shared(fault, spot)
        where = f"byte {fault.address:#x} of {fault.space} memory" if fault.space else ""
        return "", where, fault.detail, []

    def _in_global(self, fault: Fault) -> tuple[str, str, str, list[str]]:
        names = self.source.parameters
        name = names[fault.parameter] if 0 <= fault.parameter < len(names) else ""
        if not name and "null pointer" in fault.detail:
            return "", "memory", fault.detail, []
        operand = operand_at(self.operands, fault.address, name)
        if operand is None:
            element, _, why = fault.detail.partition(", ")  # an array of a launch has a name and elements
            if name and element.startswith(f"{name}["):
                return name, element, why, []
            return name, name or f"address {fault.address:#x}", fault.detail, []
        element = operand.element(fault.address)
        if fault.kind == "out-of-bounds":
            return operand.name, element, operand.outside(fault.address), [operand.shape]
        if fault.kind == "misaligned":
            return operand.name, element, _misaligned(fault.width, operand.itemsize), []
        return operand.name, element, fault.detail, []

    def _in_shared(self, fault: Fault, spot: Spot) -> tuple[str, str, str, list[str]]:
        array = fault.array
        if array is None:
            return "", f"byte {fault.address:#x} of shared memory", fault.detail, []
        tree = self.source.tree(spot.file)
        expression = self._expression(spot, array.name, _writes(fault.verb))
        pointer = expression.name if expression is not None else ""
        named = shared_name(array, fault.address, self.source, tree, spot.line, pointer)
        why, facts = fault.detail, [named.facts]
        if fault.kind == "uninitialised":
            why = "which no thread has written before"
        elif fault.kind == "misaligned":
            why = _misaligned(fault.width, named.array.itemsize if named.array is not None else 0)
        elif fault.kind == "out-of-bounds" and named.array is not None and named.array.shape:
            why = f"but the last element of {array.name}{named.array.shape} is {named.array.element(array.size - 1)}"
            neighbour = self._neighbour(fault, spot)
            facts += [f"a GPU does not stop there: the access reaches {neighbour}"] if neighbour else []
        return array.name, named.element, why, facts

    def _neighbour(self, fault: Fault, spot: Spot) -> str:
        from gemmsmith.sim.shared_arrays import array_at

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
            marks += [*self._marks(spot, text), *self._loop_heads((spot,))]
            notes += [note for each in iterations(spot, self.source) if (note := _counted(each)) not in notes]
        if fault.kind == "divergent barrier":
            title = "threads of one block wait at different __syncthreads(), each group for the other, for ever"
            notes.append(
                "__syncthreads() inside an if or a loop must be reached by all threads of the block, or by none"
            )
        else:
            title = fault.detail
        if fault.spots:
            notes.append("; ".join(filter(None, (f"in {block_name(fault.spots[0])}", _legend(fault.spots[0])))))
        rule = "divergent-barrier" if fault.kind == "divergent barrier" else "hang"
        return FaultReport(rule, title, tuple(marks), tuple(notes), ptx)


# --- words


def axes_name(place: Size, size: Size) -> str:
    """'3' where only x counts, '(3,2)' where y does, '(3,2,1)' where z does."""
    x, y, z = place
    return f"({x},{y},{z})" if size[2] > 1 else f"({x},{y})" if size[1] > 1 else f"{x}"


def block_name(spot: Spot) -> str:
    return f"block {axes_name(spot.block, spot.grid)}"


def thread_name(spot: Spot, with_block: bool = False) -> str:
    """'thread 33' of a block in x alone, 'thread (1,2)' of others."""
    name = f"thread {axes_name(spot.thread, spot.block_size)}"
    return f"{name} of {block_name(spot)}" if with_block else name


def _legend(spot: Spot) -> str:
    """How threads are named; nothing where they are numbered."""
    if spot.block_size[1:] == (1, 1):
        return ""
    axes = "x, y" if spot.block_size[2] == 1 else "x, y, z"
    return f"threads are named by threadIdx ({axes})"


def _does(verb: str) -> str:
    return {"read": "reads", "write": "writes", "atomic update": "updates", "asynchronous copy": "copies into",
            "copy": "copies into"}.get(verb, f"does the {verb} of" if verb else "accesses")  # fmt: skip


def _writes(verb: str) -> bool | None:
    return {"read": False, "write": True}.get(verb)


def _mark(tree: SourceTree, span: Span, text: str) -> Mark:
    return Mark(str(tree.path), span.line, span.column, span.length, text, tree.lines[span.line - 1],
                tuple(tree.lines), 1)  # fmt: skip


def _race_title(kind: HazardKind, one: str, two: str, first: str, second: str, element: str) -> str:
    if kind is HazardKind.IN_FLIGHT_COPY:
        return f"{one} {_does(first)} {element} in the background, and {two} {_does(second)} it before that is done"
    if kind is HazardKind.READ_AFTER_WRITE:
        return f"{one} {_does(first)} {element}, and {two} {_does(second)} it without waiting for that"
    if kind is HazardKind.WRITE_AFTER_READ:
        return f"{one} {_does(first)} {element}, and {two} overwrites it without waiting for that"
    return f"{one} and {two} both write {element}, and which of them comes last is chance"


def _between(first: Spot, second: Spot, rounds: _Rounds) -> str:
    (file, one), (other, two) = kernel_place(first), kernel_place(second)
    if file != other:
        return "between the two there must be"
    if one == two:
        return f"between two executions of line {one} there must be"
    later = all(rounds) and rounds[0][-1].line == rounds[1][-1].line and rounds[0][-1].number < rounds[1][-1].number
    return f"between line {one} and line {two}{' of the next iteration' if later else ''} there must be"


def _when(rounds: _Rounds, same: bool) -> list[str]:
    """The loops that the two iterations belong to."""
    if same:
        return [f"both happen {_joined(rounds[0])}"] if rounds[0] else []
    one, two = rounds
    if one and two and [each.line for each in one] == [each.line for each in two]:
        return [_compared(a, b) for a, b in zip(one, two, strict=True) if a != b]
    return [f"{n}. happens {_joined(each)}" for n, each in enumerate(rounds, 1) if each]


def _compared(one: Iteration, two: Iteration) -> str:
    if one.value is None:
        return f"iterations of the loop at line {one.line}"
    return (
        f"{one.variable} = {one.value} is the {ordinal(one.number)} iteration of the loop at line {one.line}, "
        f"{two.variable} = {two.value} the {ordinal(two.number)}"
    )


def _counted(each: Iteration) -> str:
    known = "this" if each.value is None else f"{each.variable} = {each.value}"
    return f"{known} is the {ordinal(each.number)} iteration of the loop at line {each.line}"


def _misaligned(width: int, itemsize: int) -> str:
    every = f": every {width // itemsize}th element" if itemsize and width > itemsize else ""
    return f"but {width} bytes at once must begin at a multiple of {width} bytes{every}"


def _short(rounds: tuple[Iteration, ...], same: bool) -> str:
    return f", {rounds[-1].short}" if rounds and not same else ""


def _joined(rounds: tuple[Iteration, ...]) -> str:
    return " and ".join(map(str, rounds))
