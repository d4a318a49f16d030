"""NVRTC through the compile stage: PTX, cubin, names, errors, and reproducibility."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.compile import CompileCache, compile_kernel, compile_request, find_toolchain, toolchain
from gemmsmith.compile.nvrtc import options
from gemmsmith.compile.render import CompileRequest
from gemmsmith.errors import CompileError, GemmsmithError, MissingDeviceError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32

TINY = 'extern "C" __global__ void k(float* A, float* B, float* C, int N) { C[threadIdx.x] = A[N] * B[N]; }\n'
MANGLED = "__global__ void k(float* A, float* B, float* C, int N) { C[threadIdx.x] = A[N] * B[N]; }\n"


def request(source: str = TINY, *, entry: str = "k", arch: str = "sm_90", **more: object) -> CompileRequest:
    return CompileRequest("mine.cu", source, **({"headers": (), "defines": (), "arch": arch, "entry": entry} | more))  # type: ignore[arg-type]


def user_spec(folder: Path, source: str, entry: str = "k", **more: object) -> KernelSpec:
    (folder / "mine.cu").write_text(source)
    return KernelSpec(
        "mine", folder / "mine.cu", "", "", lambda _p, _c: Geometry((1, 1, 1), (32, 1, 1)), entry=entry, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def compile_user(folder: Path, source: str, entry: str = "k", arch: str = "sm_80", **more: object):  # type: ignore[no-untyped-def]
    spec = user_spec(folder, source, entry, **more)
    return compile_kernel(spec, Config(), dtype=FP32, arch=arch, cache=CompileCache(folder / "cache"))


@pytest.mark.parametrize("arch", [f"sm_{n}" for n in find_toolchain().archs] + ["sm_90a", "sm_100a", "sm_100f"])
def test_every_architecture_from_sm_75_on(arch: str) -> None:
    compiled = compile_request(request(arch=arch), find_toolchain())
    assert f".target {arch}" in compiled.ptx
    assert ".visible .entry k(" in compiled.ptx
    assert compiled.cubin[:4] == b"\x7fELF"
    assert compiled.resources.registers > 0
    assert compiled.compiler == find_toolchain().compiler
    assert compiled.entry == "k"


@pytest.mark.parametrize(
    ("arch", "says"),
    [
        ("sm_70", r"sm_70 is older than sm_75 \(V100: it is sm_70 \(Volta\), and NVRTC 13"),
        ("sm_50", "sm_50 is older than sm_75\n"),
        ("sm_99", "unknown to NVRTC"),
        ("sm_80a", "unknown to NVRTC"),
        ("sm_90f", "unknown to NVRTC"),
        ("sm_999", "unknown to NVRTC"),
        ("90", "not a GPU architecture"),
        ("compute_90", "not a GPU architecture"),
        ("sm_90; rm", "not a GPU architecture"),
        ("", "not a GPU architecture"),
    ],
)
def test_an_unsupported_architecture(arch: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        compile_request(request(arch=arch), find_toolchain())
    assert "sm_80" in caught.value.hint
    assert "sm_90" in caught.value.hint
    assert caught.value.exit_code == 2


def test_the_log_and_the_first_error_are_reported() -> None:
    source = TINY + "\n__device__ int f() { return missing + 1; }\n__device__ int g() { return also_missing; }\n"
    with pytest.raises(CompileError) as caught:
        compile_request(request(source), find_toolchain())
    assert 'mine.cu(3): error: identifier "missing" is undefined' in caught.value.message
    assert "sm_90" in caught.value.message
    assert "also_missing" in caught.value.log
    assert "return missing + 1" in caught.value.hint
    assert "/gemmsmith/" not in caught.value.log
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize(
    "host",
    [
        "int main() { return 0; }",
        "void launch(float* p) { k<<<1, 32>>>(p, p, p, 1); }",
        "int main() { float* p; cudaMalloc(&p, 4); return 0; }",
        "#include <vector>\nint main() { std::vector<float> v; }",
        "#include <cublas_v2.h>\nvoid f(cublasHandle_t h) {}",
    ],
)
def test_host_code_beside_a_kernel_compiles(host: str, tmp_path: Path) -> None:
    compile_user(tmp_path, TINY + host)


CALLING = TINY.replace("A[N] *", "A[N + f()] *")


def test_host_code_in_device_functions_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="does not compile") as caught:
        compile_user(tmp_path, "__device__ int f() { float* p; cudaMalloc(&p, 4); return 0; }\n" + CALLING)
    assert "move the kernel to its own file" in caught.value.hint
    assert "#ifndef __CUDACC_RTC__" in caught.value.hint


def test_guarded_host_code_compiles(tmp_path: Path) -> None:
    compile_user(tmp_path, TINY + "#ifndef __CUDACC_RTC__\nint main() { return 0; }\n#endif\n")


WORKLOG_HEADERS = (
    "cuda_runtime.h stdio.h cublas_v2.h iostream cstdio cstdlib cassert algorithm vector cmath cstdint stdint.h cfloat "
    "climits chrono random cuda.h cuda_fp16.h cuda_bf16.h mma.h cuda_pipeline.h"
)


@pytest.mark.parametrize("header", WORKLOG_HEADERS.split())
def test_common_host_includes(header: str, tmp_path: Path) -> None:
    assert compile_user(tmp_path, f"#include <{header}>\n" + TINY).resources.registers > 0


def test_common_host_includes_together_define_what_kernels_use(tmp_path: Path) -> None:
    body = (
        "#include <algorithm>\n#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n#include <cfloat>\n"
        "#include <climits>\n#include <cstdint>\n#include <cublas_v2.h>\n#include <cuda_runtime.h>\n"
        "#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))\n"
        'extern "C" __global__ void k(float* A, float* B, float* C, int N) {\n'
        "  const uint row = blockIdx.x; int32_t i = 1; std::size_t s = 2; uint64_t big = 3;\n"
        '  assert(N > 0); if (row == INT_MAX) printf("%d", N);\n'
        "  C[row] = fminf(FLT_MAX, A[i] * B[s + big]);\n}\n"
    )
    assert compile_user(tmp_path, body).entry == "k"


def test_a_missing_cccl_header_says_what_to_install() -> None:
    with pytest.raises(CompileError) as caught:
        compile_request(request("#include <cuda/nowhere>\n" + TINY), find_toolchain())
    assert "nvidia-cuda-cccl" in caught.value.hint


def test_a_missing_header_of_the_user() -> None:
    with pytest.raises(CompileError, match=r"nowhere\.cuh") as caught:
        compile_request(request('#include "nowhere.cuh"\n' + TINY), find_toolchain())
    assert "beside the file" in caught.value.hint


def test_too_much_static_shared_memory_gets_a_hint() -> None:
    source = TINY.replace("{ C", "{ __shared__ float s[20000]; s[threadIdx.x] = A[0]; __syncthreads(); A[1] = s[N]; C")
    with pytest.raises(CompileError, match="too much shared data") as caught:
        compile_request(request(source), find_toolchain())
    assert "48 KB" in caught.value.hint


def test_an_architecture_specific_instruction_gets_a_hint() -> None:
    source = TINY.replace("{ C", '{ asm volatile("wgmma.fence.sync.aligned;"); C')
    with pytest.raises(CompileError, match="wgmma") as caught:
        compile_request(request(source, arch="sm_90"), find_toolchain())
    assert "sm_90a" in caught.value.hint
    compile_request(request(source, arch="sm_90a"), find_toolchain())


@pytest.mark.parametrize(
    ("source", "entry", "lowered"),
    [
        (TINY, "k", "k"),
        (MANGLED, "k", "_Z1kPfS_S_i"),
        ("namespace n { " + MANGLED + "}", "n::k", "_ZN1n1kEPfS0_S0_i"),
        ("template <int X> " + MANGLED, "k<3>", "_Z1kILi3EEvPfS1_S1_i"),
    ],
)
def test_the_entrys_mangled_name(source: str, entry: str, lowered: str) -> None:
    compiled = compile_request(request(source, entry=entry), find_toolchain())
    if "template" not in source:
        assert compiled.entry == lowered
    assert f".entry {compiled.entry}(" in compiled.ptx
    assert compiled.resources.registers > 0


@pytest.mark.parametrize("entry", ["other", "K"])
def test_an_unknown_entry_lists_the_existing_ones(entry: str) -> None:
    with pytest.raises(CompileError, match=f"no kernel '{entry}'") as caught:
        compile_request(request(TINY, entry=entry), find_toolchain())
    assert caught.value.hint.endswith(": k")


def test_a_device_function_is_not_an_entry() -> None:
    with pytest.raises(GemmsmithError):
        compile_request(request(TINY + "__device__ float f(float x) { return x; }", entry="f"), find_toolchain())


def test_the_working_folder_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = request(
        '#include "scale.cuh"\n' + TINY.replace("A[N]", "scale(A[N])"),
        headers=(("scale.cuh", "#pragma once\n__device__ inline float scale(float x) {\n  return 3 * x;\n}\n"),),
    )
    here = compile_request(made, find_toolchain())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cuh").write_text("#error read from the working folder\n")
    there = compile_request(made, find_toolchain())
    assert here == there
    assert str(tmp_path) not in there.ptx
    assert str(tmp_path).encode() not in there.cubin


def test_files_in_the_working_folder_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stray.cuh").write_text("#define N 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompileError, match=r"stray\.cuh"):
        compile_request(request('#include "stray.cuh"\n' + TINY), find_toolchain())
    made = request('#include "a.cuh"\n' + TINY, headers=(("a.cuh", '#include "stray.cuh"\n'),))
    with pytest.raises(CompileError, match=r"stray\.cuh"):
        compile_request(made, find_toolchain())


def test_stub_headers_keep_line_numbers(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"mine\.cu\(3\): error"):
        compile_user(tmp_path, "#include <cstdio>\n#include <vector>\n__device__ int f() { return nope; }\n" + CALLING)


def test_options_keep_the_order_of_defines() -> None:
    made = options(request(defines=(("BM", "128"), ("IN", "__half"))))
    assert made[-2:] == ("-DBM=128", "-DIN=__half")
    assert made[0] == "--gpu-architecture=sm_90"
    assert "-lineinfo" in made


@pytest.fixture
def no_toolchain_memory() -> None:
    find_toolchain.cache_clear()


def test_nvrtcs_own_cache_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries lack ptxas's report. The option does not change the code, so it is not part of the key."""
    from cuda.bindings import nvrtc

    given: list[bytes] = []
    compile_program = nvrtc.nvrtcCompileProgram

    def noted(program: object, count: int, arguments: list[bytes]) -> object:
        given.extend(arguments)
        return compile_program(program, count, arguments)

    monkeypatch.setattr(nvrtc, "nvrtcCompileProgram", noted)
    assert "ptxas info" in compile_request(request(), find_toolchain()).log
    assert b"--no-cache" in given
    assert "--no-cache" not in options(request())
    versions = ("NVRTC 12.8", "NVRTC 12.9", "NVRTC 13.0")
    assert [replace(find_toolchain(), compiler=each).has_cache for each in versions] == [False, True, True]


