"""Predicted against measured time: all rungs and sizes of the record, kernels from outside, published ladders.

    python benchmarks/time_model.py [--rungs NAMES] [--sizes 512,1024] [--sets ladder,probes,outside,published]
                                    [--jobs 2] [--output benchmarks/results/time_model.json] [--partial POINTS.jsonl]

Points of benchmarks/time_model_fitted.txt, and eight_kilobytes.cu, were looked at while rules and parameters were set;
figures that documentation quotes are of the others. A point that is stale does not count either: its kernel was timed
with another source than today's (timed_sources.py); `python benchmarks/record_cycles.py --rungs NAME` times it again.
Rungs at 4096³ also get their stall reasons and what-ifs, from which `climb` explains the ladder's steps.
`python benchmarks/update_docs.py` makes the tables, the picture and the package's copy from the record.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from timed_sources import is_stale

HERE = Path(__file__).parent
RESULTS = HERE / "results"
RECORD = "h200_cycles.json"
DEEP = (4096, 4096, 8192)
KERNELS = HERE.parent / "src" / "gemmsmith" / "learn" / "worklogs" / "kernels"

EXPLAINED = 4096  # the size at which `climb` explains steps

Point = dict[str, Any]


def looked_at() -> dict[tuple[str, tuple[int, ...]], str]:
    """Rung and shape of points that are no test: "fitted", rules may be set with them, or "seen" by earlier work."""
    lines = (HERE / "time_model_fitted.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line and line[0] != "#")
    return {(name, _shape(size)): how for name, size, how in rows}


def _shape(text: str) -> tuple[int, ...]:
    extents = tuple(int(n) for n in text.split("x"))
    return extents if len(extents) == 3 else extents * 3


def ladder_points() -> list[Point]:
    """Every rung and size, each timed alone (record_cycles.py); 4096 x 4096 x 8192 and the shapes that rungs are made
    for are a set of their own."""
    chosen = looked_at()
    found: list[Point] = []
    for row in json.loads((RESULTS / RECORD).read_text(encoding="utf-8"))["rows"]:
        if "us" not in row or row["kernel"].endswith(".cu"):
            continue
        m, n, k = (row[name] for name in "mnk")
        how = "fitted" if (m, n, k) == DEEP else chosen.get((row["kernel"], (m, n, k)))
        found.append({
            "set": "ladder" if m == n == k else "shapes", "gpu": "H200", "kernel": row["kernel"], "size": m,
            "shape": [m, n, k], "preset": "", "config": row["config"], "measured_us": row["us"],
            "recorded_mhz": row["mhz"], "fitted": how == "fitted", "seen": how == "seen", "stale": is_stale(row),
        })  # fmt: skip
    return found


def probe_points() -> list[Point]:
    """micro/outer_product.cu, timed beside the rungs: kernels that show one cost each, with which rules are set."""
    rows = json.loads((RESULTS / RECORD).read_text(encoding="utf-8"))["rows"]
    return [{"set": "probes", "gpu": "H200", "kernel": row["kernel"], "size": row["k"], "preset": "",
             "shape": [row["m"], row["n"], row["k"]], "defines": row.get("defines", {}), "folder": "micro",
             "config": " ".join(f"{a}={b}" for a, b in row.get("defines", {}).items()) or "loads alone",
             "measured_us": row["us"], "recorded_mhz": row["mhz"], "fitted": True, "stale": is_stale(row)}
            for row in rows if "us" in row and row["kernel"].endswith(".cu")]  # fmt: skip


def outside_points() -> list[Point]:
    """Kernels and configurations of worklogs that were timed on the H200, none of them a rung's default."""
    record = json.loads((RESULTS / "h200_worklogs.json").read_text(encoding="utf-8"))
    made: list[Point] = []
    defines = {"as published": {}, "A padded by 1": {"PAD": 1}, "A padded by 4": {"PAD": 4},
               "B by groups of four": {"COLUMNS_OF_FOUR": 1}}  # fmt: skip
    for name, one in record["conflicts"].items():
        us = 2 * 4096**3 / one["timed"]["found"]["tflops"][0] / 1e6
        made.append({"set": "outside", "gpu": "H200", "kernel": "stride_of_eight.cu", "size": 4096, "preset": "",
                     "config": name, "defines": defines[name], "measured_us": us, "fitted": False})  # fmt: skip
    for name, one in record["ladder"].items():
        us = 2 * 4096**3 / one["timed"]["found"]["tflops"][0] / 1e6
        if name == "block_tile_2d":
            made.append({"set": "outside", "gpu": "H200", "kernel": name, "size": 4096, "preset": "128x128x8-8x8",
                         "config": "128x128x8-8x8", "measured_us": us, "fitted": False})  # fmt: skip
    for smem, one in record["not selected"].items():
        us = one["found"]["gpu__time_duration.sum"] / 1e3
        made.append({"set": "outside", "gpu": "H200", "kernel": "eight_kilobytes.cu", "size": 2048, "preset": "",
                     "config": f"{smem} bytes more", "smem": int(smem), "measured_us": us,
                     "fitted": True})  # fmt: skip
    return made


