"""Predicted against measured time: every rung at every size of the record, and published points.

    python benchmarks/time_model.py [--rungs NAMES] [--sizes 512,1024] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
RECORDS = ("h200_ladder", "h200_ladder_again", "h200_ladder_third")


def measured() -> dict[tuple[str, int], dict[str, Any]]:
    """(rung, size) → configuration, and the cold graph times and clocks of the records with that configuration."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for name in RECORDS:
        for run in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["runs"]:
            for m in run["measurements"]:
                if m["identity"]["kind"] == "baseline":
                    continue
                key = m["identity"]["name"], m["problem"]["m"]
                here = found.setdefault(key, {"config": m["identity"]["config"], "us": [], "mhz": []})
                if here["config"] != m["identity"]["config"]:
                    continue
                for timing in m["timings"]:
                    if (timing["mode"], timing["cache"]) == ("graph", "cold"):
                        here["us"].append(timing["median"] * 1e6)
                        here["mhz"].append(m["conditions"]["sm_mhz"])
    return found


def point(name: str, size: int, us: float, mhz: float) -> dict[str, Any]:
    from gemmsmith.explain.timing.predict import predict
    from gemmsmith.gpus import gpu_named
    from gemmsmith.ladder.registry import rung_named
    from gemmsmith.problem import Problem

    start = time.perf_counter()
    spec = rung_named(name)
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    try:
        found = predict(spec, spec.config(), problem, gpu_named("H200"))
    except Exception as error:  # noqa: BLE001
        return {"rung": name, "size": size, "measured_us": us, "error": f"{type(error).__name__}: {error}"[:300]}
    last = found.launches[-1]
    return {"rung": name, "size": size, "measured_us": us, "predicted_us": found.us, "ratio": found.us / us,
            "mhz": mhz, "predicted_mhz": found.mhz, "cycles": last.cycles, "bound": found.bound,
            "rounds": [(t, r.blocks, round(r.cycles)) for t, r in last.rounds],
            "other_us": found.us - last.us, "seconds": time.perf_counter() - start}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rungs", default="")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", default="")
    given = parser.parse_args()
    rungs, sizes = given.rungs.split(",") if given.rungs else [], [int(s) for s in given.sizes.split(",") if s]
    points = [(n, s, sorted(m["us"])[len(m["us"]) // 2], sum(m["mhz"]) / len(m["mhz"]))
              for (n, s), m in measured().items() if (not rungs or n in rungs) and (not sizes or s in sizes)]  # fmt: skip
    found = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for row in pool.map(point, *zip(*points, strict=True)):
            found.append(row)
            if "error" in row:
                print(f"{row['rung']:20} {row['size']:5} {row['measured_us']:10.1f}  {row['error']}", flush=True)
            else:
                print(f"{row['rung']:20} {row['size']:5} {row['measured_us']:10.1f} {row['predicted_us']:10.1f} "
                      f"{row['ratio']:6.3f}  {row['seconds']:5.1f}s {row['mhz']:.0f} {row['predicted_mhz']:.0f} {row['rounds']} "
                      f"{row['other_us']:.1f} {row['bound']}", flush=True)  # fmt: skip
    good = [r for r in found if "ratio" in r]
    for limit in (0.1, 0.15, 0.2):
        print(f"within {limit:.0%}: {sum(abs(r['ratio'] - 1) <= limit for r in good)} of {len(found)}")
    if given.output:
        Path(given.output).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
