"""gemmsmith's choice beside cuBLAS on many shapes in both modes: what the commands for shapes and for kinds share.

    shapes ─► compile the choice of each ─► operands, rotated ─► compare with float64 ─► both as graphs, in turns, in
    short bursts and sustained ─► record after every shape

A result that exceeds verification's gate is recorded as wrong and not timed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from shape_rig import BURST, SUSTAINED, Mode, Rig, Shape, Timed, compiled_as

import gemmsmith
from gemmsmith.bench.clocks import open_probe
from gemmsmith.bench.machine import machine_facts
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.choice import choose
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import Problem, geometric_mean
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.verify.oracles.bounds import accuracy

ROUNDS, LEAST_ROUNDS = 7, 3
PROCESSES = 12
LOW = 0.97
Case = dict[str, Any]


def compared(rig: Rig, shape: Shape, seconds: float) -> Case:
    """One shape as an entry of the record."""
    found: Case = asdict(shape) | {"kind": shape.kind, "name": str(shape), "operand_bytes": shape.operand_bytes}
    options = {"precision": shape.precision} if shape.precision else {}
    with rig.operands(shape) as sets:
        plans = [gemmsmith.plan(a, b, out=out, **options) for a, b, out in sets]
        found |= {"kernel": plans[0].kernel, "config": dict(plans[0].config), "source": plans[0].source}
        plans[-1]()
        rho, gate = rig.rho(shape, *sets[-1]), accuracy(shape.problem.dtype.name, shape.k).gate
        found |= {"rho": round(rho, 3) if math.isfinite(rho) else None, "gate": gate, "right": rho <= gate}
        if not found["right"]:
            return found
        library = rig.library(sets)
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
    rounds = max(LEAST_ROUNDS, min(ROUNDS, int(seconds / one)))
    rig.rounds(both, mode, rounds, power=mode == SUSTAINED)
    result = {
        "ratio": round(median(c / o for c, o in zip(cublas.samples, ours.samples, strict=True)), 4),
        "us": round(ours.us, 3), "cublas_us": round(cublas.us, 3), "rounds": rounds,
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


def means(cases: Sequence[Case]) -> dict[str, dict[str, Any]]:
    """Of each group and of all, in both modes: geometric mean, lowest ratio and its shape."""
    found: dict[str, dict[str, Any]] = {}
    for mode in (BURST.name, SUSTAINED.name):
        groups: dict[str, list[tuple[float, str]]] = {}
        for case in cases:
            if mode in case:
                for group in (case.get("group", case["kind"]), "all"):
                    groups.setdefault(group, []).append((case[mode]["ratio"], case["name"]))
        found[mode] = {
            name: {"geometric_mean": round(geometric_mean([r for r, _ in rows]), 4), "lowest": min(rows)[0],
                   "lowest_shape": min(rows)[1], "below_0.97": sum(r < LOW for r, _ in rows), "shapes": len(rows)}
            for name, rows in sorted(groups.items())
        }  # fmt: skip
    return found


def compile_all(device: CudaDevice, shapes: Sequence[Shape]) -> None:
    with CompilePool(device.arch, processes=PROCESSES) as pool:
        jobs = []
        for shape in shapes:
            chosen = choose(shape.problem, device.name, (256, 256, 256), sms=device.sms, arch=device.arch,
                            precision=shape.precision or DEFAULT)  # fmt: skip
            jobs.append((compiled_as(shape), Candidate(chosen.spec, chosen.config, 0.0)))
            pool.begin(jobs[-1][0], [jobs[-1][1]])
        for problem, candidate in jobs:
            for why in pool(problem, [candidate]).values():
                print(f"{candidate} does not compile: {why}", flush=True)


def line(case: Case) -> str:
    ratios = " ".join(f"{mode} {case[mode]['ratio']:.3f}" for mode in ("burst", "sustained") if mode in case)
    config = ",".join(f"{name}={value}" for name, value in case.get("config", {}).items())
    wrong = "" if case.get("right") else f"WRONG: rho {case.get('rho')}"
    return (
        f"{case['name']} [{case.get('group', case['kind'])}]: {ratios} {case.get('kernel', '')} {config} "
        f"{case.get('source', '')} {case.get('error', '')} {wrong}"
    )


def parser(description: str | None) -> argparse.ArgumentParser:
    """With the options that both commands have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("output", type=Path)
    made.add_argument("--seed", type=int, default=100, help="of random shapes; from 100 on they only test")
    made.add_argument("--seconds", type=float, default=150.0, help="of all, about, without compiling")
    return made


def record(command: str, options: argparse.Namespace, shapes: Mapping[Shape, str]) -> int:
    """Compare all shapes, each with the name of its group ('' is its kind); 1 where a result is wrong."""
    import torch

    started, device = time.perf_counter(), cuda_device()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    compile_all(device, list(shapes))
    compiled = time.perf_counter()
    compiler = compile_for(rungs()[0], rungs()[0].config(), Problem(1, 1, 1), device.arch).compiler
    watch, probe = CudaStopwatch(device), open_probe(device.pci_bus_id)
    rig = Rig(torch, device, watch, probe, options.seed)
    found: dict[str, Any] = {
        "what": "gemmsmith's choice, not tuned, beside cuBLAS as torch calls it", "origin": "measured",
        "machine": asdict(machine_facts(device, compiler)) | {"host": ""}, "gpu": device.name,
        "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join([f"python benchmarks/{command}", options.output.name, *sys.argv[2:]]),
        "compile_seconds": round(compiled - started, 1), "not_timed": [], "means": {}, "cases": [],
    }  # fmt: skip
    good = True
    with watch.active(), torch.cuda.stream(torch.cuda.ExternalStream(watch.stream)):
        for number, (shape, group) in enumerate(shapes.items()):
            left = options.seconds - (time.perf_counter() - compiled)
            if left < 0:
                found["not_timed"] = [str(each) for each in list(shapes)[number:]]
                print(f"out of time: {len(shapes) - number} shapes were not timed")
                break
            try:
                case = compared(rig, shape, left / (len(shapes) - number))
            except (GemmsmithError, RuntimeError) as error:
                case = asdict(shape) | {"kind": shape.kind, "name": str(shape), "error": str(error)[:300]}
            case |= {"group": group} if group else {}
            good = good and bool(case.get("right"))
            found["cases"].append(case)
            found["means"] = means(found["cases"])
            options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            torch.cuda.empty_cache()
            print(line(case), flush=True)
    for mode, kinds in found["means"].items():
        for kind, row in kinds.items():
            print(f"{mode:9} {kind:20} {row['geometric_mean']:.3f} of {row['shapes']}, lowest {row['lowest']:.3f} "
                  f"({row['lowest_shape']}), {row['below_0.97']} below 0.97")  # fmt: skip
    return 0 if good else 1