def published_points() -> list[Point]:
    """Rungs on other people's GPUs, as published; never used to set a parameter."""
    from gemmsmith.learn.worklogs.ladders import worklogs

    return [{"set": "published", "gpu": s.published.gpu, "kernel": s.published.kernel, "size": s.published.size,
             "preset": s.preset, "config": s.published.config, "source": s.published.source,
             "measured_us": 2 * s.published.size**3 / s.published.tflops / 1e6, "fitted": False}
            for log in worklogs() for s in log.steps if s.preset]  # fmt: skip


def predicted(points: list[Point]) -> list[Point]:
    """The points of one kernel on one GPU with what the model says."""
    found: list[Point] = []
    before: list[Any] = []
    for point in sorted(points, key=lambda p: int(p["size"])):
        start = time.process_time()
        try:
            found.append(point | _predicted(point, before))
        except Exception as error:
            found.append(point | {"error": f"{type(error).__name__}: {error}"[:300]})
        found[-1]["seconds"] = round(time.process_time() - start, 1)
    return found


def _predicted(point: Point, before: list[Any]) -> Point:
    from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
    from gemmsmith.explain.timing.predict import Predictor
    from gemmsmith.explain.timing.prediction import Changes, kind_of
    from gemmsmith.gpus import gpu_named
    from gemmsmith.ladder.registry import rung_named

    size = point["size"]
    if point["kernel"].endswith(".cu"):
        given: dict[str, Any] = {"define": [f"{k}={v}" for k, v in point.get("defines", {}).items()]}
        given |= {"smem": str(point["smem"])} if "smem" in point else {}
        folder = HERE / point["folder"] if point.get("folder") else KERNELS
        spec, config = find_kernel(str(folder / point["kernel"]), KernelOptions(**given))
    else:
        spec = rung_named(point["kernel"])
        config = spec.config(preset=point["preset"])
    predictor = Predictor(spec, config, spec.problem(*point.get("shape", (size, size, size))), gpu_named(point["gpu"]))
    any(predictor.adopt(other) for other in reversed(before))
    before.append(predictor)
    # All blocks of a probe fetch the same data, so that DRAM gives them once.
    changes = Changes(cold=point["set"] != "probes")
    own = predictor.predict(changes)
    # At the clock that the kernel ran at, which the record has; the clock that the model finds is told beside it.
    now = predictor.predict(changes, mhz=point["recorded_mhz"]) if "recorded_mhz" in point else own
    why = {"why": _why(predictor, own)} if point["set"] == "ladder" and size == EXPLAINED else {}
    return why | {
        "predicted_us": round(now.us, 3), "ratio": round(now.us / point["measured_us"], 4),
        "low_us": round(now.low_us, 3), "high_us": round(now.high_us, 3),
        "own_clock_us": round(own.us, 3), "own_clock_mhz": round(own.mhz),
        "cycles": round(now.main.cycles), "bound": now.bound, "kind": kind_of(predictor.program),
        "rounds": [(times, each.blocks, round(each.cycles)) for times, each in now.main.rounds],
        "other_us": round(now.us - now.main.us, 3),
    }  # fmt: skip


def _why(predictor: Any, own: Any) -> dict[str, Any]:
    from gemmsmith.explain.timing.summary import summary_of, summary_to_json
    from gemmsmith.explain.timing.timed import timed_by
    from gemmsmith.report.collect import ladder_config

    found = summary_of(timed_by(predictor, own))
    assert found is not None
    return {"config": str(ladder_config(predictor.spec)), **summary_to_json(found)}


def shown(row: Point) -> str:
    config = row["config"][:22] if row["set"] not in ("ladder", "shapes") else "x".join(map(str, row["shape"][1:]))
    head = f"{row['gpu']:10} {row['kernel']:20} {config:22} {row['size']:5} {row['measured_us']:10.1f}"
    if "error" in row:
        return f"{head}  {row['error']}"
    head += " (timed before its source changed)" if row.get("stale") else ""
    return (f"{head} {row['predicted_us']:10.1f} {row['ratio']:6.3f} {row['seconds']:5.1f}s "
            f"{row.get('recorded_mhz', 0)} {row['own_clock_us']:.1f}@{row['own_clock_mhz']} {row['rounds']} "
            f"{row['other_us']:.1f} {row['bound']}")  # fmt: skip


