"""CUDA C++ to PTX and cubin in one NVRTC compile, without a driver.

NVRTC looks for includes in the source's folder and writes file names into line information; for both, a relative name
means the working folder. Sources are therefore named below a folder that does not exist, so that the same request
gives the same bytes on every machine. A user's file is compiled in a process of its own (``worker_pool.py``).
"""

from __future__ import annotations

import re
import sys

from gemmsmith.compile.compile_failure import compile_failure, undefined
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc_job import Job, NvrtcError, Result, run_job
from gemmsmith.compile.request import CompileRequest
from gemmsmith.compile.resources import parse_resources
from gemmsmith.compile.target import arch_number
from gemmsmith.compile.toolchain import Toolchain, load_nvrtc
from gemmsmith.errors import CompileError, UsageError
from gemmsmith.gpus import oldest_arch, refused_arch
from gemmsmith.userfile.files.includes import QUOTED_INCLUDE
from gemmsmith.userfile.files.stub_headers import PRELUDE

_ROOT = "/gemmsmith/"
_TIMING = re.compile(r"^ptxas info\s*: Compile time = .*\n", re.M)


def options(request: CompileRequest) -> tuple[str, ...]:
    """Every compiler option except the include folders: part of the cache key."""
    prelude = (f"--pre-include={PRELUDE}",) if any(name == PRELUDE for name, _ in request.headers) else ()
    return (
        f"--gpu-architecture={request.arch}",
        "-std=c++20" if request.cpp20 else "-std=c++17",
        "-lineinfo",
        "--ptxas-options=-v",
        *(("--device-as-default-execution-space",) if request.device_only else ()),
        *(("--device-int128",) if request.isolated else ()),
        *prelude,
        *(f"-D{name}={value}" for name, value in request.defines),
    )


def check_arch(arch: str, toolchain: Toolchain) -> None:
    """Raise unless this NVRTC compiles for ``arch``; the hint lists what it compiles for."""
    number = arch_number(arch)
    # Architecture-specific targets begin with Hopper (a), family-specific ones with Blackwell (f).
    suffix_ok = {"a": number >= 90, "f": number >= 100}.get(arch[-1], True)
    if number in toolchain.archs and suffix_ok:
        return
    known = ", ".join(f"sm_{n}" + ("[a]" if n >= 90 else "") for n in toolchain.archs)
    reason = f"older than sm_{oldest_arch()}" if number < oldest_arch() else f"unknown to {toolchain.compiler}"
    product = refused_arch(number)
    raise UsageError(f"{arch} is {reason}" + (f" ({product})" if product else ""), f"kernels are compiled for {known}")


def compile_request(request: CompileRequest, toolchain: Toolchain, key: str = "",
                    elsewhere: bool = False) -> CompiledKernel:  # fmt: skip
    """Compile, resolve the entry's mangled name, and read the code's resources; ``elsewhere``: in another process."""
    check_arch(request.arch, toolchain)
    attempt: CompileRequest | None = request
    first = None
    while attempt is not None:
        result = _run(attempt, toolchain, elsewhere or attempt.isolated)
        log = _TIMING.sub("", result.log.replace(_ROOT, ""))
        if not result.failure:
            if f".entry {result.entry}(" not in result.ptx:
                raise undefined(request)
            resources = parse_resources(log, result.cubin, result.entry)
            return CompiledKernel(
                entry=result.entry, arch=request.arch, ptx=result.ptx, cubin=result.cubin, resources=resources,
                log=log, compiler=toolchain.compiler, key=key, cached=False, cache_path="",
            )  # fmt: skip
        first = first or compile_failure(attempt, log or result.failure)
        attempt = attempt.retry(log) if attempt.retry is not None else None
    assert first is not None
    raise first


def _run(request: CompileRequest, toolchain: Toolchain, elsewhere: bool) -> Result:
    source, headers = _rooted(request)
    # NVRTC's own cache keeps the code without ptxas's report.
    no_cache = ("--no-cache",) if toolchain.has_cache else ()
    includes = (f"-I{folder}" for folder in toolchain.includes)
    job = Job(source, _ROOT + request.name, tuple(headers.items()), request.entry,
              (*options(request), *no_cache, *includes))  # fmt: skip
    if elsewhere and sys.executable:
        from gemmsmith.compile.worker_pool import worker_pool

        return worker_pool().run(job, toolchain, request.name)
    try:
        return run_job(load_nvrtc(), job)
    except NvrtcError as error:
        raise CompileError(str(error)) from None


def _rooted(request: CompileRequest) -> tuple[str, dict[str, str]]:
    """Source and headers named below the root; the prelude by its plain name."""
    known = {name for name, _ in request.headers}

    def place(match: re.Match[str]) -> str:
        return match.group(1) + _ROOT + match.group(2) + match.group(3) if match.group(2) in known else match.group(0)

    headers = {
        name if name == PRELUDE else _ROOT + name: QUOTED_INCLUDE.sub(place, text) for name, text in request.headers
    }
    return QUOTED_INCLUDE.sub(place, request.source), headers
