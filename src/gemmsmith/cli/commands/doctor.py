"""gemmsmith doctor: what this machine has and lacks, and how to get it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

import typer
from rich.markup import escape

from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.output import bytes_text, print_json, print_table
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiler import default_cache
from gemmsmith.compile.toolchain import find_nvdisasm, find_toolchain
from gemmsmith.errors import GemmsmithError, MissingDeviceError
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.driver import driver_report

_PACKAGES = ("numpy", "ml-dtypes", "cuda-bindings", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime",
             "nvidia-cuda-cccl", "nvidia-cuda-nvdisasm", "torch", "cupy-cuda13x", "triton")  # fmt: skip
_OPTIONAL = {
    "torch": "pip install '.[torch]'",
    "cupy-cuda13x": "pip install cupy-cuda13x",
    "triton": "comes with torch",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for: 'ok', 'missing' (needed) or 'absent' (optional)."""

    what: str
    state: str
    found: str
    advice: str = ""


def command(cache: CacheOptions, output: OutputOptions) -> None:
    """Say what this machine has and lacks, and how to get it."""
    store = CompileCache(cache.cache_dir) if cache.cache_dir is not None else default_cache()
    findings = [_python(), _compiler(), _libraries(), _disassembler(), _driver(), _gpu(), _cache(store), *_packages()]
    complete = all(f.state != "missing" for f in findings)
    if output.json:
        print_json({"findings": [vars(f) for f in findings], "ok": complete})
    else:
        _print(findings)
    if not complete:
        raise typer.Exit(MissingDeviceError.exit_code)


def _print(findings: list[Finding]) -> None:
    colours = {"ok": "[green]ok[/green]", "missing": "[red]missing[/red]", "absent": "[dim]absent[/dim]"}
    rows = [(f.what, colours[f.state], escape(f.found + (f"  → {f.advice}" if f.advice else ""))) for f in findings]
    print_table((("", "left"), ("", "left"), ("", "left")), rows)


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _compiler() -> Finding:
    try:
        toolchain = find_toolchain()
    except GemmsmithError as error:
        return Finding("compiler", "missing", error.message, error.hint)
    return Finding("compiler", "ok", f"{toolchain.compiler}, CUDA headers {toolchain.headers}")


def _libraries() -> Finding:
    """CUDA's C++ libraries, which users' files include: cuda/barrier, cuda/pipeline, CUB."""
    try:
        found = find_toolchain().cccl
    except GemmsmithError as error:
        return Finding("C++ libraries", "absent", error.message, error.hint)
    if not found:
        return Finding("C++ libraries", "absent", "CCCL was not found", "pip install nvidia-cuda-cccl")
    return Finding("C++ libraries", "ok", f"CCCL {found}")


def _disassembler() -> Finding:
    try:
        return Finding("disassembler", "ok", find_nvdisasm().name)
    except GemmsmithError as error:
        return Finding("disassembler", "absent", error.message, error.hint)


def _driver() -> Finding:
    report = driver_report()
    found = f"{report.found}; the oldest that works with {report.compiler} is {report.needed}"
    return Finding("driver", "ok" if report.works else "absent", found, report.advice)


def _gpu() -> Finding:
    try:
        device = CudaDevice()
    except GemmsmithError as error:
        return Finding("GPU", "absent", error.message, "everything runs on the simulator")
    return Finding("GPU", "ok", f"{device.name}, {device.arch}, driver for CUDA {device.driver_version}")


def _cache(cache: CompileCache) -> Finding:
    try:
        info = cache.info()
    except GemmsmithError as error:
        return Finding("compile cache", "missing", error.message, error.hint)
    return Finding("compile cache", "ok", f"{info.entries} kernels, {bytes_text(info.bytes)} in {info.folder}")


def _packages() -> list[Finding]:
    findings = []
    for name in _PACKAGES:
        try:
            findings.append(Finding(name, "ok", metadata.version(name)))
        except metadata.PackageNotFoundError:
            advice = _OPTIONAL.get(name, "")
            findings.append(Finding(name, "absent", "not installed", advice or f"pip install {name}"))
    return findings
