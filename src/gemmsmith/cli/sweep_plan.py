"""A sweep as its command line says it: what the command and its tasks plan alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith import __version__
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.kernels import check_no_preset, check_rung_options, check_source, is_file, rung_of
from gemmsmith.cli.names import gpu_from, shapes_from
from gemmsmith.cli.options.device import TargetOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import DEFAULT_SIZE
from gemmsmith.errors import UsageError
from gemmsmith.gpus import gpu_of_device
from gemmsmith.run.cuda import cuda_device
from gemmsmith.shapes import Shape
from gemmsmith.sweep.axes import Axis, parse_axis
from gemmsmith.sweep.families import Family, FileFamily, RungFamily
from gemmsmith.sweep.grid import Point, grid
from gemmsmith.sweep.workbench import Workbench


@dataclass(frozen=True)
class SweepPlan:
    """A kernel, what varies, over which shapes.

    origin  'measured' on a GPU, 'simulated', or 'predicted'
    """

    kernel: str
    options: KernelOptions
    vary: tuple[str, ...]
    shapes: str
    dtype: str
    origin: str
    target: TargetOptions
    baselines: tuple[str, ...] = ()

    @property
    def family(self) -> Family:
        """A rung or a file, with what the command line fixes."""
        options = self.options
        if is_file(self.kernel):
            check_no_preset(options.preset)
            check_source(Path(self.kernel))
            return FileFamily(Path(self.kernel), replace(options.launch, defines=options.pairs))
        check_rung_options(self.kernel, options.launch)
        family = RungFamily(rung_of(self.kernel), options.pairs, options.preset)
        family.check(name for name, _ in options.pairs)
        return family

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(parse_axis(text) for text in self.vary)

    @property
    def all_shapes(self) -> Sequence[Shape]:
        return shapes_from(self.shapes) if self.shapes else ((DEFAULT_SIZE,) * 3,)

    def workbench(self, compiler: Compiler, there: str = "") -> Workbench:
        """The GPU and the compiler; ``there`` is the kind of GPU that the workers have, where this machine has none."""
        if self.origin != "measured":
            return Workbench(self.target.model, self.target.architecture, compiler, __version__)
        if self.target.arch:
            raise UsageError(
                "--arch is for the simulator; a GPU runs code for its own architecture", "add --device sim"
            )
        if there:
            model = gpu_from(self.target.gpu or there)
            return Workbench(model, f"sm_{model.arch}", compiler, __version__)
        here = cuda_device()
        found = gpu_from(self.target.gpu) if self.target.gpu else gpu_of_device(here.name, here.sms)
        if found is None:
            raise UsageError(
                f"{here.name} with {here.sms} SMs is not in the table of GPUs, so its occupancy is not known",
                "name a similar one with --gpu",
            )
        return Workbench(found, here.arch, compiler, __version__)

    def points(self, bench: Workbench) -> tuple[Point, ...]:
        return grid(self.family, self.axes, self.all_shapes, self.dtype, bench.wave_shape)
