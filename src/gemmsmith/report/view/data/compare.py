"""Two kernels side by side: what they cost, who owns what, and the first warp of each in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gemmsmith.explain.occupancy import occupancy
from gemmsmith.gpus import gpu_named
from gemmsmith.report.view.data import ownership
from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.report.view.packing import packed
from gemmsmith.trace.launch_trace import Kind, LaunchTrace

_KINDS = tuple(Kind)
_MOST_EVENTS = 20_000
_DEFAULT = "H200"


def build(subject: ViewSubject) -> ViewData | None:
    """None unless the page was asked for two kernels."""
    if subject.other is None:
        return None
    sides = [_side(subject), _side(subject.other)]
    data = {"kinds": [str(kind) for kind in _KINDS], "sides": sides, "facts": _facts(subject, subject.other)}
    return ViewData("Side by side", _notice(subject, subject.other), data)


def _side(subject: ViewSubject) -> dict[str, Any]:
    trace = subject.trace
    owned = ownership.build(subject)
    found = dict(owned.data) if owned is not None else {}
    events = trace.warps[0].events[:_MOST_EVENTS] if trace.warps else ()
    kinds = [_KINDS.index(trace.instructions[event.instruction].kind) for event in events]
    return {
        "name": trace.kernel, "title": trace.title, "threads": trace.threads, "slots": trace.slots,
        "tile": found.get("tile"), "map": next(iter(found["maps"].values())) if found else None,
        "start": packed([event.start for event in events]), "length": packed([event.slots for event in events]),
        "kind": packed(kinds), "instruction": packed([event.instruction for event in events]),
        "ptx": [[each.ptx, each.file, each.line] for each in trace.instructions],
    }  # fmt: skip


def _facts(left: ViewSubject, right: ViewSubject) -> list[list[Any]]:
    """(name, left, right, which is better: less, more or neither), in the order of the table."""
    one, other = _measured(left), _measured(right)
    return [[name, one[name], other[name], better] for name, better in _BETTER.items() if name in one and name in other]


_BETTER = {
    "outputs per block": "", "threads per block": "", "outputs per thread": "", "registers per thread": "less",
    "shared memory per block, B": "less", "warps per SM": "more", "instructions per output": "less",
    "multiply-adds per instruction": "more", "global loads and copies per output": "less",
    "global sectors per output": "less", "shared wavefronts per output": "less",
    "bank conflicts, % of wavefronts": "less", "barriers and waits per warp": "less",
}  # fmt: skip


# What a kernel uses rather than what it costs.
_BUDGET = ("registers per thread", "shared memory per block, B", "warps per SM")


def _measured(subject: ViewSubject) -> dict[str, float]:
    """Per output of the simulated blocks, so that kernels with other tiles can be compared."""
    trace = subject.trace
    gpu = subject.gpu or gpu_named(_DEFAULT)
    outputs = _outputs(trace)
    used = subject.compiled.resources if subject.compiled is not None else None
    registers = used.registers if used is not None else trace.registers
    held = occupancy(gpu, threads=trace.threads, registers=registers, static_smem=trace.static_smem,
                     dynamic_smem=trace.dynamic_smem, barriers=used.barriers if used is not None else 0)  # fmt: skip
    blocks = max(1, len(trace.blocks))
    found: dict[str, float] = {
        "threads per block": trace.threads, "registers per thread": registers,
        "shared memory per block, B": trace.static_smem + trace.dynamic_smem, "warps per SM": held.warps_per_sm,
        "barriers and waits per warp": _waits(trace),
    }  # fmt: skip
    if outputs:
        found |= {"outputs per block": outputs / blocks, "outputs per thread": outputs / blocks / trace.threads}
        depth = trace.problem.get("k", 0)
        executed = sum(each.executed for each in trace.counts)
        if executed:
            found["instructions per output"] = executed / outputs
            if depth:
                found["multiply-adds per instruction"] = outputs * depth / executed
        sectors = sum(each.sectors for each in trace.counts)
        wavefronts = sum(each.wavefronts for each in trace.counts)
        loads = sum(each.executed for each in trace.counts if each.sectors and not each.ptx.lstrip().startswith("st"))
        found |= {"global loads and copies per output": loads / outputs, "global sectors per output": sectors / outputs,
                  "shared wavefronts per output": wavefronts / outputs}  # fmt: skip
        if wavefronts:
            conflicts = sum(each.conflicts for each in trace.counts)
            found["bank conflicts, % of wavefronts"] = 100 * conflicts / wavefronts
    return found


def _outputs(trace: LaunchTrace) -> int:
    """Elements of the output that the simulated blocks stored, each once."""
    name = trace.problem.get("output") or next((a.name for a in trace.arrays if a.role in ("C", "D")), "")
    boxes = {(b.first_row, b.last_row, b.first_column, b.last_column)
             for block in trace.blocks for b in block.stored if b.array == name}  # fmt: skip
    return int(np.sum([(r1 - r0 + 1) * (c1 - c0 + 1) for r0, r1, c0, c1 in boxes])) if boxes else 0


def _waits(trace: LaunchTrace) -> int:
    kinds = (Kind.BARRIER, Kind.WAIT, Kind.PHASE_WAIT)
    events = trace.warps[0].events if trace.warps else ()
    return sum(event.count for event in events if trace.instructions[event.instruction].kind in kinds)


def _notice(left: ViewSubject, right: ViewSubject) -> str:
    moved = [
        (abs(math.log(other / one)) if one > 0 and other > 0 else math.inf, name, one, other)
        for name, one, other, better in _facts(left, right)
        if better and name not in _BUDGET and one != other
    ]
    if not moved:
        return f"{left.trace.kernel} and {right.trace.kernel} cost the same per output."
    _, name, one, other = max(moved)
    return (f"What differs most between {left.trace.kernel} and {right.trace.kernel}: {name}, {_number(one)} and "
            f"{_number(other)}. Both run from the same issue slot; marked is what differs.")  # fmt: skip


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