def counts(row: Point) -> bool:
    """Whether a point is a test: nothing was set with it, and its kernel is still the one that was timed."""
    return not (row["fitted"] or row.get("seen") or row.get("stale"))


def summary(rows: list[Point]) -> dict[str, Any]:
    """How many points lie within 10, 15 and 20 %: of each set, without those that were fitted, seen or are stale."""
    made = {}
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name and counts(row)]
        ratios = [row["ratio"] for row in mine if "ratio" in row]
        own = [row["own_clock_us"] / row["measured_us"] for row in mine if "ratio" in row]
        made[name] = {"points": len(mine), "fitted": sum(row["fitted"] for row in rows if row["set"] == name),
                      "seen": sum(bool(row.get("seen")) for row in rows if row["set"] == name),
                      "stale": sum(bool(row.get("stale")) for row in rows if row["set"] == name),
                      **{f"within_{limit}": sum(abs(r - 1) <= limit / 100 for r in ratios) for limit in (10, 15, 20)},
                      "own_clock_within_20": sum(abs(r - 1) <= 0.2 for r in own),
                      "geometric_mean": round(math.exp(sum(map(math.log, ratios)) / max(1, len(ratios))), 4),
                      "failed": len(mine) - len(own)}  # fmt: skip
    return made


def _seconds_before(points: list[Point]) -> float:
    """How long these took in the record, so that the longest start first."""
    known = json.loads((RESULTS / "time_model.json").read_text(encoding="utf-8"))["points"]
    mine = {(p["set"], p["gpu"], p["kernel"], p["size"], p["config"]) for p in points}
    return sum(p.get("seconds", 0.0) for p in known
               if (p["set"], p["gpu"], p["kernel"], p["size"], p["config"]) in mine)  # fmt: skip


def _key(p: Point) -> tuple[Any, ...]:
    return p["set"], p["gpu"], p["kernel"], p["preset"], p["config"], p["size"], tuple(p.get("shape", ()))


def _tasks(points: list[Point]) -> list[list[Point]]:
    """Points of one kernel share what they execute, so they stay together, but for those that never share it."""
    from gemmsmith.ladder.registry import rung_named

    kernels: dict[tuple[Any, ...], list[Point]] = {}
    for p in points:
        key = p["set"], p["gpu"], p["kernel"], p["preset"], str(p.get("defines")), str(p.get("smem"))
        alone = not p["kernel"].endswith(".cu") and rung_named(p["kernel"]).persistent
        kernels.setdefault((*key, str(p.get("shape"))) if alone else key, []).append(p)
    return sorted(kernels.values(), key=_seconds_before, reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rungs", default="")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--sets", default="ladder,probes,outside,published")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", default="")
    parser.add_argument("--partial", default="")
    given = parser.parse_args()
    sets = {"ladder": ladder_points, "probes": probe_points, "outside": outside_points, "published": published_points}
    points = [p for name in given.sets.split(",") for p in sets[name]()]
    points = [p for p in points if (not given.rungs or p["kernel"] in given.rungs.split(","))
              and (not given.sizes or str(p["size"]) in given.sizes.split(","))]  # fmt: skip
    partial = Path(given.partial) if given.partial else None
    rows = [json.loads(line) for line in partial.read_text().splitlines()] if partial and partial.exists() else []
    made = {_key(row) for row in rows}
    tasks = _tasks([p for p in points if _key(p) not in made])
    with ProcessPoolExecutor(given.jobs) as pool:
        for one in as_completed([pool.submit(predicted, some) for some in tasks]):
            rows += one.result()
            print("\n".join(shown(row) for row in one.result()), flush=True)
            if partial:
                with partial.open("a") as file:
                    file.writelines(f"{json.dumps(row)}\n" for row in one.result())
    rank = {_key(p): n for n, p in enumerate(points)}
    rows = sorted((row for row in rows if _key(row) in rank), key=lambda row: rank[_key(row)])
    found = summary(rows)
    print(json.dumps(found, indent=1))
    if given.output:
        from gemmsmith.compile.toolchain import find_toolchain

        head = {"what": "predicted against measured time", "date": datetime.now(UTC).date().isoformat(),
                "compiler": find_toolchain().compiler,
                "command": "python benchmarks/time_model.py --output benchmarks/results/time_model.json",
                "summary": found}  # fmt: skip
        write_record(Path(given.output), head, "points", rows)
    return 0


def write_record(path: Path, head: Point, name: str, rows: list[Point]) -> None:
    """A record with one row on a line, so that a change of one row is a change of one line."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "{name}": [\n{lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
