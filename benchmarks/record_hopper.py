"""Time gemmsmith's choice beside cuBLAS, as torch calls it, on a Hopper GPU, and record it.

    python benchmarks/record_hopper.py benchmarks/results/h200_hopper.json [--budget 150] [--only large,llm,…,host]
    python benchmarks/record_hopper.py benchmarks/results/h200_fp32.json --only fp32,fp32-fast,ieee

Everything runs in one process. The contenders of a case take turns in random order, round after round, and cuBLAS runs
twice in every round: its difference from itself is the noise. Large products are sampled for a tenth of a second and
more, after an untimed run of half that length, because under the power cap each settles at its own clock. Inputs are
random and rotate over twice the L2. Every case is first compared with float64. For an unaligned case our choice for the
next aligned shape takes part too: the ratio is what padding would gain. Exits 1 if a result is wrong or a case fails;
slow is not a failure.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from hopper_shapes import GROUPS, HOST_SHAPES, HOST_SHARE, SIXTEEN_BIT, Case, Group

import gemmsmith
from gemmsmith.bench.clocks import Probe, Sampler, open_probe
from gemmsmith.bench.machine import machine_facts
from gemmsmith.bench.statistics import estimate
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.choice import choose
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import Problem, ceil_div, geometric_mean
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.verify.oracles.bounds import absolute_floor, accuracy
from gemmsmith.verify.oracles.epilogue import output_rounding

Launch = Callable[[], Any]
LEAST_ROUNDS, MOST_ROUNDS = 5, 25
GRAPH_BELOW = 1e-4  # seconds: shorter products run from graphs, otherwise the host would be measured
GRAPH_SECONDS = 2e-3  # of one replay
MOST_SETS = 64
# Up to here every element is compared with float64; beyond, some rows and columns.
WHOLE = 2**36
SAMPLED = 256


@dataclass
class Contender:
    """One side of the comparison; ``launches`` has one call per set of operands."""

    name: str
    launches: list[Launch]
    seconds: float = 0.0  # of one launch, approximately
    samples: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    powers: list[float] = field(default_factory=list)


class Bench:
    """The GPU, torch on our own stream, and the growing record."""

    def __init__(self, torch: Any, device: CudaDevice, watch: CudaStopwatch, probe: Probe, options: Any,
                 record: dict[str, Any]) -> None:  # fmt: skip
        self.torch, self.device, self.watch, self.probe = torch, device, watch, probe
        self.options, self.record = options, record
        self.random = random.Random(options.seed)

    def run(self, case: Case, group: Group, seconds: float) -> dict[str, Any]:
        """Verify and time one case."""
        sets = self.sets(case)
        options = {"precision": case.precision} if case.precision else {}
        plans = [gemmsmith.plan(a, b, out=out, **options) for a, b, out in sets]
        plan = plans[0]
        found: dict[str, Any] = asdict(case) | {
            "kernel": plan.kernel, "config": dict(plan.config), "source": plan.source, "launches": plan.launches,
            "workspace_bytes": plan.workspace_bytes, "sets": len(sets),
        }  # fmt: skip
        found |= self.judged(case, sets, plans)
        if not found["right"]:
            return found
        library: list[Launch] = [partial(self.torch.mm, a, b, out=out) for a, b, out in sets]
        contenders = [Contender("cublas", library), Contender("ours", list(plans)),
                      Contender("cublas again", library)]  # fmt: skip
        if case.aligned != case:
            others = self.sets(case.aligned)
            contenders.append(Contender("ours, aligned", [gemmsmith.plan(a, b, out=out) for a, b, out in others]))
        found |= self.timed(case, contenders, group.sample, seconds)
        return found

    def sets(self, case: Case) -> list[tuple[Any, Any, Any]]:
        torch, p = self.torch, case.problem
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[case.dtype]
        one = (p.m * p.k + p.k * p.n + p.m * p.n) * p.dtype.itemsize
        count = min(MOST_SETS, max(2, ceil_div(2 * self.device.l2_bytes, one)))

        def normal(shape: tuple[int, int], transposed: bool) -> Any:
            stored = torch.randn(shape, device="cuda", dtype=kind)
            return stored.T if transposed else stored

        made = [(normal(p.a_shape, p.trans_a), normal(p.b_shape, p.trans_b),
                 torch.full((p.m, p.n), math.nan, device="cuda", dtype=kind)) for _ in range(count)]  # fmt: skip
        torch.cuda.synchronize()
        return made

    def judged(self, case: Case, sets: Sequence[tuple[Any, Any, Any]], plans: Sequence[Launch]) -> dict[str, Any]:
        """Our largest error, in the gate's units, over the first and the last set; and cuBLAS's."""
        problem, worst, theirs = case.problem, 0.0, 0.0
        for i in (0, len(sets) - 1):
            a, b, out = sets[i]
            plans[i]()
            worst = max(worst, self.rho(problem, a, b, out))
            out.fill_(math.nan)
            self.torch.mm(a, b, out=out)
            theirs = max(theirs, self.rho(problem, a, b, out))
        gate = accuracy(case.dtype, case.k).gate
        return {"rho": round(worst, 3), "rho_cublas": round(theirs, 3), "gate": gate, "right": worst <= gate}

    def rho(self, problem: Problem, a: Any, b: Any, out: Any) -> float:
        if problem.m * problem.n * problem.k <= WHOLE:
            return self._rho(problem, a, b, out)
        rows, columns = (self.torch.randperm(size, device="cuda")[:SAMPLED] for size in (problem.m, problem.n))
        return max(self._rho(problem, a[rows], b, out[rows]), self._rho(problem, a, b[:, columns], out[:, columns]))

    def _rho(self, problem: Problem, a: Any, b: Any, got: Any) -> float:
        torch = self.torch
        wide_a, wide_b = a.double(), b.double()
        expected, scale = wide_a @ wide_b, wide_a.abs() @ wide_b.abs()
        at_0, at_1 = map(float, output_rounding(problem.out_dtype, np.array([0.0, 1.0])))
        floor = absolute_floor(problem) + at_0 + (at_1 - at_0) * expected.abs()
        error = (got.double() - expected).abs()
        unit = accuracy(problem.dtype.name, problem.k).unit
        ratio = (error - floor).clamp(min=0) / (unit * scale)
        return float(torch.where(ratio.isnan(), math.inf, ratio).max())

    def timed(self, case: Case, contenders: list[Contender], sample: float, seconds: float) -> dict[str, Any]:
        for each in contenders:
            each.seconds = self.calibrated(each.launches)
        graph = case.group == "skinny" or min(each.seconds for each in contenders) < GRAPH_BELOW
        works = [self.work(each, sample, graph) for each in contenders]
        started, rounds = time.perf_counter(), 0
        order = list(range(len(contenders)))
        while rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.perf_counter() - started < seconds):
            self.random.shuffle(order)
            for i in order:
                self.sampled(contenders[i], *works[i])
            rounds += 1
        for *_, close in works:
            close()
        flops = case.problem.flops
        cublas, ours, again, *neighbour = contenders
        found = {
            "mode": "graph" if graph else "stream", "sample_seconds": sample, "rounds": rounds,
            "ratio": _ratio(cublas, ours), "cublas_against_itself": _ratio(cublas, again),
            "cublas": _summary(cublas, flops), "ours": _summary(ours, flops),
        }  # fmt: skip
        for aligned in neighbour:
            other = case.aligned
            found["aligned"] = {"m": other.m, "n": other.n, "k": other.k, "ratio": _ratio(aligned, ours),
                                **_summary(aligned, other.problem.flops)}  # fmt: skip
        return found

    def calibrated(self, launches: list[Launch]) -> float:
        """The approximate time of a launch, once everything is warm."""
        for launch in launches:
            launch()
        self.watch.synchronize()
        once = self.watch.seconds(launches[0])
        count = max(2, min(200, int(0.01 / max(once, 1e-6))))

        def several() -> None:
            for launch in islice(cycle(launches), count):
                launch()

        return self.watch.seconds(several) / count

    def work(self, contender: Contender, sample: float, graph: bool) -> tuple[Launch, Launch, int, Launch]:
        """The timed part of a sample, the untimed part before it, the number of launches, and how to close it."""
        launches, one = contender.launches, contender.seconds
        if not graph:
            count = max(2, math.ceil(sample / one))
            order = list(islice(cycle(launches), count))
            half = order[: ceil_div(count, 2)]
            return partial(_all, order), partial(_all, half), count, _nothing
        # The calibration may include host time: then the graph is shorter, and replayed more often.
        cycles = max(1, math.ceil(GRAPH_SECONDS / (one * len(launches))))
        order = launches * cycles
        captured = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(captured):
            _all(order)
        replay = captured.replay
        self.watch.seconds(replay)
        length = self.watch.seconds(replay, replay)
        replays = max(1, math.ceil(sample / length))
        timed, half = [replay] * replays, [replay] * ceil_div(replays, 2)
        return partial(_all, timed), partial(_all, half), replays * len(order), captured.reset

    def sampled(self, contender: Contender, timed: Launch, lead: Launch, count: int, _close: Launch) -> None:
        gc.disable()
        try:
            with Sampler(self.probe) as sampler:
                contender.samples.append(self.watch.seconds(timed, lead) / count)
        finally:
            gc.enable()
        seen = sampler.conditions
        contender.clocks.append(seen.sm_mhz)
        contender.powers.append(seen.power_w)

    def host(self, shape: tuple[int, int, int], seconds: float) -> dict[str, Any]:
        """Host microseconds per call, on an idle GPU, interleaved."""
        torch = self.torch
        m, n, k = shape
        a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16().T
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        plan = gemmsmith.plan(a, b, out=out)
        calls: dict[str, Launch] = {
            "torch.mm(out=)": lambda: torch.mm(a, b, out=out), "plan()": plan,
            "plan(a, b, out=)": lambda: plan(a, b, out=out), "gemm(out=)": lambda: gemmsmith.gemm(a, b, out=out),
        }  # fmt: skip
        found: dict[str, list[float]] = {name: [] for name in calls}
        count = 100  # far fewer than a stream's queue holds
        for call in calls.values():
            _all([call] * count)
        started = time.perf_counter()
        gc.disable()
        try:
            while time.perf_counter() - started < seconds or len(found["plan()"]) < 20:
                for name in self.random.sample(list(calls), len(calls)):
                    work = partial(_all, [calls[name]] * count)
                    found[name].append(self.watch.host_seconds(work) / count)
        finally:
            gc.enable()
        micros = {name: {"us": round(estimate(s).median * 1e6, 3), "spread": round(estimate(s).spread, 3)}
                  for name, s in found.items()}  # fmt: skip
        return {"m": m, "n": n, "k": k, "kernel": plan.kernel, "launches": plan.launches, "host": micros,
                "ratio": round(micros["torch.mm(out=)"]["us"] / micros["plan()"]["us"], 3)}  # fmt: skip

    def save(self) -> None:
        self.options.output.write_text(json.dumps(_plain(self.record), indent=1, allow_nan=False) + "\n",
                                       encoding="utf-8")  # fmt: skip


def _nothing() -> None:
    """A stream has nothing to close."""


def _all(launches: Sequence[Launch]) -> None:
    for launch in launches:
        launch()


def _ratio(baseline: Contender, other: Contender) -> dict[str, float]:
    """How much faster ``other`` is, per round."""
    found = estimate([b / o for b, o in zip(baseline.samples, other.samples, strict=True)])
    return {"median": round(found.median, 4), "low": round(found.low, 4), "high": round(found.high, 4),
            "spread": round(found.spread, 4)}  # fmt: skip


def _summary(contender: Contender, flops: int) -> dict[str, float]:
    found = estimate(contender.samples)
    clocks, powers = ([x for x in seen if not math.isnan(x)] for seen in (contender.clocks, contender.powers))
    return {
        "us": round(found.median * 1e6, 3), "spread": round(found.spread, 4),
        "tflops": round(flops / found.median / 1e12, 2), "sm_mhz": median(clocks) if clocks else math.nan,
        "power_w": round(median(powers), 1) if powers else math.nan,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """For JSON, which has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def line(case: Case, found: dict[str, Any]) -> str:
    if "error" in found:
        return f"{case}: FAILED: {found['error']}"
    if not found["right"]:
        return f"{case}: WRONG: rho {found['rho']} exceeds {found['gate']} ({found['kernel']} {found['config']})"
    config = ",".join(f"{name}={value}" for name, value in found["config"].items())
    ratio, itself, ours, cublas = (found[name] for name in ("ratio", "cublas_against_itself", "ours", "cublas"))
    return (
        f"{case}: {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}] of cuBLAS (itself "
        f"{itself['median']:.3f}), {ours['tflops']:.0f} against {cublas['tflops']:.0f} TFLOPS, {ours['us']:.1f} us, "
        f"{ours['sm_mhz']:.0f}/{cublas['sm_mhz']:.0f} MHz, {ours['power_w']:.0f}/{cublas['power_w']:.0f} W, "
        f"{found['mode']}, {found['kernel']} {config} ({found['source']})"
        + (
            f", {found['aligned']['ratio']['median']:.3f} of the next aligned shape's speed"
            if "aligned" in found
            else ""
        )
    )


