"""Time few rows, fp32, unaligned and batched products beside cuBLAS, and configurations beside the choice.

    python benchmarks/kinds_against_cublas.py OUTPUT.json [--only narrow,fp32,unaligned,batched,ieee]
    python benchmarks/kinds_against_cublas.py OUTPUT.json --trials TRIALS.json

Cases are in kinds_shapes.py. All contenders of a case (our choice, cuBLAS as torch calls it, and with ``--trials``
given configurations) run from CUDA graphs, in turns, in random order. Operands are normal and rotate over twice the
L2. Every contender is compared with float64 before it is timed; a wrong one is listed as wrong and not timed. A trials
file maps case names to lists of [kernel, configuration, definitions].
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from kinds_shapes import KINDS, Case

import gemmsmith
from gemmsmith.choose.choice import choose
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import ceil_div, geometric_mean
from gemmsmith.prologue.build import build_prologue
from gemmsmith.verify.bounds import accuracy

Launch = Callable[[], Any]
Trial = tuple[str, Mapping[str, int], Mapping[str, str]]
H200, SMS, ARCH, L2 = "NVIDIA H200", 132, "sm_90", 60 * 2**20
GRAPH_SECONDS = 1e-3
MOST_SETS = 16
FAR_FROM_BEST = 1.25  # contenders slower than this in two rounds are not timed further


def spec_of(trial: Trial) -> KernelSpec:
    spec = rung_named(trial[0])
    return replace(spec, extra_defines=(*spec.extra_defines, *trial[2].items())) if trial[2] else spec


def compile_trial(case: Case, trial: Trial | None) -> str:
    """Compile into the cache on disk, in a process of its own."""
    problem = case.problem
    try:
        if trial is None:
            chosen = choose(problem, H200, (256, 256, 256), sms=SMS, arch=ARCH, precision=case.precision or DEFAULT)
            spec, config = chosen.spec, chosen.config
        else:
            spec = spec_of(trial)
            config = spec.config(dict(trial[1]))
        prologue = build_prologue(spec, config, problem, Addresses(256, 256, 256), 1 << 20)
        for launch in prologue.launches:
            compile_for(launch.spec, launch.spec.config(), launch.compiled_for, ARCH)
        fitted = spec.specialize(config, prologue.problem, (256, 256, 256))
        compile_for(spec, fitted, prologue.problem, ARCH)
    except GemmsmithError as error:
        return f"{error}"
    return ""


class Bench:
    """The GPU, seen through torch."""

    def __init__(self, torch: Any, rounds: int, seed: int) -> None:
        self.torch, self.rounds, self.random = torch, rounds, random.Random(seed)

    def sets(self, case: Case) -> list[tuple[Any, Any, Any]]:
        torch, p = self.torch, case.problem
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
        copies_a, copies_b, _ = p.copies
        one = (copies_a * p.m * p.k + copies_b * p.k * p.n + p.batch * p.m * p.n) * p.dtype.itemsize
        count = min(MOST_SETS, max(2, ceil_div(2 * L2, one)))

        def normal(shape: tuple[int, int], transposed: bool, copies: int) -> Any:
            batch = () if p.batch == 1 or copies == 1 else (copies,)
            stored = torch.randn((*batch, *shape), device="cuda", dtype=kind[case.dtype])
            return stored.transpose(-1, -2) if transposed else stored

        batch = () if p.batch == 1 else (p.batch,)
        return [
            (
                normal(p.a_shape, p.trans_a, copies_a),
                normal(p.b_shape, p.trans_b, copies_b),
                torch.full((*batch, p.m, p.n), math.nan, device="cuda", dtype=kind[case.out]),
            )
            for _ in range(count)
        ]

    def rho(self, case: Case, a: Any, b: Any, out: Any) -> float:
        """The largest error in units of the product's own rounding, as verification defines it."""
        torch, p = self.torch, case.problem
        rows = slice(None) if p.m * p.n * p.k * p.batch < 2**36 else slice(0, p.m, max(1, p.m // 128))
        if p.batch > 1:
            a, b, out = (x if x.dim() == 2 else x[:: max(1, p.batch // 16)] for x in (a, b, out))
        wide_a, wide_b = a[..., rows, :].double(), b.double()
        expected, scale = wide_a @ wide_b, wide_a.abs() @ wide_b.abs()
        got = out[..., rows, :].double()
        rounding = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}[case.out]
        error = ((got - expected).abs() - rounding * expected.abs()).clamp(min=0)
        ratio = error / (accuracy(p.dtype.name, p.k).unit * scale)
        return float(torch.where(ratio.isnan(), math.inf, ratio).max())

    def seconds(self, work: Launch) -> float:
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def graph(self, launches: Sequence[Launch]) -> tuple[Launch, int]:
        for launch in launches:
            launch()
        self.torch.cuda.synchronize()
        once = min(self.seconds(launches[0]) for _ in range(3))
        count = max(len(launches), min(200, math.ceil(GRAPH_SECONDS / once)))
        captured = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(captured):
            for launch in islice(cycle(launches), count):
                launch()
        captured.replay()
        return captured.replay, count

    def run(self, case: Case, trials: Sequence[Trial]) -> dict[str, Any]:
        torch = self.torch
        sets = self.sets(case)
        options = {"precision": case.precision} if case.precision else {}
        contenders: dict[str, Sequence[Launch]] = {
            "cublas": [lambda a=a, b=b, out=out: torch.matmul(a, b, out=out) for a, b, out in sets]
        }
        made: dict[str, Any] = {}
        wrong: dict[str, str] = {}

        def add(name: str, **given: Any) -> None:
            try:
                plans = [gemmsmith.plan(a, b, out=out, **given) for a, b, out in sets]
                sets[-1][2].fill_(math.nan)
                plans[-1]()
                rho = self.rho(case, *sets[-1])
            except (GemmsmithError, RuntimeError) as error:
                wrong[name] = f"{type(error).__name__}: {error}"
                return
            gate = accuracy(case.problem.dtype.name, case.k).gate
            if not rho <= gate:
                wrong[name] = f"rho {rho:.3g} exceeds {gate}"
                return
            made[name] = {
                "kernel": plans[0].kernel,
                "config": str(plans[0].config),
                "source": plans[0].source,
                "launches": plans[0].launches,
                "rho": round(rho, 3),
            }
            contenders[name] = plans

        add("choice", **options)
        for trial in trials:
            label = f"{trial[0]} " + ",".join(f"{k}={v}" for k, v in {**trial[1], **trial[2]}.items())
            add(label, kernel=spec_of(trial), config=dict(trial[1]))
        graphs = {name: self.graph(launches) for name, launches in contenders.items()}
        samples: dict[str, list[float]] = {name: [] for name in graphs}
        for done in range(self.rounds):
            for name in self.random.sample(list(graphs), len(graphs)):
                replay, count = graphs[name]
                best = min((median(times) for times in samples.values() if times), default=math.inf)
                if done >= 2 and name not in ("cublas", "choice") and median(samples[name]) > FAR_FROM_BEST * best:
                    continue
                samples[name].append(self.seconds(replay) / count)
        return {
            "wrong": wrong,
            "contenders": {
                name: {
                    "us": round(median(times) * 1e6, 3),
                    "low": round(min(times) * 1e6, 3),
                    "high": round(max(times) * 1e6, 3),
                    **made.get(name, {}),
                }
                for name, times in samples.items()
            },
        }


def line(case: Case, found: Mapping[str, Any]) -> str:
    if "error" in found:
        return f"{case}: FAILED: {found['error']}"
    times = {name: each["us"] for name, each in found["contenders"].items()}
    text = f"{case}: cuBLAS {times['cublas']:.2f} us"
    if "choice" in times:
        made = found["contenders"]["choice"]
        ratio = times["cublas"] / times["choice"]
        text += f", choice {times['choice']:.2f} ({ratio:.3f}) {made['kernel']} {made['config']}"
    if case.bytes > 64e6:
        text += f"; reading takes {case.bytes / 4.3e6:.1f}"
    others = sorted((us, name) for name, us in times.items() if name not in ("cublas", "choice"))
    for us, name in others[:6]:
        text += f"\n    {us:9.2f} ({times['cublas'] / us:.3f}) {name}"
    return text + "".join(f"\n    WRONG {name}: {why}" for name, why in found["wrong"].items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--trials", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=140.0, help="no case is begun after this")
    options = parser.parse_args()
    trials: dict[str, list[Trial]] = {}
    if options.trials is not None:
        given = json.loads(options.trials.read_text(encoding="utf-8"))
        trials = {name: [(t[0], t[1], t[2] if len(t) > 2 else {}) for t in each] for name, each in given.items()}
    cases = [case for kind in options.only.split(",") for case in KINDS[kind]]
    cases = [case for case in cases if not trials or str(case) in trials]
    started = time.time()
    jobs = list(
        {
            (case, json.dumps(trial)): (case, trial) for case in cases for trial in (None, *trials.get(str(case), ()))
        }.values()
    )
    with ProcessPoolExecutor(os.cpu_count() or 1, get_context("spawn")) as pool:
        for (case, trial), why in zip(jobs, pool.map(compile_trial, *zip(*jobs, strict=True)), strict=True):
            if why:
                print(f"{case} {trial}: {why}", flush=True)
    print(f"compiled {len(jobs)} in {time.time() - started:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    bench = Bench(torch, options.rounds, 0)
    record: dict[str, Any] = {
        "what": "gemmsmith beside cuBLAS as torch calls it", "origin": "measured", "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python benchmarks/kinds_against_cublas.py", options.output.name, *sys.argv[2:]]),
        "cases": [],
    }  # fmt: skip
    good = True
    ratios: dict[str, list[float]] = {}
    for case in cases:
        if time.time() - started > options.seconds:
            print(f"{case}: no time left", flush=True)
            continue
        try:
            found = bench.run(case, trials.get(str(case), ()))
        except (GemmsmithError, RuntimeError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        torch.cuda.empty_cache()
        good = good and not found.get("error") and "choice" not in found["wrong"]
        record["cases"].append(asdict(case) | {"name": str(case)} | found)
        print(line(case, found), flush=True)
        if "choice" in found.get("contenders", {}):
            times = found["contenders"]
            ratios.setdefault(case.kind, []).append(times["cublas"]["us"] / times["choice"]["us"])
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for kind, values in ratios.items():
        print(f"{kind}: mean {geometric_mean(values):.3f}, lowest {min(values):.3f} of {len(values)}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
