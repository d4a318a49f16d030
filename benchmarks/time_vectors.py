"""Verify gemv and time it beside cuBLAS and beside today's choice: fp32 products with one to eight rows or columns.

    python benchmarks/time_vectors.py benchmarks/results/h200_vectors.json [--seconds 90] [--seed 300] [--count 12]

First, products of all layouts between NaN are compared with float64. Then each shape, sixteen fixed and ``--count``
random ones, is timed with the fastest predicted configuration of every tile, in CUDA graphs that take turns with cuBLAS
(TF32 off) and with what the choice takes without gemv. Kernels are compiled by other processes while earlier shapes are
timed. The record is written after every shape. If a launch makes the GPU unusable, the program starts itself again and
leaves that shape out. ``--dry-run`` does all but timing, on the simulator and with small shapes: times are predictions.

Exits 1 if a result is wrong.
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
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from shape_rig import Rig, Shape, compiled_as
from time_candidates import Sampling, timed_shape

import gemmsmith
from gemmsmith.bench.clocks import open_probe
from gemmsmith.bench.machine import machine_facts
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose import simt, vectors
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.choice import choose
from gemmsmith.choose.key import unaligned
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.compile.compiler import compile_for
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem, geometric_mean
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.tune.compile_ahead import CompilePool

LIMIT = 4.3e12  # bytes per second
GATE, ROUNDOFF = 16.0, 2.0**-24
ROUNDS, AGAIN = 4, 5  # samples of each contender, and once more of the fastest ones
LAYOUTS = ("NN", "NT", "TN", "TT")
SMS = 132
FIXED = (
    "7899x1x13715 NT ieee, 4540x7x14685 NN ieee, 4x1304x3104 NN ieee, 2892x4x15236 TN, 1224x4x13984 TN, "
    "691x8x12938 NT ieee, 356x6x4271 NT, 2736x5x2490 NN, 7946x7x8034 TN ieee, 18452x4x172 NN ieee, 8x756x2332 TT ieee, "
    "12848x4x584 NT, 1x8192x8192 NN, 8192x1x8192 NN, 8x6676x868 NN ieee, 5x596x324 NN ieee"
)
# Of products that are verified: extents, layout, configuration of the tile, and whether rows start anywhere.
TILES = (
    {"BM": 32, "BN": 8}, {"BM": 8, "BN": 64, "ROWS": 8}, {"BM": 4, "BN": 32, "CLUSTER_K": 8},
    {"BM": 16, "BN": 2, "BK": 1024, "WARPS_K": 2, "LOADS": 16, "CLUSTER_K": 2},
    {"BM": 1, "BN": 8, "BK": 1024, "WARPS_K": 4, "CLUSTER_K": 4},
)  # fmt: skip
Case = dict[str, Any]


def fixed_shapes() -> Iterator[Shape]:
    for words in FIXED.split(", "):
        extents, layout, *precision = words.split()
        m, n, k = map(int, extents.split("x"))
        yield Shape(m, n, k, layout, "fp32", "fp32", origin="named", precision="".join(precision))


def random_shapes(seed: int, count: int) -> Iterator[Shape]:
    """One to eight vectors, half of them with extents that are multiples of four; log-uniform."""
    dice = random.Random(f"vectors {seed}")
    for i in range(count):
        step = 4 if dice.random() < 0.5 else 1
        few = dice.randint(1, 8)
        many, k = (max(step, round(math.exp(dice.uniform(math.log(low), math.log(20_000))) / step) * step)
                   for low in (300, 64))  # fmt: skip
        m, n = (many, few) if dice.random() < 0.6 else (few, many)
        yield Shape(m, n, k, dice.choice(LAYOUTS), "fp32", "fp32", origin=f"random, seed {seed}",
                    precision="ieee" if i % 2 else "")  # fmt: skip


# --- what is timed


def today(shape: Shape, device: CudaDevice | None) -> Candidate:
    """What the choice takes; where that is gemv already, simt_best as its model configures it."""
    p = shape.problem
    if device is not None:
        found = choose(p, device.name, (256, 256, 256), sms=device.sms, arch=device.arch,
                       precision=shape.precision or DEFAULT)  # fmt: skip
        if found.spec.name != vectors.NAME:
            return Candidate(found.spec, found.config, 0.0)
    config, seconds = simt.fastest(p, SMS, unaligned(p) & 3, clusters=True)
    return Candidate(rung_named(simt.NAME), config, seconds)


def candidates(shape: Shape) -> list[Candidate]:
    """gemv: the fastest prediction of every tile, the fastest of all first; of two tiles all clusters."""
    p = shape.problem
    tiles: dict[tuple[int, ...], list[Candidate]] = {}
    for config in vectors.configurations(p):
        seconds = vectors.predicted_seconds(p, config, SMS, unaligned(p) & 3)
        name = tuple(config[each] for each in ("BM", "BN", "WARPS_K", "LOADS"))
        tiles.setdefault(name, []).append(Candidate(rung_named(vectors.NAME), config, seconds))
    of_tiles = sorted((sorted(each, key=lambda one: one.seconds) for each in tiles.values()),
                      key=lambda each: each[0].seconds)  # fmt: skip
    found = [each[0] for each in of_tiles]
    return [*found, *(each for same in of_tiles[:2] for each in same[1:])]


# --- verification


def tile_and_layout(number: int) -> tuple[dict[str, int], str]:
    """Of a product that is verified; every third one has aligned rows."""
    return TILES[number % len(TILES)], LAYOUTS[number // len(TILES) % len(LAYOUTS)]


def compiled_for(number: int) -> tuple[Problem, list[Candidate]]:
    """A product with the code of the one that is verified, and the configuration."""
    tile, layout = tile_and_layout(number)
    spec, extents = rung_named(vectors.NAME), (1024, 8, 1024) if number % 3 == 0 else (1021, 7, 1023)
    config = spec.config(tile)
    m, n, k = extents if config["BM"] >= config["BN"] else (extents[1], extents[0], extents[2])
    return Problem(m, n, k, trans_a=layout[0] == "T", trans_b=layout[1] == "T"), [Candidate(spec, config, 0.0)]


def verified(number: int, scale: int, on_gpu: bool) -> Case:
    """One product with operands between NaN, by the component-wise error against float64."""
    dice = np.random.default_rng(number)
    tile, layout = tile_and_layout(number)
    config = dict(rung_named(vectors.NAME).config(tile))
    swap = config["BM"] < config["BN"]
    long, few, k = int(dice.integers(1, 3000 // scale)), int(dice.integers(1, 9)), int(dice.integers(1, 6000 // scale))
    m, n = (few, long) if swap else (long, few)
    pad, start = (8, 4) if number % 3 == 0 else (int(dice.integers(1, 8)), int(dice.integers(0, 2)))

    def stored(rows: int, cols: int, transposed: bool) -> tuple[Any, Any]:
        """A matrix in a larger one full of NaN, and its numbers."""
        height, width = (cols, rows) if transposed else (rows, cols)
        pitch = (width + 3) // 4 * 4 + pad if number % 3 == 0 else width + pad
        around = np.full((height + 2, pitch), np.nan, np.float32)
        where = np.s_[1:-1, start : start + width]
        around[where] = dice.standard_normal((height, width), dtype=np.float32)
        values = around[where].copy()
        if on_gpu:
            import torch

            inside: Any = torch.from_numpy(around).cuda()[where]
        else:
            inside = around[where]
        return (inside.T, values.T) if transposed else (inside, values)

    (a, wide_a), (b, wide_b) = stored(m, k, layout[0] == "T"), stored(k, n, layout[1] == "T")
    got = gemmsmith.gemm(a, b, kernel=vectors.NAME, config=config)
    again = gemmsmith.gemm(a, b, kernel=vectors.NAME, config=config)
    values, second = (np.asarray(x.cpu() if on_gpu else x) for x in (got, again))
    left, right = wide_a.astype(np.float64), wide_b.astype(np.float64)
    error = np.abs(values - left @ right) / (ROUNDOFF * (np.abs(left) @ np.abs(right)) + 1e-300)
    rho = float(error.max()) if not np.isnan(error).any() else math.inf
    return {"shape": f"{m}x{n}x{k} {layout}", "config": tile, "rho": round(rho, 3) if rho < math.inf else None,
            "right": bool(rho <= GATE and np.array_equal(values, second))}  # fmt: skip


# --- a run


def case_of(shape: Shape, found: dict[str, Any]) -> Case:
    """What the table shows, with all that was timed."""
    rows = [row for row in found["candidates"] if "us" in row]
    ours = [row for row in rows if row["kernel"] == vectors.NAME]
    others = [row for row in rows if row["kernel"] != vectors.NAME]
    case: Case = {"name": str(shape), "limit_us": round(bytes_of(shape) / LIMIT * 1e6, 3), **found}
    if ours:
        best = min(ours, key=lambda row: float(row["us"]))
        case |= {"best_us": best["us"], "best": best["config"], "first_us": ours[0]["us"]}
    if others:
        case |= {"today_us": others[0]["us"], "today": others[0]["kernel"]}
    case["right"] = all(row["difference"] < 1e-3 for row in rows if "difference" in row)
    return case


def bytes_of(shape: Shape) -> int:
    return shape.operand_bytes + 4 * shape.m * shape.n


def table(cases: list[Case]) -> str:
    words = ("shape", "cuBLAS", "today", "gemv", "of limit", "predicted config", "predicted", "fastest configuration")
    lines = [" | ".join(words)]
    for case in cases:
        if "best_us" not in case:
            lines.append(f"{case['name']} | {case.get('error', 'all configurations failed')[:150]}")
            continue
        config = " ".join(f"{name}={value}" for name, value in case["best"].items()
                          if name in ("BM", "BN", "WARPS_K", "LOADS", "CLUSTER_K"))  # fmt: skip
        lines.append(f"{case['name']} | {case['cublas_us']:.1f} | {case.get('today_us', math.nan):.1f} | "
                     f"{case['best_us']:.1f} | {case['limit_us'] / case['best_us']:.2f} | {case['first_us']:.1f} | "
                     f"{case['predicted_us']:.1f} | {config}{'' if case['right'] else ' WRONG'}")  # fmt: skip
    timed = [case for case in cases if "best_us" in case and "today_us" in case]
    if timed:
        for name, of in (("today", "today_us"), ("cuBLAS", "cublas_us")):
            for ours in ("best_us", "first_us"):
                mean = geometric_mean([case[of] / case[ours] for case in timed])
                lines.append(f"{name} over gemv ({ours}): {mean:.3f} of {len(timed)} shapes")
    return "\n".join(lines)


def simulated(shape: Shape, found: list[Candidate]) -> dict[str, Any]:
    """Predictions in place of times."""
    rows = [{"kernel": each.spec.name, "config": dict(each.config), "difference": 0.0, "us": each.seconds * 1e6}
            for each in found]  # fmt: skip
    return {"shape": asdict(shape), "cublas_us": 2e6 * bytes_of(shape) / LIMIT, "candidates": rows}


def is_unusable() -> bool:
    """Whether an error of a launch stays: every later call fails as well."""
    import torch

    try:
        torch.zeros(1, device="cuda").sum().item()
    except RuntimeError:
        return True
    return False


class Run:
    """The record, written after every step, and the time that is left."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.path, self.started = options, options.output, time.perf_counter()
        self.record: dict[str, Any] = {
            "what": "gemv, today's choice and cuBLAS as torch calls it, TF32 off", "origin": "measured",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": f"python benchmarks/time_vectors.py {options.output.name} --seed {options.seed} "
                       f"--count {options.count}",
            "verified": [], "cases": [], "not_timed": [],
        }  # fmt: skip
        if options.resume:
            self.record = json.loads(self.path.read_text(encoding="utf-8"))
        if options.dry_run:
            self.record["origin"] = "predicted"

    @property
    def is_late(self) -> bool:
        return time.perf_counter() - self.started > self.options.seconds

    def write(self) -> None:
        self.path.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")

    def begins(self, what: str) -> bool:
        """Note what is about to run; False if it ran before this program was started again."""
        known = self.record.setdefault("begun", [])
        if what in known:
            return False
        known.append(what)
        self.write()
        return True

    def failed(self, error: BaseException) -> str:
        """The error in a line; starts the program again if the GPU is of no use any more."""
        text = "".join(traceback.format_exception_only(error)).strip()[:300]
        if not self.options.dry_run and is_unusable():
            left = max(10.0, self.options.seconds - (time.perf_counter() - self.started))
            self.record["not_timed"].append({"begun": self.record["begun"][-1], "error": text})
            self.write()
            print(f"starting again: {text}", flush=True)
            words = [word for word in sys.argv if word != "--resume"]
            os.execv(sys.executable, [sys.executable, *words, "--resume", "--seconds", str(left)])
        return text

    def verify(self) -> None:
        for number in range(self.options.verified):
            if not self.begins(f"verify {number}"):
                continue
            try:
                case = verified(number, 12 if self.options.dry_run else 1, not self.options.dry_run)
            except Exception as error:
                case = {"shape": str(number), "right": False, "error": self.failed(error)}
            self.record["verified"].append(case)
            if not case["right"]:
                print(f"WRONG {case}", flush=True)
        right = sum(case["right"] for case in self.record["verified"])
        print(f"{time.perf_counter() - self.started:5.1f} s verified: {right} of {len(self.record['verified'])} right",
              flush=True)  # fmt: skip

    def time(self, work: list[tuple[Shape, list[Candidate]]], timed: Any) -> None:
        for shape, found in work:
            if self.is_late:
                self.record["not_timed"].append(str(shape))
                continue
            if not self.begins(f"time {shape}"):
                continue
            begun = time.perf_counter()
            try:
                case = case_of(shape, timed(shape, found))
            except Exception as error:
                case = {"name": str(shape), "error": self.failed(error), "right": False}
            case["predicted_us"] = round(next(e.seconds for e in found if e.spec.name == vectors.NAME) * 1e6, 3)
            self.record["cases"].append(case)
            self.write()
            print(f"{time.perf_counter() - self.started:5.1f} s {time.perf_counter() - begun:4.1f} {case['name']} "
                  f"{case.get('cublas_us')} {case.get('today_us')} {case.get('best_us')} {case.get('error', '')}",
                  flush=True)  # fmt: skip


