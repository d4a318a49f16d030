"""CUDA C++ to PTX and cubin in one NVRTC compile, without a driver.

NVRTC looks for includes in the source's folder and writes file names into line information; for both, a relative name
means the working folder. Sources are therefore named below a folder that does not exist, so that the same request
gives the same bytes on every machine.
"""

from __future__ import annotations

import re
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.resources import parse_resources
from gemmsmith.compile.target import arch_number
from gemmsmith.compile.toolchain import Toolchain, load_nvrtc
from gemmsmith.errors import CompileError, UsageError
from gemmsmith.gpus import cuda_limits, oldest_arch, refused_arch
from gemmsmith.kernel.signature import entries
from gemmsmith.userfile.includes import QUOTED_INCLUDE
from gemmsmith.userfile.stub_headers import PRELUDE, STUB_HEADERS

_ROOT = "/gemmsmith/"
_TIMING = re.compile(r"^ptxas info\s*: Compile time = .*\n", re.M)
_HOST_CODE = re.compile(
    r"host functions? (is|are) not allowed|namespace \"std\" has no member|identifier \"(cuda|cublas)[A-Z]"
)


def options(request: CompileRequest) -> tuple[str, ...]:
    """Every compiler option except the include folders: part of the cache key."""
    prelude = (f"--pre-include={PRELUDE}",) if any(name == PRELUDE for name, _ in request.headers) else ()
    return (
        f"--gpu-architecture={request.arch}",
        "-std=c++17",
        "-lineinfo",
        "--ptxas-options=-v",
        *(("--device-as-default-execution-space",) if request.device_only else ()),
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


def compile_request(request: CompileRequest, toolchain: Toolchain, key: str = "") -> CompiledKernel:
    """Compile, resolve the entry's mangled name, and read the code's resources."""
    check_arch(request.arch, toolchain)
    nvrtc = load_nvrtc()
    source, headers = _rooted(request)
    names, texts = [name.encode() for name in headers], [text.encode() for text in headers.values()]
    path = (_ROOT + request.name).encode()
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), path, len(names), texts, names))
    try:
        _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, request.entry.encode()))
        # NVRTC's own cache keeps the code without ptxas's report.
        no_cache = ("--no-cache",) if toolchain.has_cache else ()
        includes = [f"-I{folder}" for folder in toolchain.includes]
        arguments = [option.encode() for option in (*options(request), *no_cache, *includes)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        log = _TIMING.sub("", _text(nvrtc, program, "ProgramLog").replace(_ROOT, ""))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _failure(request, log or str(status))
        entry = _checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, request.entry.encode())).decode()
        ptx = _text(nvrtc, program, "PTX")
        cubin = _bytes(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    resources = parse_resources(log, cubin, entry)
    return CompiledKernel(
        entry=entry, arch=request.arch, ptx=ptx, cubin=cubin, resources=resources, log=log,
        compiler=toolchain.compiler, key=key, cached=False, cache_path="",
    )  # fmt: skip


def _rooted(request: CompileRequest) -> tuple[str, dict[str, str]]:
    """Source and headers named below the root; stub headers also by their plain names, for <angle> includes."""
    known = {name for name, _ in request.headers}

    def place(match: re.Match[str]) -> str:
        return match.group(1) + _ROOT + match.group(2) + match.group(3) if match.group(2) in known else match.group(0)

    headers = {_ROOT + name: QUOTED_INCLUDE.sub(place, text) for name, text in request.headers}
    headers |= {name: text for name, text in request.headers if name == PRELUDE or name in STUB_HEADERS}
    return QUOTED_INCLUDE.sub(place, request.source), headers


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, text = nvrtc.nvrtcGetErrorString(result[0])
        raise CompileError(f"NVRTC failed: {text.decode()}")
    return result[1] if len(result) > 1 else None


def _bytes(nvrtc: Any, program: Any, what: str) -> bytes:
    size = _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytearray(size)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return bytes(buffer)


def _text(nvrtc: Any, program: Any, what: str) -> str:
    return _bytes(nvrtc, program, what).rstrip(b"\0").decode("utf-8", errors="replace")


def _failure(request: CompileRequest, log: str) -> CompileError:
    """The compiler's first error in one line, with a hint for the common ones."""
    lines = log.splitlines()
    first = next((i for i, line in enumerate(lines) if re.search(r"\berror\b", line)), 0)
    line = lines[first].strip() if lines else ""
    if "__nv_name_map" in line:
        found = ", ".join(entries(request.source)) or "none"
        return CompileError(
            f"{request.name} has no kernel {request.entry!r}: {line.partition('error: ')[2]}",
            f"__global__ functions in it: {found}", log,
        )  # fmt: skip
    context = lines[first + 1].strip() if first + 1 < len(lines) else ""
    hint = _hint(log, line) or (f"in: {context}" if context and not context.startswith("ptxas") else "")
    return CompileError(f"{request.name} does not compile for {request.arch}: {line}", hint, log)


def _hint(log: str, line: str) -> str:
    if _HOST_CODE.search(log):
        return (
            "NVRTC compiles device code only: move the kernel to its own file, or guard host code with "
            "#ifndef __CUDACC_RTC__ ... #endif"
        )
    if missing := re.search(r'cannot open source file "((?:nv|cuda|cub|thrust)/[^"]+)"', log):
        return f"{missing.group(1)} is part of CUDA's C++ libraries: pip install nvidia-cuda-cccl"
    if "cannot open source file" in log:
        return "quoted includes are searched beside the file; device code has no host headers"
    if "too much shared data" in log:
        limit = cuda_limits().static_smem // 1024
        return f"static shared memory is limited to {limit} KB: use extern __shared__ with a dynamic size for more"
    if re.search(r"not supported on \.target|requires \.target", line):
        return "architecture-specific instructions need the suffix: sm_90a rather than sm_90, for example"
    return ""
