"""Time what gemmsmith chooses without tuning beside cuBLAS (torch.mm) on many shapes, and record every one.

    python benchmarks/shapes_against_cublas.py benchmarks/results/h200_shapes.json [--sets named,deep,public,random]
        [--seed 100] [--count 40] [--seconds 150]

Both run as CUDA graphs over rotated operands, in turns, in two modes: short bursts on an idle GPU, and sustained, where
the power cap sets the clock. Sustained samples also give power, and so joules per product. The record has every shape
with both times in both modes, the kernel that was chosen, and the geometric mean and the lowest ratio of each kind.
Random shapes of seeds below 100 were used to fit the cost model; others were not. Exits 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import shape_sets
from shape_rig import BURST, SUSTAINED, Mode, Rig, Shape, Timed

import gemmsmith
from gemmsmith.bench.clocks import open_probe
from gemmsmith.bench.machine import machine_facts
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.choice import choose
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import Problem, geometric_mean
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.tune.compile_ahead import CompilePool

ROUNDS = 7
MOST_DIFFERENCE = 0.1  # from cuBLAS's result, in units of its root mean square


def wanted(options: argparse.Namespace) -> list[Shape]:
    every = {
        "named": shape_sets.named, "deep": shape_sets.deep,
        "public": lambda: shape_sets.public(options.count, options.seed),
        "random": lambda: shape_sets.log_uniform(options.count, options.seed),
    }  # fmt: skip
    found = [shape for name in options.sets.split(",") for shape in every[name]()]
    if options.layouts:
        layouts = options.layouts.split(",")
        found = [replace(shape, layout=layouts[i % len(layouts)]) for i, shape in enumerate(found)]
    return list(dict.fromkeys(found))


def compared(rig: Rig, shape: Shape, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = asdict(shape) | {"kind": shape.kind}
    with rig.operands(shape) as sets:
        plans = [gemmsmith.plan(a, b, out=out) for a, b, out in sets]
        found |= {"kernel": plans[0].kernel, "config": dict(plans[0].config), "source": plans[0].source}
        library = rig.library(sets)
        library(0)
        expected = sets[0][2].clone()
        sets[0][2].fill_(math.nan)
        plans[0]()
        found["difference"] = round(rig.difference(sets[0][2], expected), 5)
        if found["difference"] > MOST_DIFFERENCE:
            return found
        for mode in (BURST, SUSTAINED):
            both = [rig.prepared("cublas", library, len(sets), mode),
                    rig.prepared("ours", lambda i: plans[i](), len(sets), mode)]  # fmt: skip
            found[mode.name] = in_turns(rig, both, mode, seconds / 2)
            for timed in both:
                timed.replay.close()
    return found


def in_turns(rig: Rig, both: list[Timed], mode: Mode, seconds: float) -> dict[str, Any]:
    cublas, ours = both
    one = sum(max(mode.sample, t.seconds * t.launches) + mode.lead for t in both)
    rig.rounds(both, mode, max(3, min(ROUNDS, int(seconds / one))), power=mode == SUSTAINED)
    result = {
        "ratio": round(median(c / o for c, o in zip(cublas.samples, ours.samples, strict=True)), 4),
        "us": round(ours.us, 3), "cublas_us": round(cublas.us, 3),
    }  # fmt: skip
    if mode == SUSTAINED:
        for name, timed in (("", ours), ("cublas_", cublas)):
            powers = [power for power in timed.powers if not math.isnan(power)]
            clocks = [clock for clock in timed.clocks if not math.isnan(clock)]
            if powers:
                result[f"{name}power_w"] = round(median(powers), 1)
                result[f"{name}mj"] = round(median(powers) * median(timed.samples) * 1e3, 4)
            if clocks:
                result[f"{name}sm_mhz"] = median(clocks)
    return result


def means(cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each kind and of all, in both modes: geometric mean, lowest ratio and its shape."""
    found: dict[str, dict[str, Any]] = {}
    for mode in (BURST.name, SUSTAINED.name):
        groups: dict[str, list[tuple[float, str]]] = {}
        for case in cases:
            if mode in case:
                entry = (case[mode]["ratio"], f"{case['m']}x{case['n']}x{case['k']} {case['layout']} {case['out']}")
                for name in (case["kind"], "all"):
                    groups.setdefault(name, []).append(entry)
        found[mode] = {
            name: {"geometric_mean": round(geometric_mean([r for r, _ in rows]), 4), "lowest": min(rows)[0],
                   "lowest_shape": min(rows)[1], "below_0.97": sum(r < 0.97 for r, _ in rows), "shapes": len(rows)}
            for name, rows in sorted(groups.items())
        }  # fmt: skip
    return found


