"""A run as a JSON object and back, without loss; for record files and for ``--json``.

NaN becomes null, a problem its fields, a type its name. Nothing is rounded.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from gemmsmith.errors import UsageError
from gemmsmith.problem import DType, Problem, stored_dtype
from gemmsmith.regular_file import regular
from gemmsmith.store.old_names import current_identity
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing


def run_to_json(run: Run) -> dict[str, Any]:
    """The run as JSON types, with derived figures (TFLOPS) beside the measured ones."""
    return {
        **_plain(dataclasses.replace(run, measurements=())),
        "measurements": [measurement_to_json(m) for m in run.measurements],
    }


def measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    derived = {"seconds": measurement.seconds, "tflops": measurement.tflops, "gbs": measurement.gbs}
    return {**_plain(measurement), "counters": _plain(dict(measurement.counters)), "derived": _plain(derived)}


def run_from_json(data: Any) -> Run:
    """Parse what ``run_to_json`` wrote; refuse anything else."""
    try:
        machine = {**data["machine"], "packages": tuple((str(n), str(v)) for n, v in data["machine"]["packages"])}
        found = tuple(_measurement(m) for m in data["measurements"])
        return Run(**{**data, "machine": Machine(**machine), "measurements": found})
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"not a gemmsmith run: {error!r}") from None


def read_run(path: Path) -> Run:
    """The run in a file."""
    try:
        return run_from_json(json.loads(regular(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the run in {path}: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, DType):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _measurement(data: dict[str, Any]) -> Measurement:
    problem = {**data["problem"], "dtype": stored_dtype(data["problem"]["dtype"]),
               "out_dtype": stored_dtype(data["problem"]["out_dtype"])}  # fmt: skip
    conditions = _numbers(data["conditions"], throttled=tuple(data["conditions"]["throttled"]))
    fields = {name: value for name, value in _numbers(data).items() if name != "derived"}
    return Measurement(**{
        **fields, "identity": current_identity(data["identity"]), "problem": Problem(**problem),
        "rho": tuple(_number(v) for v in data["rho"]), "timings": tuple(Timing(**t) for t in data["timings"]),
        "ratios": tuple(Ratio(**_numbers(r)) for r in data["ratios"]), "conditions": Conditions(**conditions),
        "counters": tuple((name, _number(value)) for name, value in data["counters"].items()),
    })  # fmt: skip


def _numbers(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {name: _number(value) for name, value in data.items()} | changes


def _number(value: Any) -> Any:
    return math.nan if value is None else value
