"""gemmsmith doctor: what this machine has, what it lacks, and how to get it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

from rich.markup import escape

from gemmsmith.cli.options import CacheDir, Json
from gemmsmith.cli.render.output import bytes_text, console, print_json, table
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiler import default_cache
from gemmsmith.compile.toolchain import find_nvdisasm, find_toolchain
from gemmsmith.errors import GemmsmithError
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.driver import driver_report

_PACKAGES = ("numpy", "ml-dtypes", "cuda-bindings", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime",
             "nvidia-cuda-nvdisasm", "torch", "cupy-cuda13x", "triton")  # fmt: skip
_OPTIONAL = {
    "torch": "pip install '.[torch]' in gemmsmith's folder",
    "cupy-cuda13x": "pip install cupy-cuda13x",
    "triton": "comes with torch",
}


@dataclass(frozen=True)
class Finding:
    """One thing looked for: 'ok', 'missing' (needed) or 'absent' (only needed for more)."""

    what: str
    state: str
    found: str
    advice: str = ""


def command(cache_dir: CacheDir = None, json: Json = False) -> None:
    """Say what this machine has and lacks for gemmsmith, and how to get it."""
    cache = CompileCache(cache_dir) if cache_dir is not None else default_cache()
    findings = [_python(), _compiler(), _disassembler(), _driver(), _gpu(), _cache(cache), *_packages()]
    if json:
        print_json({"findings": [vars(f) for f in findings], "ok": all(f.state != "missing" for f in findings)})
        return
    colours = {"ok": "[green]ok[/green]", "missing": "[red]missing[/red]", "absent": "[dim]absent[/dim]"}
    rows = [(f.what, colours[f.state], escape(f.found + (f"  → {f.advice}" if f.advice else ""))) for f in findings]
    console().print(table("", (("", "left"), ("", "left"), ("", "left")), rows))


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _compiler() -> Finding:
    try:
        toolchain = find_toolchain()
    except GemmsmithError as error:
        return Finding("compiler", "missing", error.message, error.hint)
    return Finding("compiler", "ok", f"{toolchain.compiler}, CUDA headers {toolchain.headers}")


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
