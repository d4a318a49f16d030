"""Machine code: instructions, source lines, the main loop."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from test_compile_nvrtc import TINY, request

from gemmsmith.compile import compile_request, disassemble, find_toolchain, toolchain
from gemmsmith.compile.sass import parse_sass
from gemmsmith.errors import CompileError, MissingDeviceError

TILED = """extern "C" __global__ void k(const float* A, const float* B, float* C, int N) {
  __shared__ float As[16][16], Bs[16][16];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float acc = 0;
  for (int i = tx; i < 64; i += 16) C[i] = 0;
#pragma unroll 1
  for (int t = 0; t < N; t += 16) {
    As[ty][tx] = A[ty * N + t + tx];
    Bs[ty][tx] = B[(t + ty) * N + tx];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++)
      acc = fmaf(As[ty][i], Bs[i][tx], acc);
    __syncthreads();
  }
  C[ty * N + tx] = acc;
}
"""
NESTED = """extern "C" __global__ void k(const float* A, const float* B, float* C, int N) {
  float acc = 0, other = 1;
#pragma unroll 1
  for (int t = 0; t < N; t++) {
    other = fmaf(other, A[t], 1.0f);
#pragma unroll 1
    for (int i = 0; i < N; i += 4) {
      acc = fmaf(A[i], B[t], acc);
      acc = fmaf(A[i + 1], B[t + 1], acc);
      acc = fmaf(A[i + 2], B[t + 2], acc);
    }
  }
  C[0] = acc + other;
}
"""
MMA = """extern "C" __global__ void k(const unsigned* A, const unsigned* B, float* C, int N) {
  float c[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (int t = 0; t < N; t++)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(A[t]), "r"(A[t + 1]), "r"(A[t + 2]), "r"(A[t + 3]), "r"(B[t]), "r"(B[t + 1]));
  for (int i = 0; i < 4; i++) C[i] = c[i];
}
"""
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100")


def sass(source: str, arch: str = "sm_90"):  # type: ignore[no-untyped-def]
    return disassemble(compile_request(request(source, arch=arch), find_toolchain()))


@pytest.mark.parametrize("arch", ARCHS)
def test_instructions_and_source_lines(arch: str) -> None:
    code = sass(TILED, arch)
    ffma = [i for i in code.instructions if i.base == "FFMA"]
    assert len(ffma) == 16
    assert {(i.file, i.line) for i in ffma} == {("mine.cu", 13)}
    assert all(len(i.operands) >= 4 and i.predicate == "" for i in ffma)
    loads = [i for i in code.instructions if i.base == "LDG"]
    assert {i.line for i in loads} == {8, 9}
    assert all(i.opcode.startswith("LDG.E") for i in loads)
    assert code.counts["BAR"] == 2
    assert [i.offset for i in code.instructions] == list(range(0, 16 * len(code.instructions), 16))
    assert code.instructions[-1].offset >= 0x100


@pytest.mark.parametrize("arch", ARCHS)
def test_the_main_loop_holds_the_arithmetic(arch: str) -> None:
    code = sass(TILED, arch)
    loop = code.main_loop()
    assert loop is not None
    assert loop.counts["FFMA"] == 16
    assert loop.counts["LDG"] == 2
    assert loop.counts["BAR"] == 2
    assert loop.counts["STG"] == 0
    assert loop.start < loop.end
    assert loop.instructions[-1].base == "BRA"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_innermost_of_nested_loops(arch: str) -> None:
    code = sass(NESTED, arch)
    loop = code.main_loop()
    assert loop is not None
    assert loop.counts["FFMA"] == 3
    assert any(o.start <= loop.start and o.end > loop.end for o in code.loops), "there is one around it"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_tensor_core_instructions_count_as_arithmetic(arch: str) -> None:
    loop = sass(MMA, arch).main_loop()
    assert loop is not None
    assert loop.counts["HMMA"] == 1


def test_a_kernel_without_loop_has_no_main_loop() -> None:
    code = sass(TINY)
    assert code.main_loop() is None
    assert code.loops == (), "the branch to itself at the end is no loop"


def test_predicates_are_read() -> None:
    predicates = {i.predicate for i in sass(TILED).instructions}
    assert any(p.startswith("@") for p in predicates)
    assert not any(i.opcode.startswith("@") for i in sass(TILED).instructions)


def test_only_the_code_of_the_entry() -> None:
    code = sass(TINY + TILED.replace("void k(", "void other("))
    assert code.counts["FFMA"] == 0
    assert code.entry == "k"


def test_lines_of_a_header_have_its_name() -> None:
    made = request(
        '#include "scale.cuh"\n' + TINY.replace("{ C", "{\n  store(B, 1);\n  C"),
        headers=(
            ("sub/scale.cuh", ""),
            ("scale.cuh", "__device__ inline void store(float* p, float x) {\n  p[threadIdx.x] = x;\n}\n"),
        ),
    )
    code = disassemble(compile_request(made, find_toolchain()))
    assert ("scale.cuh", 2) in {(i.file, i.line) for i in code.instructions}


def test_no_disassembler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_request(request(), find_toolchain())
    for name in ("_wheel_folders", "_toolkit_folders"):
        monkeypatch.setattr(toolchain, name, lambda: iter(()))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingDeviceError, match="nvdisasm") as caught:
        disassemble(compiled)
    assert "pip install nvidia-cuda-nvdisasm" in caught.value.hint


def test_a_disassembler_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_wheel_folders", "_toolkit_folders"):
        monkeypatch.setattr(toolchain, name, lambda: iter(()))
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.find_nvdisasm() == tool


def test_a_broken_cubin_is_an_error() -> None:
    compiled = dataclasses.replace(compile_request(request(), find_toolchain()), cubin=b"\x7fELF nonsense")
    with pytest.raises(CompileError, match="cannot read the machine code"):
        disassemble(compiled)


def test_an_unknown_entry() -> None:
    with pytest.raises(CompileError, match="no machine code for 'x'"):
        parse_sass('\t.section\t.text.y,"ax",@progbits\n        /*0000*/                   EXIT ;\n', "x")


# A loop over k inside one over tiles, with a wait that the compiler moved out of line: from there it jumps back into
# the loop, behind the place that it came from.
MOVED = """
.section .text.k,"ax",@progbits
        /*0000*/                   @P0 EXIT ;
