"""Find the source of what a thread does: the expression, its line, the line that calls, the heads of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.lowering.shared_arrays import SharedArray
from gemmsmith.sim.races.spots import Spot
from gemmsmith.userfile.text.expression_at import Expression, expression_at, statement_span
from gemmsmith.userfile.text.source_tree import SourceTree, Span
from gemmsmith.verify.faults.element_names import Operand, dynamic_pointer, shared_name
from gemmsmith.verify.faults.fault_loops import iterations, kernel_place
from gemmsmith.verify.faults.fault_report import Mark
from gemmsmith.verify.faults.fault_words import thread_name
from gemmsmith.verify.faults.kernel_source import SourceOfKernel

SharedPlace = tuple[SharedArray, int] | None
"""An array in shared memory, and an address there."""


@dataclass(frozen=True)
class Marker:
    """Marks places in the source of one kernel; ``operands`` are the arrays that it was launched with."""

    source: SourceOfKernel
    operands: tuple[Operand, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.source.parameters) | {operand.name for operand in self.operands}

    def expression(self, spot: Spot, name: str, writes: bool | None, place: SharedPlace = None) -> Expression | None:
        """The expression that accesses ``name``; ``place`` is the array and the address, in shared memory."""
        tree = self.source.tree(spot.file)
        if tree is None or not spot.line:
            return None
        others = self.names - {name}
        if place is not None and (pointer := dynamic_pointer(*place, self.source, tree, spot.line)):
            member = shared_name(*place, self.source, tree, spot.line, pointer).member
            found = expression_at(tree, spot.line, spot.column, pointer, writes, others, member)
            if found is not None:
                return found
        member = shared_name(*place, self.source).member if place is not None else ""
        return expression_at(tree, spot.line, spot.column, name, writes, others, member)

    def marks(
        self, spot: Spot, text: str, name: str = "", writes: bool | None = None, place: SharedPlace = None
    ) -> list[Mark]:
        """The mark of a place; in a helper function also the line that calls it."""
        found, who = [], thread_name(spot)
        tree = self.source.tree(spot.file)
        if tree is not None and spot.line:
            expression = self.expression(spot, name, writes, place) if name else None
            span = expression.span if expression is not None else statement_span(tree, spot.line, spot.column)
            if span is not None:
                found.append(make_mark(tree, span, text))
        file, line = kernel_place(spot)
        if (file, line) != (spot.file, spot.line) and (calling := self.source.tree(file)) is not None:
            passed = expression_at(calling, line, 0, name, None, self.names - {name}) if name and not found else None
            span = passed.span if passed is not None else statement_span(calling, line, 0)
            if span is not None:
                found.append(make_mark(calling, span, f"{who} calls it here" if found else text))
        return found

    def loop_heads(self, spots: tuple[Spot, ...]) -> list[Mark]:
        """The heads of the loops that the iterations belong to, as context."""
        found = []
        for spot in spots:
            tree = self.source.tree(kernel_place(spot)[0])
            if tree is None:
                continue
            for each in iterations(spot, self.source):
                span = statement_span(tree, each.line, 0)
                if span is not None:
                    found.append(make_mark(tree, span, ""))
        return list(dict.fromkeys(found))


def make_mark(tree: SourceTree, span: Span, text: str) -> Mark:
    return Mark(str(tree.path), span.line, span.column, span.length, text, tree.lines[span.line - 1],
                tuple(tree.lines), 1)  # fmt: skip
