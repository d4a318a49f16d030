"""Time many configurations on many shapes beside cuBLAS: the data that the cost model is fitted to and tested on.

    python benchmarks/time_candidates.py plan.json times.json [--seconds 180] [--both] [--again 12]

plan.json lists shapes with their configurations: [{"shape": {…}, "candidates": [{"kernel": …, "config": {…}}, …]}, …].
Configurations are compiled by other processes while earlier shapes are timed. Every result is compared with cuBLAS's.
With --both, products from 4 GFLOP on are timed in short samples and under the power cap, and a time is the geometric
mean of the two: what is fastest for a millisecond may use more energy, and be slower under the cap. Under the cap only
those run that are within 4 % of the best of short samples; the time of the others is that of short samples, as much
longer as those take in the mean. A shape of the plan with "sustained": true is timed under the cap for as long as
shapes_against_cublas.py does, and more candidates are: clocks settle within a tenth of a second. One with "quick": true
is timed in short samples alone, and once: below 10 us the same graph again differs by 0.2 %.

The best of many times is low by chance too. With --again, the fastest and the choice are timed again in turns, and
these times count: ``first`` is what they were picked by.

A shape is left out where something ran twice as long in one kind of sample as in the other, for each product, or in
one sample as in another of its kind: another process used the GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shape_rig import QUICK, QUICK_LARGE, SUSTAINED, Mode, Rig, Shape, Timed, compiled_as

from gemmsmith.bench.clocks import open_probe
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.candidates import Candidate
from gemmsmith.errors import GemmsmithError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import geometric_mean
from gemmsmith.run.cuda import cuda_device
from gemmsmith.tune.compile_ahead import CompilePool

LARGE = 1e11  # FLOP: from here on the power cap sets the clock
ROUNDS, ROUNDS_LARGE = 4, 3
FROM, ROUNDS_CAPPED = 4e9, 3  # FLOP from which products are timed under the cap as well
WRITTEN = 8  # shapes after which the record is written again
AHEAD = 60  # shapes among which the next is one whose kernels are compiled
WARM = Mode("warm", 1e-3, 0.01, 0.01)
SHORT, SHORT_FLOPS, ROUNDS_SHORT = Mode("short", 4e-4, 4e-4, 4e-4), 4e9, 3  # of "quick" shapes below so many FLOP
# On a GPU that nothing else uses: time under the cap over that of short samples, and the longest of a kernel's samples
# over the shortest.
ALONE, ALIKE = (0.85, 1.6), 2.0


@dataclass(frozen=True)
class Sampling:
    """Short samples of each candidate, and of the finalists ``again``."""

    rounds: int
    again: int
    quick: bool = False


@dataclass(frozen=True)
class Cap:
    """How products run under the cap: those within ``near`` of the best of short samples, at most ``finalists``."""

    mode: Mode
    near: float
    finalists: int


NEAR, FINALISTS = 1.04, 4  # that are timed again
CAPPED = Cap(Mode("capped", 1e-3, 0.012, 0.014), NEAR, FINALISTS)
LONGER = Cap(SUSTAINED, 1.08, 8)


def finalists(times: Sequence[float], near: float, most: int) -> list[int]:
    """The library, the choice of now and at most ``most`` of those within ``near`` of the best."""
    if len(times) == 1:
        return [0]
    best = min(times[1:])
    fast = [i for i in sorted(range(1, len(times)), key=times.__getitem__) if times[i] <= best * near]
    return list(dict.fromkeys([0, 1, *fast[:most]]))


def retimed(rig: Rig, contenders: Sequence[Timed], running: Sequence[int], mode: Mode, rounds: int) -> list[float]:
    """Microseconds of those that run, from new samples alone; NaN for the others."""
    for i in running:
        contenders[i].samples.clear()
    rig.rounds([contenders[i] for i in running], mode, rounds)
    return [each.us if i in running else math.nan for i, each in enumerate(contenders)]


def mean_of_modes(rig: Rig, contenders: list[Timed], mode: Mode, sampling: Sampling, cap: Cap | None
                  ) -> dict[str, list[float]]:  # fmt: skip
    """Microseconds of every contender, the library first: ``us``, with ``cap`` the geometric mean of ``quick`` and
    ``capped``, which is NaN for those that did not run under the cap."""
    rig.rounds(contenders, mode, sampling.rounds)
    quick = [each.us for each in contenders]
    found = {}
    if sampling.again:
        found["first"] = quick
        again = retimed(rig, contenders, finalists(quick, NEAR, FINALISTS), mode, sampling.again)
        quick = [a if math.isnan(b) else b for a, b in zip(quick, again, strict=True)]
    if cap is None:
        return {"us": quick, **found}
    running = finalists(quick, cap.near, cap.finalists)
    capped = retimed(rig, contenders, running, cap.mode, ROUNDS_CAPPED)
    slower = geometric_mean([capped[i] / quick[i] for i in running if i]) if len(running) > 1 else 1.0
    means = [math.sqrt(a * (a * slower if math.isnan(b) else b)) for a, b in zip(quick, capped, strict=True)]
    return {"us": means, "quick": quick, "capped": capped, **found}


def timed_shape(rig: Rig, shape: Shape, candidates: list[Candidate], failures: dict[Any, str],
                cap: Cap | None, sampling: Sampling) -> dict[str, Any]:  # fmt: skip
    cap = cap if shape.problem.flops >= FROM else None
    large = shape.problem.flops >= LARGE and cap is None
    mode = QUICK_LARGE if large else QUICK
    sampling = replace(sampling, rounds=ROUNDS_LARGE) if large else sampling
    if sampling.quick and shape.problem.flops < SHORT_FLOPS:
        mode, sampling = SHORT, replace(sampling, rounds=ROUNDS_SHORT)
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
        rig.sample(cublas, WARM)  # after a pause the clock is the idle one, and rises within some ms
        cublas.samples.clear()
        times = mean_of_modes(rig, contenders, mode, sampling, cap)
        for name, values in times.items():
            for (row, _), us in zip(rows, values[1:], strict=True):
                row |= {} if math.isnan(us) else {name: round(us, 3)}
        uneven = max(max(timed.samples) / min(timed.samples) for timed in contenders)
        for timed in contenders:
            timed.replay.close()
            timed.close()
    library_times = {f"cublas_{name}": round(values[0], 3) for name, values in times.items()}
    return {"shape": asdict(shape), "kind": shape.kind, "uneven": round(uneven, 3), **library_times,
            "candidates": found}  # fmt: skip


def is_compiled(pool: CompilePool, shape: Shape, candidates: list[Candidate]) -> bool:
    return all(pool.is_compiled(compiled_as(shape), each) for each in candidates)


def was_alone(found: dict[str, Any]) -> bool:
    """False where times of the two kinds of samples show that another process used the GPU."""
    pairs = [(found.get("cublas_quick"), found.get("cublas_capped"))]
    pairs += [(row.get("quick"), row.get("capped")) for row in found["candidates"]]
    both = all(ALONE[0] < capped / quick < ALONE[1] for quick, capped in pairs if quick and capped)
    return both and found.get("uneven", 1.0) < ALIKE


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
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="short samples of each candidate")
    parser.add_argument("--again", type=int, default=0, help="short samples of the fastest and the choice, once more")
    parser.add_argument("--both", action="store_true", help="time in short samples and under the power cap")
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
        cap = LONGER if each.get("sustained") else CAPPED if options.both and not each.get("quick") else None
        quick = bool(each.get("quick"))
        sampling = Sampling(options.rounds, 0 if quick else options.again, quick)
        work.append((Shape(**each["shape"]), candidates, cap, sampling))
    record: list[dict[str, Any]] = []
    stream = torch.cuda.ExternalStream(watch.stream)
    with CompilePool(device.arch, processes=options.processes) as pool, watch.active(), torch.cuda.stream(stream):
        for shape, candidates, *_ in work:
            pool.begin(compiled_as(shape), candidates)
        while work:
            if time.perf_counter() - started > options.seconds:
                print(f"out of time: {len(work)} shapes are not timed")
                break
            compiled = (i for i, each in enumerate(work[:AHEAD]) if is_compiled(pool, *each[:2]))
            shape, candidates, cap, sampling = work.pop(next(compiled, 0))
            failures = dict(pool(compiled_as(shape), candidates))
            begun = time.perf_counter()
            try:
                found = timed_shape(rig, shape, candidates, failures, cap, sampling)
            except (GemmsmithError, RuntimeError) as error:
                print(f"{shape}: {error}", flush=True)
                continue
            torch.cuda.empty_cache()
            if not was_alone(found):
                print(f"{shape}: left out: something else used the GPU", flush=True)
                continue
            record.append(found)
            if len(record) % WRITTEN == 0:
                options.times.write_text(json.dumps(record), encoding="utf-8")
            now = time.perf_counter()
            print(f"{now - started:5.1f} s {now - begun:4.1f} {line(shape, found)}", flush=True)
        options.times.write_text(json.dumps(record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
