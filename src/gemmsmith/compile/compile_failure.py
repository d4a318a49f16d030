"""The compiler's log as an error of two lines: the first error, at the user's own line, and what helps."""

from __future__ import annotations

import re

from gemmsmith.compile.demangle import demangled
from gemmsmith.compile.request import CompileRequest
from gemmsmith.errors import CompileError, GemmsmithError, MissingKernelError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.signature import entries
from gemmsmith.userfile.files.user_bundle import REFUSED, refused

_HOST_CODE = re.compile(
    r"host functions? (is|are) not allowed|namespace \"std\" has no member|identifier \"(cuda|cublas)[A-Z]"
)
_UNKNOWN = re.compile(r"is undefined|has no member|not a template|must be a (?:class|namespace)|could not find|"
                      r"expected a|no operator|not a class or struct name|name followed by \"::\"")  # fmt: skip
_MACRO = re.compile(r'identifier "([A-Z][A-Z0-9_]*)" is undefined')
_MESSAGE = re.compile(r"^\S.*\(\d+\): (?:catastrophic )?(error|warning|remark)\b")
_LIBRARIES = {
    "curand": "nvidia-curand",
    "cufft": "nvidia-cufft",
    "cusparse": "nvidia-cusparse",
    "nccl": "nvidia-nccl-cu13",
}


def undefined(request: CompileRequest) -> CompileError:
    """The error for a kernel that compiles as a declaration alone."""
    return CompileError(
        f"{request.name} declares {request.entry}, but its definition is not found",
        "if the file has one, a bracket may be missing in a function before it: nvcc -c shows where",
    )


def compile_failure(request: CompileRequest, log: str) -> GemmsmithError:
    """The compiler's first error in one line, with a hint for the common ones."""
    log = demangled(log)
    lines = log.splitlines()
    first = next((i for i, line in enumerate(lines) if re.search(r"\berror\b", line)), 0)
    line = lines[first].strip() if lines else ""
    if REFUSED in line:
        where = re.match(r"(.+?)\((\d+)\)", line)
        return refused(f"{where[1]}:{where[2]}" if where else request.name, line.partition(REFUSED)[2].strip(' "'))
    if "__nv_name_map" in line:
        return _no_kernel(request, line, log)
    if request.missing and "does not apply here" in line:  # follows from a type that is not known
        first = next((i for i, each in enumerate(lines) if "is undefined" in each), first)
        line = lines[first].strip()
    context = lines[first + 1].strip() if first + 1 < len(lines) else ""
    hint = _hint(request, log, line) or (f"in: {context}" if context and not context.startswith("ptxas") else "")
    return CompileError(f"{request.name} does not compile for {request.arch}: {line}", hint, errors_alone(log))


def errors_alone(log: str) -> str:
    """The compiler's log without its warnings and remarks: headers beside an error can give pages of them.

    A message is the lines up to the next blank one, and begins at a place: "gemm.cu(7): error: …".
    """
    kept: list[str] = []
    keeps = True
    for line in log.splitlines():
        if found := _MESSAGE.search(line):
            keeps = found[1] not in ("warning", "remark")
        elif line.startswith("Remark:"):
            keeps = False
        elif not line.strip():
            if keeps:
                kept.append(line)
            keeps = True
            continue
        if keeps:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def _no_kernel(request: CompileRequest, line: str, log: str) -> MissingKernelError:
    texts = (request.source, *(text for _, text in request.headers))
    found = ", ".join(dict.fromkeys(name for text in texts for name in entries(text))) or "none"
    return MissingKernelError(
        f"{request.name} has no kernel {request.entry!r}: {line.partition('error: ')[2]}",
        f"__global__ functions in it: {found}", errors_alone(log),
    )  # fmt: skip


def _hint(request: CompileRequest, log: str, line: str) -> str:
    if request.missing and _UNKNOWN.search(line):
        return _missing_hint(request.missing)
    if "device-side kernel launch" in log or re.search(r'identifier "cuda(?:Stream|Graph)\w+" is undefined', log):
        return ("kernels that launch kernels (dynamic parallelism) are not supported: launch the inner kernel by "
                "itself with gemmsmith.launch")  # fmt: skip
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
    if macro := _MACRO.search(line):
        return f"if {macro[1]} is a macro, give its value, for example -D {macro[1]}=16"
    return ""


def _missing_hint(missing: tuple[str, ...]) -> str:
    """Which include was not found, and how to give it."""
    shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    for name in missing:
        if re.match(r"(?:cuda|cub|thrust|nv)/", name):
            return f"{name} was not found: it is part of CUDA's C++ libraries (pip install nvidia-cuda-cccl)"
        for library, package in _LIBRARIES.items():
            if name.startswith(library):
                return f"{name} was not found: pip install {package} and give its include folder with -I DIR"
    return f"{shown}: not found beside the file or in its repository; give the folder with -I DIR"
