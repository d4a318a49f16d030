"""Print a verdict that is not right: each fault with its source lines, then all else, then how to repeat it."""

from __future__ import annotations

from gemmsmith.cli.render.output import columns, item, say
from gemmsmith.verify.faults.excerpt import excerpt
from gemmsmith.verify.faults.fault_report import FaultReport
from gemmsmith.verify.verdict import Verdict

Shown = set[tuple[str, tuple[tuple[str, int], ...]]]
"""Faults whose source lines were shown, by rule and lines."""


def print_verdict(verdict: Verdict, head: str, style: str, verbose: bool, shown: Shown) -> None:
    """``head`` is the first line; ``style`` colours what is wrong. Lines in ``shown`` are not shown again."""
    item(head, style)
    for fault in verdict.faults:
        key = fault.rule, tuple((mark.file, mark.line) for mark in fault.marks)
        if key in shown and fault.marks:
            item(f"{fault.rule}, at the same lines: {fault.title}", style, indent="  ")
            continue
        shown.add(key)
        print_fault(fault, style, verbose)
    for line in verdict.other_lines():
        item(line, style, indent="  ")
    item(f"repeat: {verdict.repeat}", indent="  ")


def print_fault(fault: FaultReport, style: str, verbose: bool = False) -> None:
    """A fault: its title, the source lines with both accesses marked, and the sentences below."""
    item(f"{fault.rule}: {fault.title}", f"bold {style}", indent="  ")
    for line in excerpt(fault, verbose, columns() - 2):
        words = line.partition("|")[2].lstrip()
        say(line, style if words.startswith("^") else "", indent="  ")
