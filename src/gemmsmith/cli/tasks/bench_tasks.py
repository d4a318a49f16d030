"""Tasks of ``bench``: all contenders and baselines on one shape, in turn on one GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsmith.bench.bench import bench
from gemmsmith.bench.rig import cuda_rig
from gemmsmith.cli.bench_plan import BenchPlan
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.tasks.files import seen, seen_options
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.run.cuda import cuda_device
from gemmsmith.store.results import Measurement


@dataclass(frozen=True)
class Timed:
    """What a task measured, and notes."""

    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...]


def do_bench(parameters: dict[str, Any], folder: Path) -> Any:
    """The measurements of one shape."""
    plan = decode(BenchPlan, parameters["plan"])
    names = tuple(seen(name, folder) for name in plan.kernels)
    plan = replace(plan, kernels=names, options=seen_options(plan.options, folder))
    found, problems = plan.found()
    device = cuda_device()
    contenders = [named.contender(device, Compiler(), plan.precision) for named in found]
    notes: list[str] = []
    with cuda_rig(device, lambda _: None, notes.append) as rig:
        made = tuple(bench(contenders, plan.rivals(), [problems[parameters["problem"]]], rig, plan.policy))
    return encode(Timed(made, tuple(notes)))