def means(cases: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Geometric mean and lowest ratio per group, and of squares and language-model shapes together; for unaligned
    shapes also against our own speed at the next aligned one."""
    groups: dict[str, list[float]] = {}
    for case in cases:
        if "ratio" in case:
            groups.setdefault(case["group"], []).append(case["ratio"]["median"])
            if case["group"] in ("llm", "large"):
                groups.setdefault("llm and squares", []).append(case["ratio"]["median"])
        if "aligned" in case:
            groups.setdefault("of the next aligned shape", []).append(case["aligned"]["ratio"]["median"])
    return {name: {"geometric_mean": round(geometric_mean(values), 4), "lowest": min(values), "cases": len(values)}
            for name, values in groups.items()}  # fmt: skip


def compile_all(device: CudaDevice, cases: Sequence[Case]) -> None:
    """Compile everything that will be chosen, on all cores, so that timing does not wait for the compiler."""
    with CompilePool(device.arch) as pool:
        wanted = []
        for case in cases:
            chosen = choose(
                case.problem,
                device.name,
                (256, 256, 256),
                sms=device.sms,
                arch=device.arch,
                precision=case.precision or DEFAULT,
            )
            wanted.append((case, Candidate(chosen.spec, chosen.config, 0.0)))
            pool.begin(case.problem, [wanted[-1][1]])
        for case, candidate in wanted:
            for why in pool(case.problem, [candidate]).values():
                print(f"{case}: {candidate} does not compile: {why}", flush=True)


def run_all(bench: Bench, names: Sequence[str]) -> bool:
    good = True
    for name in names:
        group = GROUPS[name]
        for case in group.cases:
            try:
                found = bench.run(case, group, bench.options.budget * group.share / len(group.cases))
            except (GemmsmithError, RuntimeError) as error:  # torch raises RuntimeError
                found = asdict(case) | {"error": f"{type(error).__name__}: {error}"}
            good = good and found.get("right", False)
            bench.record["cases"].append(found)
            bench.record["means"] = means(bench.record["cases"])
            bench.save()
            print(line(case, found), flush=True)
            bench.torch.cuda.empty_cache()
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--budget", type=float, default=150.0, help="seconds of all, about")
    parser.add_argument("--only", default="", help=f"some of {','.join(GROUPS)},host")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name] or [*SIXTEEN_BIT, "host"]
    if unknown := set(names) - {*GROUPS, "host"}:
        parser.error(f"no group is called {', '.join(sorted(unknown))}")
    import torch

    started, device = time.time(), cuda_device()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    timed = [name for name in names if name in GROUPS]
    cases = [case for name in timed for case in GROUPS[name].cases]
    compile_all(device, [*cases, *(case.aligned for case in cases if case.aligned != case)])
    compiler = compile_for(rungs()[0], rungs()[0].config(), Problem(1, 1, 1), device.arch).compiler
    command = " ".join(["python benchmarks/record_hopper.py", options.output.name, *sys.argv[2:]])
    machine = asdict(machine_facts(device, compiler)) | {"host": ""}
    record: dict[str, Any] = {
        "what": "gemmsmith's own choice beside cuBLAS as torch calls it", "origin": "measured", "machine": machine,
        "gpu": device.name, "driver": machine["driver"], "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command, "l2_bytes": device.l2_bytes,
        "prepared_seconds": round(time.time() - started, 1), "cases": [], "means": {}, "host": [],
    }  # fmt: skip
    watch, probe = CudaStopwatch(device), open_probe(device.pci_bus_id)
    bench = Bench(torch, device, watch, probe, options, record)
    try:
        with watch.active(), torch.cuda.stream(torch.cuda.ExternalStream(watch.stream)):
            good = run_all(bench, timed)
            for shape in HOST_SHAPES if "host" in names else ():
                found = bench.host(shape, options.budget * HOST_SHARE / len(HOST_SHAPES))
                record["host"].append(found)
                text = ", ".join(f"{name} {cost['us']:.2f}" for name, cost in found["host"].items())
                print(f"host   {'x'.join(map(str, shape))}: {text} us a call", flush=True)
    finally:
        probe.close()
    record["seconds"] = round(time.time() - started, 1)
    bench.save()
    for name, mean in record["means"].items():
        print(f"{name}: {mean['geometric_mean']:.3f} in geometric mean of {mean['cases']}, lowest {mean['lowest']:.3f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