def compile_all(device: CudaDevice, shapes: list[Shape]) -> None:
    with CompilePool(device.arch) as pool:
        jobs = []
        for shape in shapes:
            chosen = choose(shape.problem, device.name, (256, 256, 256), sms=device.sms, arch=device.arch)
            jobs.append((replace(shape, m=1024, n=1024, k=1024).problem, Candidate(chosen.spec, chosen.config, 0.0)))
            pool.begin(jobs[-1][0], [jobs[-1][1]])
        for problem, candidate in jobs:
            for why in pool(problem, [candidate]).values():
                print(f"{candidate} does not compile: {why}", flush=True)


def line(shape: Shape, found: dict[str, Any]) -> str:
    ratios = " ".join(f"{mode} {found[mode]['ratio']:.3f}" for mode in ("burst", "sustained") if mode in found)
    config = ",".join(f"{name}={value}" for name, value in found.get("config", {}).items())
    wrong = "" if found.get("difference", math.inf) <= MOST_DIFFERENCE else "WRONG"
    return (
        f"{shape} [{shape.kind}]: {ratios} {found.get('kernel', '')} {config} {found.get('source', '')} "
        f"{found.get('error', '')} {wrong}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--sets", default="named,deep,public,random")
    parser.add_argument("--layouts", default="", help="give the shapes these layouts in turn: NT,NN,TN,TT")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--count", type=int, default=40, help="of public and of random shapes")
    parser.add_argument("--seconds", type=float, default=150.0, help="of all, about, without compiling")
    options = parser.parse_args()
    import torch

    started, device = time.perf_counter(), cuda_device()
    torch.manual_seed(options.seed)
    shapes = wanted(options)
    compile_all(device, shapes)
    compiled = time.perf_counter()
    compiler = compile_for(rungs()[0], rungs()[0].config(), Problem(1, 1, 1), device.arch).compiler
    watch, probe = CudaStopwatch(device), open_probe(device.pci_bus_id)
    rig = Rig(torch, device, watch, probe, options.seed)
    record: dict[str, Any] = {
        "what": "gemmsmith's choice, not tuned, beside cuBLAS as torch calls it", "origin": "measured",
        "machine": asdict(machine_facts(device, compiler)) | {"host": ""}, "gpu": device.name,
        "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python benchmarks/shapes_against_cublas.py", options.output.name, *sys.argv[2:]]),
        "compile_seconds": round(compiled - started, 1), "means": {}, "cases": [],
    }  # fmt: skip
    good = True
    with watch.active(), torch.cuda.stream(torch.cuda.ExternalStream(watch.stream)):
        for number, shape in enumerate(shapes):
            left = options.seconds - (time.perf_counter() - compiled)
            if left < 0:
                print(f"out of time: {len(shapes) - number} shapes were not timed")
                break
            try:
                found = compared(rig, shape, left / (len(shapes) - number))
            except (GemmsmithError, RuntimeError) as error:
                found = asdict(shape) | {"kind": shape.kind, "error": str(error)[:300]}
            good = good and found.get("difference", math.inf) <= MOST_DIFFERENCE
            record["cases"].append(found)
            record["means"] = means(record["cases"])
            options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            torch.cuda.empty_cache()
            print(line(shape, found), flush=True)
    for mode, kinds in record["means"].items():
        for kind, row in kinds.items():
            print(f"{mode:9} {kind:20} {row['geometric_mean']:.3f} of {row['shapes']}, lowest {row['lowest']:.3f} "
                  f"({row['lowest_shape']}), {row['below_0.97']} below 0.97")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
