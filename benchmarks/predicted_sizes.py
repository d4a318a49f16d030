"""The times that the model predicts for one kernel at several sizes, as rows of a record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.prediction import kind_of
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec


def predicted_sizes(
    title: str, spec: KernelSpec, config: Config, sizes: Sequence[int]
) -> tuple[list[dict[str, Any]], str]:
    """A row for each size on the H200, printed as it comes; and the compiler."""
    rows: list[dict[str, Any]] = []
    before: list[Predictor] = []
    for size in sizes:
        predictor = Predictor(spec, config, spec.problem(size, size, size), gpu_named("H200"))
        any(predictor.adopt(other) for other in reversed(before))
        before.append(predictor)
        found = predictor.predict()
        times = {"us": found.us, "low_us": found.low_us, "high_us": found.high_us, "mhz": found.mhz}
        rows.append({"kernel": title, "size": size, **{name: round(value, 3) for name, value in times.items()},
                     "cycles": round(found.main.cycles), "bound": found.bound,
                     "kind": kind_of(predictor.program)})  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows, before[-1].subject.compiled.compiler
