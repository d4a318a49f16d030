"""What a sweep's command line asks for: which kernel, what varies, where, and what to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gemmsmith.call.binding import needs_simulator
from gemmsmith.cli.commands.explain import DEFAULT_GPU, arch_of
from gemmsmith.cli.options import Compiler, pairs
from gemmsmith.cli.sweep_points import Workbench
from gemmsmith.errors import UsageError
from gemmsmith.gpus import gpu_named, gpu_of_device
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.shapes import Shape
from gemmsmith.sweep.experiments import Experiment, experiment_named
from gemmsmith.sweep.quantities import quantity_named, telling
from gemmsmith.sweep.sweep import RESOURCES, Axis, Family, FileFamily, RungFamily, points_in
from gemmsmith.userfile.user_kernel import UserOptions


def experiment_of(
    name: str, kernel: str, vary: list[str] | None, config: str, preset: str, define: list[str] | None
) -> Experiment | None:
    if not name:
        if not kernel or not vary:
            raise UsageError("say what to sweep: a kernel and --vary, or --experiment NAME",
                             "gemmsmith sweep padded --vary PAD=0,1,4,8; gemmsmith sweep --list")  # fmt: skip
        return None
    chosen = experiment_named(name)
    if kernel or vary or config or preset or define:
        raise UsageError(f"{name} names its kernel, parameters and values itself", "leave out the others, or the name")
    return chosen


def family_of(kernel: str, config: str, preset: str, define: list[str] | None, user: UserOptions) -> Family:
    """A rung or a file, with what the command line holds fixed."""
    fixed = pairs([part for part in config.split(",") if part.strip()]) + pairs(define)
    if kernel.endswith((".cu", ".cuh")) or "/" in kernel:
        if preset:
            raise UsageError("a file has no presets", "set its macros with -D")
        return FileFamily(Path(kernel), replace(user, defines=fixed))
    if user != UserOptions():
        raise UsageError(f"{kernel} is a rung; --entry, --grid, --block, --smem and --signature are for files")
    family = RungFamily(rung_named(kernel), fixed, preset)
    family.check(name for name, _ in fixed)
    return family


def check_size(axes: Sequence[Axis], shapes: Sequence[Shape], most: int) -> None:
    count = points_in(axes, shapes)
    if count > most:
        product = " · ".join(str(len(axis.values)) for axis in axes) + (f" · {len(shapes)}" if len(shapes) > 1 else "")
        raise UsageError(f"{product} = {count} points are more than {most}",
                         f"vary less at once, or allow it: --max-points {count}")  # fmt: skip
    if any(not all(shape) for shape in shapes):
        raise UsageError("an empty matrix has nothing to count or time", "give M, N and K of at least 1")


def origin_of(device: str, axes: Sequence[Axis]) -> str:
    """'predicted' for occupancy alone, 'measured' on a GPU, 'simulated' without."""
    if device not in ("auto", "sim", "gpu"):
        raise UsageError(f"unknown device {device!r}", "use auto, sim or gpu")
    if any(name in RESOURCES for axis in axes for name in axis.names):
        return "predicted"
    return "measured" if device == "gpu" or (device == "auto" and gpu_available()) else "simulated"


def check_family_simulated(family: Family) -> None:
    """Refuse a rung that the simulator cannot run before its points are tried one by one."""
    if isinstance(family, RungFamily):
        sample = Problem(1, 1, 1, dtype=family.spec.dtypes[0])
        needs_simulator(family.spec, sample, "sweep it on a GPU (--device gpu), or --vary registers, threads or smem")


def workbench(origin: str, gpu: str, arch: str, cache_dir: Path | None) -> Workbench:
    compiler = Compiler(cache_dir)
    if origin != "measured":
        target = gpu_named(gpu or DEFAULT_GPU)
        return Workbench(target, arch_of(target, arch), compiler)
    if arch:
        raise UsageError("--arch is the simulator's; a GPU runs code for its own architecture", "add --device sim")
    here = cuda_device()
    found = gpu_named(gpu) if gpu else gpu_of_device(here.name, here.sms)
    if found is None:
        raise UsageError(f"{here.name} with {here.sms} SMs is not in the table of GPUs, so its occupancy is not known",
                         "name one that is like it with --gpu")  # fmt: skip
    return Workbench(found, here.arch, compiler)


def main_of(show: str, chosen: Experiment | None, axes: Sequence[Axis], origin: str) -> str:
    if show:
        return quantity_named(show).name
    if chosen is not None and origin != "measured":
        return chosen.shows
    return telling([name for axis in axes for name in axis.names], origin)
