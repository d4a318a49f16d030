"""Time many configurations on many shapes beside cuBLAS: the data that the cost model is fitted to and tested on.

    python benchmarks/time_candidates.py plan.json times.json [--seconds 180]

plan.json lists shapes with their configurations: [{"shape": {…}, "candidates": [{"kernel": …, "config": {…}}, …]}, …].
Configurations are compiled by other processes while earlier shapes are timed. Every result is compared with cuBLAS's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shape_rig import QUICK, QUICK_LARGE, SUSTAINED, Rig, Shape, compiled_as

from gemmsmith.bench.clocks import open_probe
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.candidates import Candidate
from gemmsmith.errors import GemmsmithError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.run.cuda import cuda_device
from gemmsmith.tune.compile_ahead import CompilePool

LARGE = 1e11  # FLOP: from here on the power cap sets the clock
ROUNDS, ROUNDS_LARGE = 4, 3


def timed_shape(rig: Rig, shape: Shape, candidates: list[Candidate], failures: dict[Any, str]) -> dict[str, Any]:
    large = shape.problem.flops >= LARGE
    mode, rounds = (QUICK_LARGE, ROUNDS_LARGE) if large else (QUICK, ROUNDS)
    found: list[dict[str, Any]] = []
    contenders = []
    with rig.operands(shape) as sets:
        library = rig.library(sets)
        library(0)
        expected = sets[0][2].clone()
        cublas = rig.prepared("cublas", library, len(sets), mode)
        contenders.append(cublas)
        rows = []
        for candidate in candidates:
            row: dict[str, Any] = {"kernel": candidate.spec.name, "config": dict(candidate.config)}
            found.append(row)
            try:
                if candidate.name in failures:
                    raise GemmsmithError(failures[candidate.name])
                launch, close = rig.kernel(candidate.spec, candidate.config, shape.problem, sets)
                sets[0][2].fill_(float("nan"))
                launch(0)
                row["difference"] = round(rig.difference(sets[0][2], expected), 5)
                timed = rig.prepared(str(candidate), launch, len(sets), mode, close)
            except (GemmsmithError, RuntimeError) as error:
                row["error"] = str(error)[:200]
                continue
            rows.append((row, timed))
            contenders.append(timed)
        rig.sample(cublas, SUSTAINED)  # after a pause the clock is the idle one, and rises within some ms
        cublas.samples.clear()
        rig.rounds(contenders, mode, rounds)
        for row, timed in rows:
            row["us"] = round(timed.us, 3)
        for timed in contenders:
            timed.replay.close()
            timed.close()
    return {"shape": asdict(shape), "kind": shape.kind, "cublas_us": round(cublas.us, 3), "candidates": found}


def line(shape: Shape, found: dict[str, Any]) -> str:
    rows = [row for row in found["candidates"] if "us" in row]
    failed = [row["error"] for row in found["candidates"] if "error" in row]
    if not rows:
        return f"{shape}: all failed: {failed[:1]}"
    best, cublas = min(rows, key=lambda row: float(row["us"])), found["cublas_us"]
    wrong = sum(row["difference"] > 0.1 for row in rows)
    return (
        f"{shape} [{found['kind']}]: cuBLAS {cublas} us, best {cublas / best['us']:.3f}, first "
        f"{cublas / rows[0]['us']:.3f} {best['config']} wrong {wrong} failed {len(failed)} {failed[:1]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("times", type=Path)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--processes", type=int, default=12, help="that compile")
    options = parser.parse_args()
    import torch

    started = time.perf_counter()
    plan = json.loads(options.plan.read_text(encoding="utf-8"))
    device = cuda_device()
    watch = CudaStopwatch(device)
    rig = Rig(torch, device, watch, open_probe(device.pci_bus_id))
    work = []
    for each in plan:
        candidates = [Candidate(spec, spec.config(row["config"]), 0.0)
                      for row in each["candidates"] for spec in [rung_named(row["kernel"])]]  # fmt: skip
        work.append((Shape(**each["shape"]), candidates))
    record: list[dict[str, Any]] = []
    stream = torch.cuda.ExternalStream(watch.stream)
    with CompilePool(device.arch, processes=options.processes) as pool, watch.active(), torch.cuda.stream(stream):
        for shape, candidates in work:
            pool.begin(compiled_as(shape), candidates)
        for number, (shape, candidates) in enumerate(work):
            if time.perf_counter() - started > options.seconds:
                print(f"out of time: {len(work) - number} shapes are not timed")
                break
            failures = dict(pool(compiled_as(shape), candidates))
            begun = time.perf_counter()
            try:
                found = timed_shape(rig, shape, candidates, failures)
            except (GemmsmithError, RuntimeError) as error:
                print(f"{shape}: {error}", flush=True)
                continue
            record.append(found)
            torch.cuda.empty_cache()
            options.times.write_text(json.dumps(record), encoding="utf-8")
            now = time.perf_counter()
            print(f"{now - started:5.1f} s {now - begun:4.1f} {line(shape, found)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
