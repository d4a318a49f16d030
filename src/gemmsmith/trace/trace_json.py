"""A launch trace as JSON, and back. The events of a warp are columns: lists of equal length."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gemmsmith.errors import UsageError
from gemmsmith.regular_file import regular
from gemmsmith.trace.launch_trace import (
    FORMAT,
    VERSION,
    Access,
    Array,
    Box,
    Counted,
    Event,
    Fed,
    Fragment,
    Instruction,
    Kind,
    LaunchTrace,
    Outline,
    Phase,
    SharedArray,
    Snapshot,
    SourceFile,
    Warp,
)

_HINT = "gemmsmith profile KERNEL --trace FILE.json writes one"
_COLUMNS = ("start", "slots", "instruction", "count", "lanes", "access", "target", "facts")
_ACCESS = tuple(field.name for field in fields(Access))


def to_json(trace: LaunchTrace) -> dict[str, Any]:
    """The trace as JSON types."""
    accesses: dict[Access, int] = {}
    plain = {name: getattr(trace, name) for name in ("kernel", "title", "arch", "file", "grid", "block", "cluster",
             "static_smem", "dynamic_smem", "registers", "traced", "granule", "seconds", "fault")}  # fmt: skip
    return {
        "format": FORMAT, "version": VERSION, "origin": "simulated", **plain, "problem": dict(trace.problem),
        "arrays": [asdict(each) for each in trace.arrays], "shared": [asdict(each) for each in trace.shared],
        "files": [asdict(each) for each in trace.files],
        "instructions": [asdict(each) for each in trace.instructions],
        "patterns": trace.patterns,
        "warps": [_warp(warp, accesses) for warp in trace.warps],
        "accesses": {name: [getattr(each, name) for each in accesses] for name in _ACCESS},
        "fragments": [asdict(each) for each in trace.fragments], "fed": [asdict(each) for each in trace.fed],
        "phases": [asdict(each) for each in trace.phases],
        "snapshot": None if trace.snapshot is None else asdict(trace.snapshot),
        "blocks": [asdict(each) for each in trace.blocks], "counts": [asdict(each) for each in trace.counts],
    }  # fmt: skip


def _warp(warp: Warp, accesses: dict[Access, int]) -> dict[str, Any]:
    def number(access: Access | None) -> int:
        return -1 if access is None else accesses.setdefault(access, len(accesses))

    columns: dict[str, list[Any]] = {name: [getattr(event, name) for event in warp.events] for name in _COLUMNS[:5]}
    columns["access"] = [number(event.access) for event in warp.events]
    columns["target"] = [number(event.target) for event in warp.events]
    columns["facts"] = [None if event.facts is None else dict(event.facts) for event in warp.events]
    return {"number": warp.number, "skipped": warp.skipped, "gap": warp.gap, "events": columns}


def from_json(data: Mapping[str, Any]) -> LaunchTrace:
    """The trace of JSON types; raises for another format or version."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise UsageError("this is no trace of gemmsmith", _HINT)
    if data.get("version") != VERSION:
        raise UsageError(f"the trace has version {data.get('version')!r}, and {VERSION} is read", "record it again")
    accesses = [Access(*values) for values in zip(*(data["accesses"][name] for name in _ACCESS), strict=True)]

    def found(number: int) -> Access | None:
        return None if number < 0 else accesses[number]

    def warp(one: Mapping[str, Any]) -> Warp:
        rows = zip(*(one["events"][name] for name in _COLUMNS), strict=True)
        events = tuple(
            Event(row[0], row[1], row[2], row[3], row[4], found(row[5]), found(row[6]), row[7]) for row in rows
        )
        return Warp(one["number"], events, one["skipped"], one["gap"])

    def boxes(some: Sequence[Mapping[str, Any]]) -> tuple[Box, ...]:
        return tuple(Box(**each) for each in some)

    plain: dict[str, Any] = {
        **{name: data[name] for name in ("kernel", "title", "arch", "file", "static_smem", "dynamic_smem", "registers",
                                         "granule", "seconds", "problem")},
        **{name: tuple(data[name]) for name in ("grid", "block", "cluster", "traced")},
    }  # fmt: skip
    return LaunchTrace(
        **plain,
        arrays=tuple(Array(**each) for each in data["arrays"]),
        shared=tuple(SharedArray(**{**each, "extents": tuple(each["extents"])}) for each in data["shared"]),
        files=tuple(SourceFile(**each) for each in data["files"]),
        instructions=tuple(Instruction(**{**each, "kind": Kind(each["kind"])}) for each in data["instructions"]),
        patterns=_tuples(data["patterns"]), warps=tuple(map(warp, data["warps"])),
        fragments=tuple(map(_fragment, data["fragments"])),
        fed=tuple(Fed(each["array"], _tuples(each["sets"]), tuple(each["by_thread"])) for each in data["fed"]),
        phases=tuple(Phase(**each) for each in data["phases"]),
        snapshot=None if data["snapshot"] is None else Snapshot(data["snapshot"]["slot"],
                                                                _tuples(data["snapshot"]["runs"])),
        blocks=tuple(Outline(tuple(each["block"]), boxes(each["loaded"]), boxes(each["stored"]),
                             tuple(tuple(part) for part in each.get("parts", ())))
                     for each in data["blocks"]),
        counts=tuple(Counted(**each) for each in data.get("counts", ())), fault=data.get("fault", ""),
    )  # fmt: skip


def _fragment(data: Mapping[str, Any]) -> Fragment:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return Fragment(**values)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def trace_text(trace: LaunchTrace) -> str:
    """One line of JSON."""
    return json.dumps(to_json(trace), separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")


def read_trace(path: str | Path) -> LaunchTrace:
    """The trace in a file."""
    try:
        return from_json(json.loads(_text(regular(Path(path)))))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is no trace: {error}", _HINT) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", _HINT) from None
