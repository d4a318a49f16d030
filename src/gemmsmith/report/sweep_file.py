"""Sweeps as JSON: written by ``gemmsmith sweep --save``, read by the page; some are shipped with the package."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gemmsmith.errors import UsageError
from gemmsmith.regular_file import regular
from gemmsmith.report.files import replace_file
from gemmsmith.report.report_model import MEASURED, PREDICTED, RECORDED, SIMULATED, Sweep, SweepPoint
from gemmsmith.store.old_names import current_sweep

_PACKAGED = "h200_sweeps.json"
_TEXTS = ("title", "quantity", "origin", "command", "where")
_NUMBERS = ("value", "low", "high")


def sweep_to_json(sweep: Sweep) -> dict[str, Any]:
    """Every field; null stands for a missing figure."""
    made = dataclasses.asdict(sweep)
    for point in made["points"]:
        for name in _NUMBERS:
            point[name] = point[name] if math.isfinite(point[name]) else None
    return made


def sweep_from_json(data: Any) -> Sweep:
    """Parse what ``sweep_to_json`` wrote; refuse anything else."""
    try:
        data = current_sweep(data)
        points = tuple(_point(point, len(data["parameters"])) for point in data["points"])
        made = Sweep(**{**data, "parameters": _texts(data["parameters"]), "points": points})
        _texts(getattr(made, name) for name in _TEXTS)
        if type(made.more_is_better) is not bool:
            raise ValueError(f"more_is_better is {made.more_is_better!r}")
        if made.origin not in (MEASURED, RECORDED, SIMULATED, PREDICTED):
            raise ValueError(f"origin is {made.origin!r}")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _no_sweep("this") from None
    return made


def save_sweep(path: Path, sweep: Sweep) -> None:
    try:
        replace_file(path, json.dumps(sweep_to_json(sweep), indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def read_sweeps(path: Path) -> tuple[Sweep, ...]:
    """The sweep, or list of sweeps, saved in a file."""
    try:
        found = json.loads(regular(path).read_text(encoding="utf-8"))
        return tuple(map(sweep_from_json, found if isinstance(found, list) else [found]))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError, UsageError):
        raise _no_sweep(str(path)) from None


def as_recorded(sweep: Sweep) -> Sweep:
    """A sweep from a file counts as recorded, not as measured here."""
    return dataclasses.replace(sweep, origin=RECORDED) if sweep.origin == MEASURED else sweep


@cache
def recorded_sweeps() -> tuple[Sweep, ...]:
    """The sweeps shipped with the package; empty if there is no such file."""
    file = files("gemmsmith").joinpath("store", "data", _PACKAGED)
    if not file.is_file():
        return ()
    return tuple(as_recorded(sweep_from_json(data)) for data in json.loads(file.read_text(encoding="utf-8")))


def _no_sweep(what: str) -> UsageError:
    return UsageError(
        f"{what} is not a sweep saved by gemmsmith sweep --save", "gemmsmith sweep … --save FILE.json writes one"
    )


def _point(data: dict[str, Any], width: int) -> SweepPoint:
    numbers = {name: math.nan if data[name] is None else float(data[name]) for name in _NUMBERS}
    made = SweepPoint(**{**data, **numbers, "values": _texts(data["values"])})
    if len(made.values) != width:
        raise ValueError(f"{len(made.values)} values for {width} parameters")
    _texts((made.note, made.illegal))
    return made


def _texts(values: Any) -> tuple[str, ...]:
    made = tuple(values)
    if not all(isinstance(value, str) for value in made):
        raise TypeError(f"{made!r} are not all strings")
    return made