def on_gpu(run: Run, work: list[tuple[Shape, list[Candidate]]], device: CudaDevice) -> None:
    import torch

    torch.manual_seed(run.options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    rung = rung_named("naive")
    compiler = compile_for(rung, rung.config(), Problem(1, 1, 1), device.arch).compiler
    run.record |= {"machine": asdict(machine_facts(device, compiler)) | {"host": ""}, "gpu": device.name,
                   "torch": torch.__version__}  # fmt: skip
    watch = CudaStopwatch(device)
    rig = Rig(torch, device, watch, open_probe(device.pci_bus_id), run.options.seed)
    sampling = Sampling(ROUNDS, AGAIN)
    with CompilePool(device.arch) as pool:
        first = [compiled_for(number) for number in range(run.options.verified)]
        for problem, found in first:
            pool.begin(problem, found)
        for shape, found in work:
            pool.begin(compiled_as(shape), found)

        def timed(shape: Shape, found: list[Candidate]) -> dict[str, Any]:
            failures = dict(pool(compiled_as(shape), found))
            try:
                return timed_shape(rig, shape, found, failures, None, sampling)
            finally:
                torch.cuda.empty_cache()

        for problem, found in first:
            pool(problem, found)
        run.verify()
        with watch.active(), torch.cuda.stream(torch.cuda.ExternalStream(watch.stream)):
            run.time(work, timed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=90.0, help="after which no other shape is begun")
    parser.add_argument("--seed", type=int, default=300)
    parser.add_argument("--count", type=int, default=12, help="random shapes")
    parser.add_argument("--verified", type=int, default=20, help="products that are verified first")
    parser.add_argument("--resume", action="store_true", help="go on with the record of a run that was ended")
    parser.add_argument("--dry-run", action="store_true", help="on the simulator; nothing is timed")
    options = parser.parse_args()
    run = Run(options)
    device = None if options.dry_run else cuda_device()
    work = [(shape, [today(shape, device), *candidates(shape)])
            for shape in (*fixed_shapes(), *random_shapes(options.seed, options.count))]  # fmt: skip
    if device is None:
        run.verify()
        run.time(work, simulated)
    else:
        on_gpu(run, work, device)
    run.record.pop("begun", None)
    run.record["seconds"] = round(time.perf_counter() - run.started, 1)
    run.write()
    print(table(run.record["cases"]))
    everything = (*run.record["verified"], *run.record["cases"])
    print(f"not timed: {run.record['not_timed']}" if run.record["not_timed"] else "all were timed")
    return 0 if all(case["right"] for case in everything) else 1


if __name__ == "__main__":
    sys.exit(main())
