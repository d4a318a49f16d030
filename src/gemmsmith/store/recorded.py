"""Results recorded on an H200, shipped with the package for readers who have no such GPU.

The full records stay in ``benchmarks/results/``. The package holds what the page shows of them: for every contender and
size one timing, the ratio to cuBLAS, and the GPU's clock and power. ``python benchmarks/update_docs.py`` writes
``store/data/h200_ladder.json`` through ``reduced``, and its ``--check`` compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.errors import UsageError
from gemmsmith.problem import Problem
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.run_file import measurement_to_json, run_from_json, run_to_json

FILES = ("h200_ladder.json",)
BASELINE = "cublas"  # the page gives shares of this one only
_CONTENDER = ("name", "kind", "config", "precision", "version")
_TIMING = ("mode", "cache", "median", "low", "high", "spread", "samples", "launches", "converged")
_CONDITIONS = ("sm_mhz", "sm_mhz_min", "sm_mhz_max", "power_w", "power_w_max", "temperature_c", "samples", "throttled")
_DIGITS = 6  # significant; the page shows four


@cache
def recorded_runs() -> tuple[Run, ...]:
    """Every run that comes with the package."""
    folder = files("gemmsmith").joinpath("store", "data")
    return tuple(expanded(json.loads(folder.joinpath(name).read_text(encoding="utf-8"))) for name in FILES)


def reduced(run: Run) -> dict[str, Any]:
    """What the page shows of a run: one object per contender and type, one row per size.

    Dropped are the timings that no table shows (``Measurement.best`` stays), ratios to other baselines, errors,
    counters, host overhead and source digests. Measured numbers keep six digits.
    """
    contenders: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in run.measurements:
        if one.problem != Problem(one.problem.m, one.problem.n, one.problem.k, one.problem.dtype):
            raise UsageError(f"{one.identity.name} at {one.problem}: only plain C = AB to fp32 is kept in the package")
        if one.origin != "measured":
            raise UsageError(f"{one.identity.name} at {one.problem} is {one.origin}: only measured results are kept")
        data = measurement_to_json(one)
        who = {name: data["identity"][name] for name in _CONTENDER} | {"dtype": one.problem.dtype.name}
        made = contenders.setdefault(tuple(map(str, who.values())), {**who, "rows": []})
        made["rows"].append(_row(one, data))
    head = {name: value for name, value in run_to_json(run).items() if name != "measurements"}
    return {**head, "columns": ["m", "n", "k", "verified", "rejected", "limit_tflops", BASELINE,
                                *_TIMING, *(f"gpu_{name}" for name in _CONDITIONS)],
            "contenders": list(contenders.values())}  # fmt: skip


def expanded(data: dict[str, Any]) -> Run:
    """The run that ``reduced`` wrote; what it dropped is empty or NaN."""
    head = {name: value for name, value in data.items() if name not in ("columns", "contenders")}
    return run_from_json({**head, "measurements": list(_measurements(data))})


def as_text(data: dict[str, Any]) -> str:
    """One row a line, so that a changed figure is one changed line in a diff."""
    head = {name: value for name, value in data.items() if name != "contenders"}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    blocks = []
    for contender in data["contenders"]:
        who = json.dumps({name: value for name, value in contender.items() if name != "rows"})
        rows = ",\n ".join(json.dumps(row, separators=(",", ":")) for row in contender["rows"])
        blocks.append(f'{who[:-1]}, "rows": [\n {rows}]}}')
    return "{" + "\n".join([*lines, '"contenders": [', ",\n".join(blocks)]) + "\n]}\n"


def _row(one: Measurement, data: dict[str, Any]) -> list[Any]:
    timing = next((t for t, kept in zip(data["timings"], one.timings, strict=True) if kept is one.best), None)
    ratio = next((r["value"] for r in data["ratios"] if r["baseline"] == BASELINE), None)
    values = [one.problem.m, one.problem.n, one.problem.k, one.verified, one.rejected, data["limit_tflops"], ratio]
    values += [timing[name] for name in _TIMING] if timing else [None] * len(_TIMING)
    values += [data["conditions"][name] for name in _CONDITIONS]
    return [float(f"{v:.{_DIGITS}g}") if isinstance(v, float) else v for v in values]


def _measurements(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    columns = data["columns"]
    for contender in data["contenders"]:
        dtype = contender["dtype"]
        for values in contender["rows"]:
            row = dict(zip(columns, values, strict=True))
            timing = {name: row[name] for name in _TIMING}
            ratio = {"baseline": BASELINE, "value": row[BASELINE], "low": None, "high": None}
            yield {
                "identity": {name: contender[name] for name in _CONTENDER},
                "problem": {"m": row["m"], "n": row["n"], "k": row["k"], "dtype": dtype, "out_dtype": "fp32"},
                "origin": "measured", "verified": row["verified"], "rejected": row["rejected"], "rho": [None, None],
                "timings": [timing] if row["median"] is not None else [],
                "ratios": [ratio] if row[BASELINE] is not None else [],
                "conditions": {name: row[f"gpu_{name}"] for name in _CONDITIONS},
                "limit_tflops": row["limit_tflops"], "counters": {},
            }  # fmt: skip
