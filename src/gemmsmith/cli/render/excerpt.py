"""Print a verdict that is not right: each fault with its source lines, then all else, then how to repeat it."""

from __future__ import annotations

from gemmsmith.cli.render.output import columns, item, say
from gemmsmith.verify.excerpt import excerpt
from gemmsmith.verify.fault_report import FaultReport
from gemmsmith.verify.verdict import Verdict


def print_verdict(verdict: Verdict, head: str, style: str, verbose: bool = False) -> None:
    """``head`` is the first line; ``style`` colours what is wrong."""
    item(head, style)
    for fault in verdict.faults:
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
