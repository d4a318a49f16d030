"""How long a prediction takes: every rung at 4096×4096×4096 on one core, against its limit.

    python benchmarks/prediction_speed.py [--size 4096] [--rung NAME …] [--gpu H200] [--fresh] [--reports FOLDER]

Each rung has a process of its own, with one thread. CPU seconds (user and system, compiler and disassembler included)
are told of three steps: compiling it, or reading it from the cache; predicting its time; and the reasons, which run the
cycle model again without each cost. ``--fresh`` begins with an empty cache. ``--reports`` writes each prediction with
all its digits, so that two versions can be compared byte for byte. Exits with 1 if a prediction takes longer than its
limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

LIMIT_S = 10.0  # of a prediction at 4096³; others are printed without a limit
LIMITED = 4096


def cpu_seconds() -> float:
    """User and system time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def measure(name: str, size: int, gpu_name: str, report: str) -> dict[str, float]:
    """The seconds of each step for one rung, in this process."""
    from gemmsmith.compile.compiler import compile_for
    from gemmsmith.explain.timing.predict import Predictor
    from gemmsmith.explain.timing.timed import timed_by, to_json
    from gemmsmith.gpus import gpu_named
    from gemmsmith.ladder.registry import rung_named

    spec, gpu = rung_named(name), gpu_named(gpu_name)
    config, problem = spec.config(), spec.problem(size, size, size)
    arch = f"sm_{gpu.arch}a" if spec.arch_specific == gpu.arch else f"sm_{gpu.arch}"
    times = [cpu_seconds()]
    compile_for(spec, config, problem, arch)
    times.append(cpu_seconds())
    predictor = Predictor(spec, config, problem, gpu)
    now = predictor.predict()
    times.append(cpu_seconds())
    found = timed_by(predictor, now)
    times.append(cpu_seconds())
    if report:
        Path(report).write_text(json.dumps(to_json(found), indent=1) + "\n", encoding="utf-8")
    steps = ("compiling", "predicting", "reasons")
    return {step: end - start for step, start, end in zip(steps, times[:-1], times[1:], strict=True)}


def measured_apart(name: str, asked: argparse.Namespace) -> dict[str, float]:
    """The same by a process of its own."""
    report = str(asked.reports / f"{name}_{asked.size}.json") if asked.reports else ""
    words = [sys.executable, __file__, "--alone", name, "--size", str(asked.size), "--gpu", asked.gpu]
    with tempfile.TemporaryDirectory() as empty:
        fresh = {"GEMMSMITH_CACHE_DIR": empty} if asked.fresh else {}
        done = subprocess.run([*words, "--report", report], env=os.environ | fresh, capture_output=True, text=True,
                              check=False)  # fmt: skip
    if done.returncode:
        sys.exit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=LIMITED, help="M, N and K")
    parser.add_argument("--rung", action="append", default=[], help="only this rung; may be repeated")
    parser.add_argument("--gpu", default="H200", help="the GPU to predict for")
    parser.add_argument("--fresh", action="store_true", help="begin with an empty cache of compiled kernels")
    parser.add_argument("--reports", type=Path, help="folder for the predictions as JSON")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--report", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.alone:
        print(json.dumps(measure(asked.alone, asked.size, asked.gpu, asked.report)))
        return 0
    if asked.reports:
        asked.reports.mkdir(parents=True, exist_ok=True)
    from gemmsmith.ladder.registry import rungs

    names = asked.rung or [spec.name for spec in rungs()]
    over = []
    print(f"CPU seconds on one core, {asked.size}x{asked.size}x{asked.size} on {asked.gpu}")
    print(f"{'rung':24} {'compiling':>10} {'predicting':>10} {'reasons':>10}")
    for name in names:
        found = measured_apart(name, asked)
        late = asked.size == LIMITED and found["predicting"] > LIMIT_S
        over += [name] * late
        columns = " ".join(f"{seconds:10.2f}" for seconds in found.values())
        print(f"{name:24} {columns}{'  OVER' if late else ''}", flush=True)
    if over:
        print(f"over {LIMIT_S:.0f} s: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
