"""The NVIDIA driver: which one is installed, and whether it runs what this compiler makes.

Kernels are loaded as cubins. A driver runs the cubins of its own CUDA major version and of older ones (CUDA
Compatibility guide, minor version compatibility), so the compiler's major version decides which driver is needed:
580 for CUDA 13, 525 for CUDA 12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import MissingDeviceError
from gemmsmith.gpus import oldest_driver

_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_OLDER_CUDA = 12  # its packages are the extra cuda12


@dataclass(frozen=True)
class DriverReport:
    """The driver found, and the oldest one that works.

    version   the driver's own version, such as '580.65.06'; empty where it is not known
    cuda      the newest CUDA version it serves, 13000 for 13.0; 0 where no driver answers
    compiler  'NVRTC 13.4'
    """

    version: str
    cuda: int
    compiler: str

    @property
    def needed(self) -> int:
        """The oldest driver branch that runs what the compiler makes: 580."""
        return oldest_driver(_major(self.compiler))

    @property
    def works(self) -> bool:
        """Whether the driver runs what the compiler makes; False where there is none."""
        return self.cuda // 1000 >= _major(self.compiler)

    @property
    def found(self) -> str:
        """The driver in words: 'driver 580.65.06 for CUDA 13.0'."""
        named = f"driver {self.version}" if self.version else "the driver"
        if self.cuda:
            return f"{named} for CUDA {self.cuda // 1000}.{self.cuda % 1000 // 10}"
        return f"{named} does not answer" if self.version else "no driver"

    @property
    def advice(self) -> str:
        """What to do; empty where the driver works."""
        if self.works:
            return ""
        older = oldest_driver(_OLDER_CUDA)
        if not self.cuda or self.needed <= older:
            return f"install NVIDIA driver {self.needed} or newer, or run on the simulator: --device sim"
        return (
            f"install NVIDIA driver {self.needed} or newer; or the packages of CUDA {_OLDER_CUDA}, which work with "
            f"drivers from {older} on: pip install '.[cuda12]'"
        )


def driver_report() -> DriverReport:
    """The driver of this machine and the installed compiler; there need be neither."""
    try:
        compiler = find_toolchain().compiler
    except MissingDeviceError:
        compiler = "NVRTC 13"
    return DriverReport(kernel_module_version(), driver_cuda_version(), compiler)


def check_driver(compiler: str) -> None:
    """Raise unless this machine's driver runs what ``compiler`` makes; names the driver and the oldest that works."""
    report = DriverReport(kernel_module_version(), driver_cuda_version(), compiler)
    if not report.works:
        raise MissingDeviceError(
            f"{report.found} is too old for kernels of {compiler}: they need driver {report.needed} or newer",
            report.advice,
        )


def driver_cuda_version() -> int:
    """The newest CUDA version the driver serves, 13000 for 13.0; 0 where no driver answers."""
    try:
        from cuda.bindings import driver

        status, version = driver.cuDriverGetVersion()
    except Exception:  # the loader's own exception types vary between versions
        return 0
    return int(version) if int(status) == 0 else 0


def kernel_module_version(path: Path = _KERNEL_MODULE) -> str:
    """The version of NVIDIA's kernel module, such as '580.65.06'; empty where there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", text, re.M)
    return match.group(1) if match else ""


def _major(compiler: str) -> int:
    """13 of 'NVRTC 13.4'."""
    return int(compiler.rsplit(maxsplit=1)[-1].partition(".")[0])
