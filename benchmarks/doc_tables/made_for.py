"""Rungs at shapes that they are made for, beside the rung before them: from the records of their times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from doc_tables.records import load

_CYCLES, _VECTORS = "h200_cycles.json", "h200_vectors.json"


def packaged() -> str:
    """What `climb` says of these steps, one a line."""
    from gemmsmith.ladder.registry import rungs
    from gemmsmith.report.collect import rung_before

    names = [spec.name for spec in rungs()]
    rows = []
    for at, spec in enumerate(rungs()):
        before = rung_before(spec.name, names[:at]) if at else ""
        for shape in spec.made_for:
            both = {name: (us, config, record) for name, us, config, record in _times(shape) if name in names}
            if spec.name not in both or before not in both:
                raise SystemExit(f"no times of {spec.name} and {before} at {shape}")
            (us, config, record), (before_us, before_config, _) = both[spec.name], both[before]
            m, n, k = shape
            rows.append({"rung": spec.name, "before": before, "m": m, "n": n, "k": k, "us": us, "before_us": before_us,
                         "config": config, "before_config": before_config, "gpu": "H200",
                         "record": record})  # fmt: skip
    head = {"what": "rungs at shapes that they are made for, beside the rung before", "origin": "measured"}
    lines = ",\n".join(" " + json.dumps(row) for row in rows)
    return f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n'


def _times(shape: tuple[int, int, int]) -> Iterator[tuple[str, float, str, str]]:
    """Kernel, microseconds, configuration and record of all times of a plain product; of vectors, the fastest ones."""
    for row in load(_CYCLES)["rows"]:
        if "us" in row and (row["m"], row["n"], row["k"]) == shape:
            yield row["kernel"], row["us"], row["config"], _CYCLES
    for case in load(_VECTORS)["cases"]:
        its = case["shape"]
        if (its["m"], its["n"], its["k"], its["layout"], its["batch"]) == (*shape, "NN", 1):
            for kernel in dict.fromkeys(each["kernel"] for each in case["candidates"]):
                best = min((c for c in case["candidates"] if c["kernel"] == kernel), key=_us)
                yield kernel, best["us"], ",".join(f"{a}={b}" for a, b in best["config"].items()), _VECTORS


def _us(candidate: dict[str, Any]) -> float:
    return float(candidate.get("us", float("inf")))
