"""Traces of small launches, recorded once for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any

from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain.source_text import source_lines
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.trace.launch_trace import Access, Array, Kind, LaunchTrace
from gemmsmith.trace.recording.record import record_product


@cache
def traced(name: str, m: int = 128, n: int = 128, k: int = 64) -> LaunchTrace:
    """The trace of a rung's first block."""
    spec = rung_named(name)
    problem = spec.problem(m, n, k)
    config, seen = aligned_code(spec, spec.config(), problem)
    compiled = compile_for(spec, config, seen, "sm_90a" if "wgmma" in name else "sm_90")
    return record_product(spec, config, problem, compiled, title=f"{name}, {problem}",
                          text_of=lambda file: "\n".join(source_lines(spec, file)))  # fmt: skip


def subject(name: str, m: int = 128, n: int = 128, k: int = 64) -> ViewSubject:
    return ViewSubject(traced(name, m, n, k), command=f"gemmsmith view {name}")


def output_of(trace: LaunchTrace) -> Array:
    return next(array for array in trace.arrays if array.role == "C")


def stored(trace: LaunchTrace) -> dict[int, set[tuple[int, int]]]:
    """The elements of C that each thread stores, alone or by TMA."""
    out, found = output_of(trace), dict[int, set[tuple[int, int]]]()
    for warp in trace.warps:
        for event in warp.events:
            access, facts = event.access, event.facts or {}
            if trace.instructions[event.instruction].kind is Kind.BULK_STORE and facts["array"] == out.name:
                thread = 32 * warp.number + event.lanes.bit_length() - 1
                found.setdefault(thread, set()).update(box_places(facts))
            if access is None or trace.instructions[event.instruction].kind is not Kind.STORE_GLOBAL:
                continue
            if trace.array_at(access.at) == out:
                for lane, address in lanes(trace, access):
                    places = {out.place(address + byte) for byte in range(0, access.width, out.itemsize)}
                    found.setdefault(32 * warp.number + lane, set()).update(places)
    return found


def box_places(facts: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    (top, bottom), (left, right) = facts["rows"], facts["columns"]
    return product(range(top, bottom + 1), range(left, right + 1))


def lanes(trace: LaunchTrace, access: Access) -> list[tuple[int, int]]:
    """(lane, address) of the lanes that take part."""
    return [(lane, access.at + offset) for lane, offset in enumerate(trace.patterns[access.pattern]) if offset >= 0]


def consumed(trace: LaunchTrace) -> dict[int, tuple[set[int], set[int]]]:
    """The rows of A and the columns of B that each thread's arithmetic uses."""
    roles = {array.role: array.name for array in trace.arrays}
    fed = {each.array: each for each in trace.fed}
    a, b = fed[roles["A"]], fed[roles["B"]]
    return {thread: (set(a.sets[one][0]), set(b.sets[other][1]))
            for thread, (one, other) in enumerate(zip(a.by_thread, b.by_thread, strict=True))
            if a.sets[one][0]}  # fmt: skip
