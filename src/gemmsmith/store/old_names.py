"""Stored results under the names of today. A user's own file may have macros with the same names: they stay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gemmsmith.kernel.renamed import current_text
from gemmsmith.run.contender import Identity

_TIMES = "×"  # joins parameters that vary together, and their values


def current_identity(fields: Mapping[str, Any]) -> Identity:
    """The identity with these fields; a rung's configuration has the parameter names of today."""
    identity = Identity(**fields)
    if identity.kind != "rung":
        return identity
    return Identity(**{**fields, "config": current_text(identity.config)})


def current_sweep(data: Any) -> Any:
    """The fields of a saved sweep with the parameter names of today; anything that is not a sweep is left alone."""
    if not isinstance(data, dict) or ".cu" in str(data.get("title")):
        return data
    names, points = data["parameters"], data["points"]
    changed = [current_text(f"{name}=0") != f"{name}=0" for joined in names for name in joined.split(_TIMES)]
    if not any(changed):
        return data
    rows = [[_axis(name, value) for name, value in zip(names, point["values"], strict=True)] for point in points]
    return {
        **data,
        "title": _title(data["title"]),
        "parameters": [name for name, _ in rows[0]] if rows else names,
        "points": [{**point, "values": [value for _, value in row]} for point, row in zip(points, rows, strict=True)],
    }


def _axis(name: str, value: str) -> tuple[str, str]:
    """A parameter, or several joined, and the values; one that became two is joined: STORE_MODE×STORE_BOXES, 1×4."""
    pairs = zip(name.split(_TIMES), value.split(_TIMES), strict=True)
    items = [item.partition("=") for one, its in pairs for item in current_text(f"{one}={its}").split(",")]
    return _TIMES.join(item[0] for item in items), _TIMES.join(item[2] for item in items)


def _title(text: str) -> str:
    """With every parameter in it renamed, with its value or alone."""

    def renamed(found: re.Match[str]) -> str:
        if found[2]:
            return current_text(found[0])
        return _TIMES.join(item.partition("=")[0] for item in current_text(f"{found[1]}=0").split(","))

    return re.sub(r"\b([A-Z][A-Z_]+)(=-?\d+)?", renamed, text)
