"""What a call costs the host, in microseconds, on a GPU with torch.

    python benchmarks/host_cost.py [OUTPUT.json] [--src NAME=DIR ...] [--rounds 6] [--shape 128x128x128]

Each ``--src`` is a source tree (the folder that holds ``gemmsmith/``); without one, the tree that Python imports. Trees
are measured in child processes that take turns, so that two versions are compared on the same machine in one run:

    git worktree add ../before main
    python benchmarks/host_cost.py host_cost.json --src before=../before/src --src after=src

"the launch itself" is the plan's launch and nothing else: the driver's cuLaunchKernelEx through the same binding.

A child calls each function 100 times on an idle GPU, in turns and in random order, and reports the host's time per
call. The table shows medians over all children, and in brackets the interquartile range over the median.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from typing import Any

COUNT = 100  # calls per sample: far fewer than the queue of a stream takes
SETS = 8  # operand sets that the rotating calls go through
REPEATS = 30  # samples of each call in a child
Call = Callable[[], Any]
Samples = dict[str, list[float]]


def calls(torch: Any, gemmsmith: Any, shape: tuple[int, int, int]) -> dict[str, Call]:
    """The measured calls, by the names that the table shows."""
    m, n, k = shape
    kind = torch.bfloat16

    def matrix(rows: int, cols: int) -> Any:
        return torch.randn(rows, cols, device="cuda").to(kind)

    a, b, out = matrix(m, k), matrix(k, n), matrix(m, n)
    c, weight = matrix(m, n), torch.nn.Parameter(b.clone())
    sets = [(matrix(m, k), matrix(k, n), matrix(m, n)) for _ in range(SETS)]
    plan_sets, gemm_sets = cycle(sets), cycle(sets)
    skewed = torch.randn(m, k + 1, device="cuda").to(kind)[:, :k]  # rows do not start on 16 bytes
    plan = gemmsmith.plan(a, b, out=out)
    gemm = gemmsmith.gemm

    def planned_set() -> None:
        x, y, z = next(plan_sets)
        plan(x, y, out=z)

    def rotating_gemm() -> None:
        x, y, z = next(gemm_sets)
        gemm(x, y, out=z)

    def parameter() -> None:
        with torch.no_grad():
            gemm(a, weight, out=out)

    bare = bare_launch(plan)
    linear, functional = gemmsmith.torch.linear, torch.nn.functional.linear
    leaf, bias = a.clone().requires_grad_(), torch.nn.Parameter(matrix(1, n)[0])
    layer = torch.nn.Parameter(matrix(n, k))

    def no_grad(function: Call) -> Call:
        def call() -> None:
            with torch.no_grad():
                function()

        return call

    return {
        "torch.mm": lambda: torch.mm(a, b),
        "matmul": lambda: gemmsmith.matmul(a, b),
        "torch.mm, no_grad, Parameter": no_grad(lambda: torch.mm(a, weight)),
        "matmul, no_grad, Parameter": no_grad(lambda: gemmsmith.matmul(a, weight)),
        "torch.mm, grad": lambda: torch.mm(leaf, weight),
        "matmul, grad": lambda: gemmsmith.matmul(leaf, weight),
        "gemm, grad": lambda: gemm(leaf, weight, out_dtype=kind),
        "F.linear": no_grad(lambda: functional(a, layer, bias)),
        "linear": no_grad(lambda: linear(a, layer, bias)),
        "F.linear, grad": lambda: functional(leaf, layer, bias),
        "linear, grad": lambda: linear(leaf, layer, bias),
        "torch.mm(out=)": lambda: torch.mm(a, b, out=out),
        "the launch itself": bare,
        "plan()": plan,
        "plan(a, b, out=)": lambda: plan(a, b, out=out),
        f"plan(a, b, out=), {SETS} sets": planned_set,
        "gemm(out=)": lambda: gemm(a, b, out=out),
        f"gemm(out=), {SETS} sets": rotating_gemm,
        "gemm()": lambda: gemm(a, b, out_dtype="bf16"),
        "gemm(nn.Parameter, out=), no_grad": parameter,
        "gemm(c, beta=1, out=)": lambda: gemm(a, b, c, beta=1.0, out=out),
        "gemm(unaligned rows, out=)": lambda: gemm(skewed, b, out=out),
    }


def bare_launch(plan: Any) -> Call:
    """The last launch of a plan, without anything around it."""
    from gemmsmith.run.cuda_launch import _packed

    planned = plan._call
    step, device = planned._steps[-1], planned._executor.device
    pointers, memory = _packed(step.launch.arguments)
    start: Any = device._starter(step.loaded, step.launch.geometry, planned._stream(), pointers)
    start.memory = memory  # keeps the arguments
    found: Call = start
    return found


def sample(torch: Any, call: Call) -> float:
    """Microseconds of the host per call."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(COUNT):
        call()
    taken = time.perf_counter() - started
    torch.cuda.synchronize()
    return taken / COUNT * 1e6


