"""Facts of a launch that the shell and all views share."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gemmsmith.report.view.model import ViewSubject
from gemmsmith.trace.launch_trace import LaunchTrace


def page_facts(subject: ViewSubject) -> dict[str, Any]:
    """``host.page`` of the scripts: facts of the launch, its arrays, and its instructions with their source lines."""
    trace = subject.trace
    return {
        "title": trace.title, "kernel": trace.kernel, "summary": trace.summary, "command": subject.command,
        "gpu": subject.gpu.name if subject.gpu else "", "arch": trace.arch, "file": trace.file,
        "fault": trace.fault,
        "grid": trace.grid, "block": trace.block, "cluster": trace.cluster, "traced": trace.traced,
        "threads": trace.threads, "problem": dict(trace.problem), "granule": trace.granule,
        "arrays": [asdict(each) for each in trace.arrays], "shared": [asdict(each) for each in trace.shared],
        "instructions": [[each.ptx, each.kind, each.file, each.line] for each in trace.instructions],
        "lines": _lines(trace),
    }  # fmt: skip


def _lines(trace: LaunchTrace) -> dict[str, str]:
    """The source lines that instructions come from: 'kernel.cu:41' to text."""
    texts = {file.name: file.text.expandtabs(4).splitlines() for file in trace.files}
    found = {}
    for each in trace.instructions:
        for where in (f"{each.file}:{each.line}", each.caller):
            file, _, number = where.rpartition(":")
            lines = texts.get(file, [])
            if number.isdigit() and 0 < int(number) <= len(lines):
                found[where] = lines[int(number) - 1].strip()
    return found
