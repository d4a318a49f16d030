"""The JSON file that passes events from the traced process to the reading one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from gemmsmith.errors import LaunchError
from gemmsmith.trace.timeline import Event

_SCHEMA = 1


def write_events(path: Path, events: Sequence[Event]) -> None:
    """Write events; each name is stored once, since a bench has a million events and a dozen names."""
    names = {name: number for number, name in enumerate(dict.fromkeys(event.name for event in events))}
    rows = []
    for event in events:
        kind, name, *rest = astuple(event)
        rows.append((kind, names[name], *rest))
    path.write_text(json.dumps({"schema": _SCHEMA, "names": list(names), "rows": rows}), encoding="utf-8")


def read_events(path: Path) -> tuple[Event, ...]:
    """Read what ``write_events`` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["schema"] != _SCHEMA:
        raise LaunchError(f"{path.name} has schema {found['schema']}, not {_SCHEMA}")
    names: list[str] = found["names"]
    return tuple(
        Event(kind, names[name], start, duration, nbytes, tuple(grid), tuple(block), *rest)
        for kind, name, start, duration, nbytes, grid, block, *rest in found["rows"]
    )