def child(tree: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """One process, which imports gemmsmith from ``tree``."""
    if tree:
        sys.path.insert(0, tree)
    import gemmsmith

    if tree and not Path(gemmsmith.__file__).is_relative_to(tree):
        sys.exit(f"gemmsmith was imported from elsewhere than {tree}")
    try:
        import torch
    except ImportError:
        sys.exit("torch is not installed")
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU")
    measured = calls(torch, gemmsmith, shape)
    for call in measured.values():
        sample(torch, call)  # compiles, loads, fills caches
    samples: Samples = {name: [] for name in measured}
    gc.disable()
    for _ in range(REPEATS):
        for name in random.sample(list(measured), len(measured)):
            samples[name].append(sample(torch, measured[name]))
    plan: Any = measured["plan()"]
    return {"samples": samples, "kernel": plan.kernel, "launches": plan.launches, "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name()}  # fmt: skip


def run_child(tree: Path | None, shape: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", str(tree or ""), "--shape", shape]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:].strip(), file=sys.stderr)
        sys.exit(3)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def summary(values: list[float]) -> dict[str, float]:
    low, middle, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"us": round(median(values), 3), "iqr": round((high - low) / middle, 3), "samples": len(values)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--src", action="append", default=[], metavar="NAME=DIR", help="a source tree to measure")
    parser.add_argument("--rounds", type=int, default=6, help="child processes for each tree")
    parser.add_argument("--shape", default="128x128x128", metavar="MxNxK")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    m, n, k = map(int, options.shape.split("x"))
    if options.child is not None:
        print(json.dumps(child(options.child, (m, n, k))))
        return 0
    trees: dict[str, Path | None] = {"gemmsmith": None}
    if options.src:
        named = (text.partition("=") for text in options.src)
        trees = {name: Path(folder).resolve() for name, _, folder in named}
        if missing := [name for name, folder in trees.items() if folder and not (folder / "gemmsmith").is_dir()]:
            parser.error(f"no folder gemmsmith/ in {', '.join(missing)}")
    samples: dict[str, Samples] = {name: {} for name in trees}
    for _ in range(options.rounds):
        for name in random.sample(list(trees), len(trees)):
            found = run_child(trees[name], options.shape)
            for call, values in found["samples"].items():
                samples[name].setdefault(call, []).extend(values)
    table = {call: {name: summary(samples[name][call]) for name in trees} for call in samples[next(iter(trees))]}
    print(f"{'µs of the host per call':36}" + "".join(f"{name:>20}" for name in trees))
    for call, row in table.items():
        print(f"{call:36}" + "".join(f"{row[name]['us']:12.2f} ({row[name]['iqr']:4.0%})" for name in trees))
    record = {
        "what": "host microseconds per call, medians", "origin": "measured", "shape": [m, n, k], "gpu": found["gpu"],
        "kernel": found["kernel"], "launches": found["launches"], "torch": found["torch"],
        "machine": platform.machine(), "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/host_cost.py --rounds {options.rounds} --shape {options.shape}",
        "calls": table,
    }  # fmt: skip
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    else:
        print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
