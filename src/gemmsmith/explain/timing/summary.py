"""A prediction in short: what a step between two kernels is explained from, live or from a record.

The package ships the predictions of all rungs at 4096³ on the H200 (``store/data/h200_time_model.json``), made by
``benchmarks/time_model.py``, so that `climb` need not run the cycle model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.explain.timing.timed import Timed
from gemmsmith.explain.timing.whatif import WhatIf
from gemmsmith.gpus import GPU
from gemmsmith.problem import Problem
from gemmsmith.sim.timing.outcome import Outcome

RECORD = "h200_time_model.json"
_LONGEST = 4  # stall reasons that are shown


@dataclass(frozen=True)
class TimeSummary:
    """The predicted time of a launch and its reasons.

    reasons  cycles that a warp waits for each instruction, by stall reason of ncu, the longest first
    amounts  what the whole launch does on one SM: warp instructions, cycles of units, bytes
    source   '' if it was predicted now, else where the record comes from
    """

    gpu: str
    us: float
    low_us: float
    high_us: float
    tflops: float
    bound: str
    reasons: tuple[tuple[str, float], ...]
    what_ifs: tuple[WhatIf, ...]
    amounts: tuple[tuple[str, float], ...]
    source: str = ""

    @property
    def waits(self) -> str:
        """What warps wait for most, in words."""
        found = [f"{name.replace('_', ' ')} {value:.1f}" for name, value in self.reasons if name != "selected"]
        return f"Cycles that a warp waits for each instruction: {', '.join(found[:3])}."


def summary_of(found: Timed) -> TimeSummary | None:
    """The summary of a prediction; None if there is none."""
    now = found.predicted
    if now is None:
        return None
    scale = now.main.cycles / now.outcome.cycles if now.outcome.cycles else 0.0
    amounts = tuple((name, scale * value) for name, value in _amounts(now.outcome).items())
    return TimeSummary(now.gpu, now.us, now.low_us, now.high_us, found.flops / now.us / 1e6, now.bound, found.reasons,
                       found.what_ifs, amounts)  # fmt: skip


def _amounts(outcome: Outcome) -> dict[str, float]:
    return {"warp instructions": float(outcome.issued), "cycles of shared memory and L1": outcome.data_cycles,
            "lines looked up in L1": outcome.tag_cycles, "bytes from L2": outcome.l2_bytes}  # fmt: skip


def summary_to_json(found: TimeSummary) -> dict[str, Any]:
    """As JSON types, with four digits."""
    return {
        "gpu": found.gpu, "us": _short(found.us), "low_us": _short(found.low_us), "high_us": _short(found.high_us),
        "tflops": _short(found.tflops), "bound": found.bound, "reasons": {n: _short(v) for n, v in found.reasons},
        "what_ifs": [[w.cost, _short(w.gain), w.bound, _short(w.us)] for w in found.what_ifs],
        "amounts": {n: _short(v) for n, v in found.amounts},
    }  # fmt: skip


def summary_from_json(data: Mapping[str, Any], source: str = "") -> TimeSummary:
    """What ``summary_to_json`` wrote."""
    what_ifs = tuple(WhatIf(cost, gain, bound, us) for cost, gain, bound, us in data["what_ifs"])
    return TimeSummary(data["gpu"], data["us"], data["low_us"], data["high_us"], data["tflops"], data["bound"],
                       tuple(data["reasons"].items()), what_ifs, tuple(data["amounts"].items()), source)  # fmt: skip


def recorded_summary(rung: str, config: str, problem: Problem, gpu: GPU) -> TimeSummary | None:
    """The recorded prediction of a rung; None for another GPU, size or configuration than was recorded."""
    record = _record()
    found = record["rungs"].get(rung)
    cube = (problem.m, problem.n, problem.k) == (record["size"],) * 3
    if found is None or not cube or found["config"] != config or found["gpu"] != gpu.name:
        return None
    return summary_from_json(found, f"recorded {record['date']}: {record['command']}")


def recorded_stalls(rung: str, config: str, problem: Problem, gpu: GPU) -> tuple[str, dict[str, float]]:
    """Where ncu's stall reasons of a rung come from, and cycles for each instruction by reason; empty if none are."""
    record = _record()
    found = record["rungs"].get(rung, {})
    cube = (problem.m, problem.n, problem.k) == (record["size"],) * 3
    if not cube or found.get("config") != config or gpu.name != found.get("gpu") or "ncu" not in found:
        return "", {}
    return record.get("ncu", "ncu"), found["ncu"]


def stalls_beside(found: Timed, source: str, seen: Mapping[str, float]) -> str:
    """A sentence with ncu's longest stall reasons, and the model's for the same."""
    model = dict(found.reasons)
    longest = sorted((name for name in seen if name != "selected"), key=lambda name: -seen[name])[:_LONGEST]
    each = ", ".join(f"{n.replace('_', ' ')} {seen[n]:.1f} (model {model.get(n, 0.0):.1f})" for n in longest)
    return f"The same by {source}: {each}."


@cache
def _record() -> dict[str, Any]:
    path = files("gemmsmith").joinpath("store", "data", RECORD)
    empty: dict[str, Any] = {"size": 0, "rungs": {}}
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else empty


def _short(value: float) -> float:
    return float(f"{value:.4g}")
