"""Where a kernel runs, and which GPU predictions are for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.names import did_you_mean, gpu_from
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import MissingDeviceError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from gemmsmith.cli.block_progress import Listener
    from gemmsmith.gpus import GPU
    from gemmsmith.kernel.spec import KernelSpec
    from gemmsmith.problem import Problem
    from gemmsmith.run.cuda import CudaDevice
    from gemmsmith.sim.device import SimDevice

DEFAULT_ARCH = "sm_90"
DEFAULT_GPU = "H200"
_DEVICES = ("auto", "sim", "gpu")
GpuName = Annotated[
    str,
    typer.Option("--gpu", help="The GPU to predict for. Default: the one that was timed.", rich_help_panel="Device"),
]


@dataclass(frozen=True)
class DeviceOptions(OptionGroup):
    """The GPU of this machine, or the simulator."""

    panel: ClassVar[str] = "Device"

    device: Annotated[
        str, typer.Option("--device", help="auto (the GPU where there is one), sim (the simulator) or gpu.")
    ] = "auto"

    def __post_init__(self) -> None:
        if self.device not in _DEVICES:
            near = did_you_mean(self.device, _DEVICES)
            raise UsageError(f"unknown device {self.device!r}", f"{near}use auto, sim or gpu")

    @property
    def wants_gpu(self) -> bool:
        """Whether a GPU is used: asked for, or there."""
        from gemmsmith.run.cuda import gpu_available

        return self.device == "gpu" or (self.device == "auto" and gpu_available())

    def open(
        self, schedule: str = "lockstep", seed: int = 0, mod32: bool = False, hazards: bool = False,
        timeout: float = math.inf, listener: Listener | None = None, arch: str = "",
    ) -> SimDevice | CudaDevice:  # fmt: skip
        """The device. The parameters are the simulator's; ``listener`` hears how many blocks of a launch are done."""
        if self.wants_gpu:
            from gemmsmith.run.cuda import cuda_device

            return cuda_device()
        from gemmsmith.sim.device import SimDevice
        from gemmsmith.sim.schedule import schedule_named

        order = schedule_named(schedule, seed)
        if listener is not None:
            from gemmsmith.cli.block_progress import ReportingSimulator

            return ReportingSimulator(arch or DEFAULT_ARCH, order, mod32=mod32, hazards=hazards, listener=listener)
        return SimDevice(arch or DEFAULT_ARCH, order, mod32=mod32, hazards=hazards, timeout=timeout)

    def check_runs(self, spec: KernelSpec, problem: Problem) -> None:
        """Refuse a kernel that the chosen device cannot run."""
        if not self.wants_gpu:
            self.check_simulated(spec, problem, "run it on a GPU (--device gpu)")

    def check_simulated(self, spec: KernelSpec, problem: Problem, hint: str, lacking: str = "no GPU") -> None:
        """Refuse a kernel that the simulator cannot run. Unless the simulator was asked for, a device is missing."""
        from gemmsmith.call.binding import needs_simulator

        try:
            needs_simulator(spec, problem, hint)
        except UnsupportedError as error:
            if self.device == "sim":
                raise
            raise MissingDeviceError(f"{error.message}, and this machine has {lacking}", error.hint) from None


@dataclass(frozen=True)
class TargetOptions(OptionGroup):
    """The GPU model that counts and predictions are for."""

    panel: ClassVar[str] = "Device"

    gpu: Annotated[
        str, typer.Option("--gpu", help=f"The GPU to predict for: A100, H100, RTX 4090, … Default: {DEFAULT_GPU}.")
    ] = ""
    arch: Annotated[
        str, typer.Option("--arch", help="Compile for this architecture, such as sm_86, instead of the GPU's.")
    ] = ""

    @property
    def model(self) -> GPU:
        return gpu_from(self.gpu or DEFAULT_GPU)

    @property
    def architecture(self) -> str:
        return self.arch or f"sm_{self.model.arch}"


@dataclass(frozen=True)
class CacheOptions(OptionGroup):
    """Where compiled kernels are kept."""

    panel: ClassVar[str] = "Device"

    cache_dir: Annotated[
        Path | None, typer.Option("--cache-dir", help="Folder of compiled kernels.", envvar="GEMMSMITH_CACHE_DIR")
    ] = None

    @property
    def compiler(self) -> Compiler:
        return Compiler(self.cache_dir)