.L_tiles:
        /*0010*/                   MOV R1, RZ ;
.L_slices:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x30000], R3 ;
        /*0030*/                   @!P0 BRA `(.L_wait) ;
.L_arrived:
        /*0040*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16].tnspB, R24, UP0 ;
        /*0050*/                   @P1 BRA `(.L_slices) ;
        /*0060*/                   FFMA R2, R2, R3, R4 ;
        /*0070*/                   FFMA R2, R2, R3, R4 ;
        /*0080*/                   FFMA R2, R2, R3, R4 ;
        /*0090*/                   BRA.U UP1, `(.L_tiles) ;
        /*00a0*/                   EXIT ;
.L_wait:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x30000], R3 ;
        /*00c0*/                   @!P0 BRA `(.L_wait) ;
        /*00d0*/                   BRA `(.L_arrived) ;
"""


def test_a_jump_back_from_out_of_line_code_is_not_a_loop() -> None:
    found = parse_sass(MOVED, "k")
    assert [(loop.start, loop.end) for loop in found.loops] == [(0x20, 0x50), (0x10, 0x90), (0xB0, 0xC0)]


def test_the_main_loop_is_the_one_with_tensor_core_instructions() -> None:
    loop = parse_sass(MOVED, "k").main_loop()
    assert loop is not None
    assert (loop.start, loop.counts["HGMMA"], loop.counts["FFMA"]) == (0x20, 1, 0)
