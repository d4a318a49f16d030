"""The driver found and the oldest that works are named before a kernel is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.errors import MissingDeviceError
from gemmsmith.run import driver
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.driver import DriverReport, check_driver, driver_report, kernel_module_version

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs@host)  Sun Jul 27\n"
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc 12.3\n"
)


@pytest.mark.parametrize(("text", "version"), [(OPEN, "580.65.06"), (CLOSED, "535.183.01"), ("nonsense", ""), ("", "")])
def test_the_kernel_modules_version(text: str, version: str, tmp_path: Path) -> None:
    path = tmp_path / "version"
    path.write_text(text)
    assert kernel_module_version(path) == version
    assert kernel_module_version(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("cuda", "compiler", "needed", "works"),
    [
        (13000, "NVRTC 13.4", 580, True), (13010, "NVRTC 13.0", 580, True), (12080, "NVRTC 13.4", 580, False),
        (12000, "NVRTC 12.9", 525, True), (13000, "NVRTC 12.9", 525, True), (11080, "NVRTC 12.9", 525, False),
        (0, "NVRTC 13.4", 580, False),
    ],
)  # fmt: skip
def test_a_driver_runs_code_of_its_own_cuda_version_and_of_older_ones(
    cuda: int, compiler: str, needed: int, works: bool
) -> None:
    report = DriverReport("", cuda, compiler)
    assert (report.needed, report.works) == (needed, works)
    assert (report.advice == "") is works


def test_what_is_said_of_each() -> None:
    assert DriverReport("580.65.06", 13000, "NVRTC 13.4").found == "driver 580.65.06 for CUDA 13.0"
    old = DriverReport("535.183.01", 12020, "NVRTC 13.4")
    assert old.found == "driver 535.183.01 for CUDA 12.2"
    assert "driver 580 or newer" in old.advice
    assert "drivers from 525 on: pip install '.[cuda12]'" in old.advice
    older = DriverReport("470.0", 11040, "NVRTC 12.9")
    assert "driver 525 or newer" in older.advice
    assert "cuda12" not in older.advice
    assert DriverReport("", 0, "NVRTC 13.4").found == "no driver"
    assert DriverReport("580.65.06", 0, "NVRTC 13.4").found == "driver 580.65.06 does not answer"
    assert DriverReport("", 13000, "NVRTC 13.4").found == "the driver for CUDA 13.0"


def test_the_first_load_is_refused_where_the_driver_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "driver_cuda_version", lambda: 12080)
    monkeypatch.setattr(driver, "kernel_module_version", lambda: "570.124.06")
    check_driver("NVRTC 12.9")
    with pytest.raises(MissingDeviceError) as caught:
        check_driver("NVRTC 13.4")
    assert caught.value.message == (
        "driver 570.124.06 for CUDA 12.8 is too old for kernels of NVRTC 13.4: they need driver 580 or newer"
    )
    assert caught.value.exit_code == 3


def test_a_report_needs_neither_driver_nor_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingDeviceError("no compiler")

    monkeypatch.setattr(driver, "find_toolchain", missing)
    monkeypatch.setattr(driver, "driver_cuda_version", lambda: 0)
    report = driver_report()
    assert (report.compiler, report.needed, report.works) == ("NVRTC 13", 580, False)


def test_a_device_checks_the_driver_before_it_loads_its_first_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    device = object.__new__(CudaDevice)
    device._loaded = {}
    monkeypatch.setattr(driver, "driver_cuda_version", lambda: 12080)
    compiled = CompiledKernel("k", "sm_80", "", b"", Resources(1, 0, 0, 0, 0, 0, 0), "", "NVRTC 13.4", "key", False, "")
    with pytest.raises(MissingDeviceError, match="is too old for kernels of NVRTC 13"):
        device.load(compiled)
