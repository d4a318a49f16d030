"""gemmsmith profile: what a launch does, in Nsight Compute's terms; from the simulator, or from ncu on a GPU."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith.cli.ncu_profile import measured, measured_on
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions, TargetOptions
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.kernel import KernelName, KernelOptions
from gemmsmith.cli.options.output import TableOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.options.tracing import TraceOptions
from gemmsmith.cli.render.instruction_table import print_instructions
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.render.profile_csv import lines_csv, metrics_csv
from gemmsmith.cli.render.profile_tables import print_lines, print_profile
from gemmsmith.cli.subject import Subject, find_subject
from gemmsmith.errors import UsageError
from gemmsmith.explain.occupancy import Occupancy, occupancy
from gemmsmith.explain.profile import Profile, to_json
from gemmsmith.explain.sampling import BUDGET, affordable
from gemmsmith.explain.simulated_profile import Level, simulate
from gemmsmith.gpus import GPU
from gemmsmith.run.cuda import cuda_device

_SHAPE = ProblemOptions(512, 512, 512)


@dataclass(frozen=True)
class SampleOptions(OptionGroup):
    """How much of a launch is simulated, and how it is shown."""

    panel: ClassVar[str] = "Counting"

    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            help=f"Simulate this many blocks and scale up; 0: all. Default: all up to {BUDGET:,} multiply-adds, then "
            "a sample.",
            show_default=False,
        ),
    ] = None
    full: Annotated[bool, typer.Option("--full", help="Simulate every block, however long it takes.")] = False
    lines: Annotated[bool, typer.Option("--lines", help="Show the source with counts by line.")] = False
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Show every machine instruction with its counts and control bits.")
    ] = False
    level: Annotated[
        Level,
        typer.Option(
            "--level",
            help="What the simulator executes and counts: the machine code (sass), the PTX (ptx), or the machine code "
            "where it can (auto).",
        ),
    ] = Level.AUTO

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 0:
            raise UsageError(f"--sample {self.sample} is negative", "give the number of blocks; 0 is all of them")
        if self.sample and self.full:
            raise UsageError("choose one of --sample and --full")
        if self.instructions and self.level is Level.PTX:
            raise UsageError("--instructions shows machine code, and --level ptx does not execute it",
                             "leave out --level")  # fmt: skip

    @property
    def executed(self) -> Level:
        """The level; a table of machine instructions needs machine code."""
        return Level.MACHINE if self.instructions and self.level is Level.AUTO else self.level

    @property
    def automatic(self) -> bool:
        return self.sample is None and not self.full

    def extent(self, subject: Subject) -> tuple[int, int]:
        """Blocks to simulate and K to simulate them to; 0 is all."""
        if self.automatic:
            return affordable(subject.spec.geometry(subject.problem, subject.config), subject.problem)
        return self.sample or 0, 0


def command(
    kernel: KernelName,
    options: KernelOptions,
    problem: ProblemOptions = _SHAPE,
    *,
    arguments: ArgumentOptions,
    sampling: SampleOptions,
    tracing: TraceOptions,
    device: DeviceOptions,
    target: TargetOptions,
    cache: CacheOptions,
    output: TableOptions,
) -> None:
    """Count sectors, wavefronts, bank conflicts and instructions of a launch.

    On a GPU with ncu also stalls and hit rates.
    """
    if tracing.trace is not None:
        from gemmsmith.cli.traced import trace_word, write_trace

        found_trace = trace_word(kernel, options, problem, arguments, target, cache, tracing.block).trace
        write_trace(tracing.trace, found_trace)
    if arguments.launches(kernel):
        from gemmsmith.cli.launch_commands import profile_launches

        profile_launches(kernel, options, arguments, device, target, cache, as_json=output.json, csv=output.csv,
                         lines=sampling.lines)  # fmt: skip
        return
    on_gpu = measured_on(device)
    if on_gpu and sampling.sample:
        raise UsageError("--sample is for the simulator", "add --device sim, or leave it out")
    gpu = target.model
    arch = cuda_device().arch if on_gpu else target.architecture
    subject = find_subject(kernel, options, problem, arch, cache.compiler, simulated=False)
    if not on_gpu:
        hint = f"on a GPU with ncu, gemmsmith profile {kernel} --device gpu measures it"
        device.check_simulated(subject.spec, subject.problem, hint, "no GPU with ncu")
    with progress() as bar:
        task = bar.add_task(f"{'measuring' if on_gpu else 'simulating'} {subject.spec.name}", total=1)
        if on_gpu:
            found = measured(subject, lines=sampling.lines)
        else:
            blocks, depth = sampling.extent(subject)
            found = simulate(subject.spec, subject.config, subject.problem, subject.compiled, sample=blocks,
                             depth=depth, level=sampling.executed)  # fmt: skip
        bar.advance(task)
    occupied = _occupancy(found, gpu)
    if output.json:
        print_json(to_json(found) | {"occupancy": _occupancy_json(occupied)})
    elif output.csv:
        sys.stdout.write(lines_csv(found) if sampling.lines else metrics_csv(found))
    elif sampling.instructions and found.instructions:
        print_instructions(found)
    elif sampling.lines:
        print_lines(subject.spec, found, sampling.automatic)
    else:
        say(subject.title, "bold")
        print_profile(found, occupied, gpu, sampling.automatic)


def _occupancy(profile: Profile, gpu: GPU) -> Occupancy:
    used, geometry = profile.resources, profile.geometry
    return occupancy(gpu, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip


def _occupancy_json(found: Occupancy) -> dict[str, Any]:
    return {"gpu": found.gpu, "origin": "predicted", "blocks_per_sm": found.blocks_per_sm,
            "warps_per_sm": found.warps_per_sm, "fraction": found.fraction, "limiters": list(found.limiters),
            "why": found.why}  # fmt: skip