@pytest.mark.usefixtures("no_toolchain_memory")
def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingDeviceError, match="bindings are missing") as caught:
        find_toolchain()
    assert "nvidia-cuda-nvrtc" in caught.value.hint
    assert caught.value.exit_code == 3


@pytest.mark.usefixtures("no_toolchain_memory")
def test_a_library_that_does_not_load_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    def fail() -> None:
        raise RuntimeError("libnvrtc.so.13 not found\nsearched: everywhere")

    monkeypatch.setattr(nvrtc, "nvrtcVersion", fail)
    with pytest.raises(MissingDeviceError, match=r"libnvrtc\.so\.13 not found") as caught:
        find_toolchain()
    assert "everywhere" not in str(caught.value), "one line is enough"


@pytest.mark.usefixtures("no_toolchain_memory")
def test_no_headers_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_include_candidates", lambda: iter(()))
    with pytest.raises(MissingDeviceError, match="headers were not found") as caught:
        find_toolchain()
    assert "CUDA_HOME" in caught.value.hint


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_headers_of_a_toolkit_are_found(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include = headers(tmp_path, "13000")
    monkeypatch.setattr(toolchain, "_wheel_folders", lambda: iter(()))
    monkeypatch.delenv("CUDA_HOME", raising=False)  # this machine's own
    monkeypatch.setenv(variable, str(tmp_path))
    assert toolchain._include_folders(13, 0) == (include,)


def headers(folder: Path, version: str, crt: bool = True) -> Path:
    """An include folder with the files that identify it."""
    include = folder / "include"
    (include / "crt").mkdir(parents=True)
    (include / "cuda_fp16.h").touch()
    (include / "cuda.h").write_text(f"#define CUDA_VERSION {version}\n")
    if crt:
        (include / "crt" / "mma.h").touch()
    return include


def test_a_folder_with_all_headers_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers(tmp_path / "split", "13990", crt=False)
    whole = headers(tmp_path / "whole", "13990")
    monkeypatch.setattr(toolchain, "_wheel_folders", lambda: iter([tmp_path / "split", tmp_path / "whole"]))
    assert toolchain._include_folders(13, 99) == (whole,)


def test_headers_of_the_compilers_own_version_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("13040", "13000"):
        headers(tmp_path / version, version)
    folders = [tmp_path / "13040" / "include", tmp_path / "13000" / "include"]
    monkeypatch.setattr(toolchain, "_include_candidates", lambda: iter(folders))  # not this machine's own headers
    assert toolchain._include_folders(13, 0) == (tmp_path / "13000" / "include",)
    assert toolchain._include_folders(13, 4) == (tmp_path / "13040" / "include",)
    assert toolchain._include_folders(13, 2) == (tmp_path / "13040" / "include",)


def test_the_wheels_of_cuda_12_have_crt_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the wheels of CUDA 13, whose crt/ is of another version."""
    headers(tmp_path / "cu13", "13040")
    runtime = headers(tmp_path / "cuda_runtime", "12090", crt=False)
    (tmp_path / "cuda_nvcc" / "include" / "crt").mkdir(parents=True)
    (tmp_path / "cuda_nvcc" / "include" / "crt" / "mma.h").touch()
    monkeypatch.setattr(toolchain, "_nvidia_folders", lambda: [tmp_path])
    assert toolchain._include_folders(12, 9) == (runtime, tmp_path / "cuda_nvcc" / "include")
    assert toolchain._include_folders(13, 4) == (tmp_path / "cu13" / "include",)


@pytest.mark.parametrize(
    ("bindings", "lib", "crt", "loaded"),
    [("12.9.10", True, True, True), ("13.5.0", True, True, False), ("12.9.10", False, True, False),
     ("12.9.10", True, False, False), ("", True, True, False)],
)  # fmt: skip
def test_nvrtc_12_is_loaded_for_cuda_bindings_12_where_its_wheels_are_whole(
    bindings: str, lib: bool, crt: bool, loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another package may have brought part of the wheels of CUDA 12: those are not enough to compile with."""
    library = tmp_path / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
    for path, there in ((library, lib), (tmp_path / "cuda_nvcc" / "include" / "crt" / "mma.h", crt)):
        path.parent.mkdir(parents=True)
        if there:
            path.touch()
    opened: list[str] = []
    monkeypatch.setattr(toolchain, "_nvidia_folders", lambda: [tmp_path])
    monkeypatch.setattr(toolchain, "_wheel_version", lambda _name: bindings)
    monkeypatch.setattr(toolchain.ctypes, "CDLL", lambda name, **_: opened.append(name))
    toolchain._load_cuda_12.__wrapped__()
    assert opened == ([str(library)] if loaded else [])


def test_importing_needs_no_cuda_package() -> None:
    code = (
        "import sys; sys.modules['cuda'] = None; sys.modules['cuda.bindings'] = None; import gemmsmith.compile; "
        "assert not any(m.startswith('cuda.') and sys.modules[m] for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_second_request_compiles_nothing(tmp_path: Path) -> None:
    spec, cache = user_spec(tmp_path, TINY), CompileCache(tmp_path / "cache")
    first = compile_kernel(spec, Config(), dtype=FP32, arch="sm_80", cache=cache)
    second = compile_kernel(spec, Config(), dtype=FP32, arch="sm_80", cache=cache)
    third = compile_kernel(spec, Config(), dtype=FP32, arch="sm_80", cache=CompileCache(tmp_path / "cache"))
    assert (first.cached, second.cached, third.cached) == (False, True, True)
    assert replace(first, cached=True) == second == third
    assert cache.info().hits == 1
    assert cache.info().misses == 1


@pytest.mark.parametrize("edited", ["mine.cu", "part.cuh"])
def test_an_edited_file_is_compiled_again(edited: str, tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text("#define V 1\n")
    spec, cache = user_spec(tmp_path, '#include "part.cuh"\n' + TINY), CompileCache(tmp_path / "cache")
    compile_kernel(spec, Config(), dtype=FP32, arch="sm_80", cache=cache)
    path = tmp_path / edited
    path.write_text(path.read_text() + "// edited\n")
    assert not compile_kernel(spec, Config(), dtype=FP32, arch="sm_80", cache=cache).cached


def test_the_users_cache_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSMITH_CACHE_DIR", str(tmp_path / "mine"))
    compiled = compile_kernel(user_spec(tmp_path, TINY), Config(), dtype=FP32, arch="sm_80")
    assert Path(compiled.cache_path).parent == tmp_path / "mine"
