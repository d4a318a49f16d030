"""The machine of a run, for its record."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gemmsmith.bench.clocks import driver_version
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.store.results import Machine

# Packages that affect a measurement; their versions are read without importing them.
PACKAGES = (
    "gemmsmith", "numpy", "cuda-bindings", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "torch", "triton",
    "nvidia-cublas", "nvidia-cublas-cu12", "nvmath-python", "cupy-cuda13x", "cupy-cuda12x",
)  # fmt: skip


def machine_facts(device: CudaDevice | None = None, compiler: str = "") -> Machine:
    """This machine, and ``device`` if a GPU is used."""
    return Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu(),
        python=platform.python_version(),
        gpu=device.name if device is not None else "",
        arch=device.arch if device is not None else "",
        driver=driver_version() if device is not None else "",
        cuda=device.driver_version if device is not None else "",
        compiler=compiler,
        packages=installed(),
    )


def installed() -> tuple[tuple[str, str], ...]:
    """Names and versions of the installed packages."""
    found = []
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def _cpu() -> str:
    """The processor's name if Linux reports it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names and names[0] else platform.processor() or platform.machine()
