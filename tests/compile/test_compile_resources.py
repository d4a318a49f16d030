"""Registers, shared memory, stack and spills, from the compiler's report and from the cubin."""

from __future__ import annotations

import pytest
from test_compile_nvrtc import TINY, request

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.compile.resources import parse_resources, resources_from_cubin
from gemmsmith.errors import CompileError

SHARED = """extern "C" __global__ void k(float* A, float* B, float* C, int N) {
  __shared__ float s[33][32];
  extern __shared__ float d[];
  s[threadIdx.x][0] = A[N];
  d[threadIdx.x] = B[N];
  __syncthreads();
  C[N] = s[N][1] * d[N + 1];
}
"""
# 64 registers for 128 live values: the compiler has to spill.
SPILLING = """extern "C" __global__ void __launch_bounds__(1024) k(float* A, float* B, float* C, int N) {
  float v[128];
#pragma unroll
  for (int i = 0; i < 128; i++) v[i] = A[i * N + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 128; i++) C[i * N] = v[i] * v[(i * 37 + 11) % 128];
}
"""
# An array indexed at run time lives on the stack without being a spill.
STACK = """extern "C" __global__ void k(float* A, float* B, float* C, int N) {
  float v[256];
  for (int i = 0; i < 256; i++) v[(i * N) & 255] = A[i];
  C[0] = v[N & 255];
}
"""
CALLING = "__noinline__ __device__ float f(float x) { return x * x; }\n" + TINY.replace("A[N]", "f(A[N])")
BARRIERS = TINY.replace("{ C", '{ asm volatile("bar.sync 3;"); C')
CONSTANT = "__constant__ float c[16];\n" + TINY.replace("A[N]", "c[N]")
TWO = TINY + SHARED.replace("void k(", "void other(")
SOURCES = {"tiny": TINY, "shared": SHARED, "calling": CALLING, "barriers": BARRIERS, "constant": CONSTANT, "two": TWO}
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100")


def made(source: str, arch: str) -> CompiledKernel:
    return compile_request(request(source, arch=arch), find_toolchain())


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", SOURCES)
def test_log_and_cubin_agree(name: str, arch: str) -> None:
    compiled = made(SOURCES[name], arch)
    assert "Used" in compiled.log
    assert resources_from_cubin(compiled.cubin, "k") == compiled.resources


@pytest.mark.parametrize("arch", ARCHS)
def test_static_shared_memory(arch: str) -> None:
    found = made(SHARED, arch).resources
    assert found.static_smem == 33 * 32 * 4
    assert found.barriers == 1
    assert not found.spills


@pytest.mark.parametrize("arch", ARCHS)
def test_spills(arch: str) -> None:
    found = made(SPILLING, arch).resources
    assert found.registers == 64
    assert found.spills
    assert found.spill_stores > 0
    assert found.spill_loads > 0
    assert found.stack >= found.spill_stores // 2


@pytest.mark.parametrize("arch", ARCHS)
def test_a_stack_is_not_a_spill(arch: str) -> None:
    found = made(STACK, arch).resources
    assert found.stack >= 1024
    assert not found.spills


def test_barriers_and_constants() -> None:
    assert made(BARRIERS, "sm_90").resources.barriers == 4
    # The parameters, three pointers and an int, follow the driver's own constants.
    assert made(TINY, "sm_80").resources.const_bytes == 0x160 + 28
    assert made(TINY, "sm_90").resources.const_bytes == 0x210 + 28


def test_one_kernel_of_several() -> None:
    compiled = made(TWO, "sm_90")
    assert parse_resources(compiled.log, compiled.cubin, "k").static_smem == 0
    assert parse_resources(compiled.log, compiled.cubin, "other").static_smem == 33 * 32 * 4


@pytest.mark.parametrize(
    "log", ["", "warning: nothing of use\n", "ptxas info : Compiling entry function 'k' for 'sm_90'\n"]
)
def test_without_a_report_the_cubin_is_read(log: str) -> None:
    compiled = made(SHARED, "sm_90")
    assert parse_resources(log, compiled.cubin, "k") == compiled.resources


@pytest.mark.parametrize("source", [SPILLING, STACK])
def test_spills_are_never_guessed(source: str) -> None:
    with pytest.raises(CompileError, match="does not tell spills from arrays"):
        parse_resources("", made(source, "sm_90").cubin, "k")


@pytest.mark.parametrize("entry", ["missing", "", "K"])
def test_an_unknown_entry_is_an_error(entry: str) -> None:
    compiled = made(TINY, "sm_90")
    with pytest.raises(CompileError, match="does not describe"):
        parse_resources(compiled.log, compiled.cubin, entry)


@pytest.mark.parametrize("keep", [0, 3, 4, 16, 63, 64, 200])
def test_a_broken_cubin_is_an_error(keep: int) -> None:
    with pytest.raises(CompileError, match="does not describe"):
        resources_from_cubin(made(TINY, "sm_90").cubin[:keep], "k")


def test_figures_of_another_kernel_are_ignored() -> None:
    log = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
        "ptxas info    : Used 200 registers, used 9 barriers, 360 bytes cmem[0]\n"
    )
    compiled = made(SHARED, "sm_90")
    assert parse_resources(log, compiled.cubin, "k") == compiled.resources


def test_older_reports_are_read_too() -> None:
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_80'\n"
        "ptxas info    : Function properties for a\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 2 barriers, 1024+16 bytes smem, 400 bytes cmem[0], 8 bytes cmem[2]\n"
        "ptxas info    : Compiling entry function 'ab' for 'sm_80'\n"
        "ptxas info    : Function properties for ab\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]\n"
    )
    assert parse_resources(log, b"", "a") == Resources(40, 1040, 8, 4, 12, 408, 2)
    assert parse_resources(log, b"", "ab") == Resources(8, 0, 0, 0, 0, 360, 0)
