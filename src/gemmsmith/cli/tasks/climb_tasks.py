"""Tasks of ``climb``: a rung counted and simulated, a rung verified on a GPU, the rungs of a type timed at one size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemmsmith.cli.climb_timing import rivals_of, timed_at
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.rung import collect_rung
from gemmsmith.cli.tasks.bench_tasks import Timed
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.cluster.task import Task
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.collect import verify_rung
from gemmsmith.run.cuda import cuda_device


def count_tasks(names: Sequence[str], size: int, arch: str, simulated: int, limit: float) -> list[Task]:
    return [Task("count_rung", {"name": name, "size": size, "arch": arch, "simulated": simulated}, f"{name} {size}",
                 limit=limit) for name in names]  # fmt: skip


def do_count_rung(parameters: dict[str, Any], folder: Path) -> Any:  # noqa: ARG001
    """One rung: counted, and verified on the simulator."""
    return encode(collect_rung(compiler=Compiler(), **parameters))


def verify_tasks(names: Sequence[str], size: int, gpu: str, limit: float) -> list[Task]:
    return [Task("verify_rung", {"name": name, "size": size}, f"{name} {size}", gpu=gpu, limit=limit) for name in names]


def do_verify_rung(parameters: dict[str, Any], folder: Path) -> Any:  # noqa: ARG001
    """The verdicts on one rung, on a GPU."""
    spec = rung_named(parameters["name"])
    return encode(verify_rung(cuda_device(), spec, parameters["size"], Compiler()))


def do_time_rungs(parameters: dict[str, Any], folder: Path) -> Any:  # noqa: ARG001
    """Rungs of one type and their baselines at one size, in turn on one GPU."""
    from gemmsmith.bench.rig import TimingPolicy, cuda_rig

    device, notes = cuda_device(), list[str]()
    specs = [rung_named(name) for name in parameters["names"]]
    policy = decode(TimingPolicy, parameters["policy"])
    with cuda_rig(device, lambda _: None, notes.append) as rig:
        rivals = rivals_of(specs[0].dtypes[0].name, notes)
        made = tuple(timed_at(specs, rivals, parameters["extent"], device, Compiler(), rig, policy))
    return encode(Timed(made, tuple(notes)))
