"""Which rungs run on which architecture: cp.async needs sm_80, and Turing's tensor cores have fp16 and int8 only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.compile import CompileCache, compile_kernel
from gemmsmith.compile.target import arch_number, check_target, missing_type, runs_on, target_arch
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.gpus import architecture, architectures
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs, rungs_for
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, TF32, UINT8, DType, Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

# Compiled for sm_75 one by one with NVRTC 13.4: every other rung stops at cp.async.
ON_TURING = (
    "naive", "coalesced", "shared_tile", "register_block", "block_tile_1d", "block_tile_2d", "vectorized", "padded",
    "rectangular", "warp_tile", "warp_tile_mixed", "wmma",
)  # fmt: skip
CASES = [(spec, dtype) for spec in rungs_for(75) for dtype in spec.dtypes]


def test_the_rungs_of_turing() -> None:
    assert tuple(spec.name for spec in rungs_for(75)) == ON_TURING
    assert {spec.min_arch for spec in rungs()} == {75, 80, 90}


@pytest.mark.parametrize(("spec", "dtype"), CASES, ids=lambda each: getattr(each, "name", ""))
def test_they_compile_for_sm_75_in_the_types_that_it_has(spec: KernelSpec, dtype: DType, tmp_path: Path) -> None:
    def compiled() -> str:
        return compile_kernel(spec, spec.config(), dtype=dtype, arch="sm_75", cache=CompileCache(tmp_path)).ptx

    if (spec.name, dtype) == ("wmma", BF16):
        with pytest.raises(UnsupportedError, match="wmma multiplies bf16 on tensor cores, and those of sm_75 do not"):
            compiled()
        return
    assert runs_on(spec, 75, dtype)
    assert ".target sm_75" in compiled()
    geometry = spec.geometry(Problem(512, 512, 512, dtype), spec.config())
    assert geometry.smem <= architecture(75).smem_per_block


@pytest.mark.parametrize("name", ["async_copy", "mma_pipelined", "simt_best", "fp32_tensor_bf16x6", "wgmma_tma"])
def test_the_others_are_refused_by_name(name: str) -> None:
    spec = rung_named(name)
    assert not any(runs_on(spec, 75, dtype) for dtype in spec.dtypes)
    with pytest.raises(UnsupportedError, match=f"{name} (needs sm_80 or newer, not sm_75|uses instructions that only)"):
        check_target(spec, "sm_75", spec.dtypes[0])


@pytest.mark.parametrize(
    ("name", "arch", "dtype", "missing"),
    [
        ("wmma", 75, FP16, ""), ("wmma", 75, BF16, "bf16"), ("wmma", 80, BF16, ""), ("wmma", 87, BF16, ""),
        ("mma_pipelined", 75, TF32, "tf32"), ("mma_pipelined", 75, INT8, ""), ("mma_pipelined", 90, TF32, ""),
        ("fp32_tensor_bf16x6", 75, FP32, "bf16"), ("fp32_tensor_fp16x3", 75, FP32, ""),
        ("warp_tile_mixed", 75, BF16, ""),
    ],
)  # fmt: skip
def test_types_that_tensor_cores_lack(name: str, arch: int, dtype: DType, missing: str) -> None:
    assert missing_type(rung_named(name), arch, dtype) == missing


def test_the_refusal_says_from_when_on_there_is_the_type() -> None:
    with pytest.raises(UnsupportedError) as caught:
        check_target(rung_named("wmma"), "sm_75", BF16)
    assert "tensor cores have bf16 from sm_80 on" in caught.value.hint


def test_every_rung_has_an_architecture_for_each_of_its_types() -> None:
    for spec in rungs():
        for dtype in spec.dtypes:
            assert any(runs_on(spec, arch.arch, dtype) for arch in architectures()), (spec.name, dtype.name)


def test_a_kernel_of_one_architecture_is_compiled_for_it_alone() -> None:
    spec = rung_named("wgmma_tma")
    assert target_arch(spec, "sm_90") == check_target(spec, "sm_90a", FP16) == "sm_90a"
    assert runs_on(spec, 90, FP16)
    assert not runs_on(spec, 100, FP16)
    with pytest.raises(UnsupportedError, match="only sm_90 has"):
        target_arch(spec, "sm_100")
    assert target_arch(replace(spec, arch_specific=0), "sm_100") == "sm_100"


@pytest.mark.parametrize("dtype", [UINT8, FP64])
def test_what_a_users_kernel_multiplies_is_for_the_compiler_to_judge(dtype: DType, tmp_path: Path) -> None:
    """Tensor cores have types that no rung has; a copy of a wrong kernel is compiled with its type known."""
    (tmp_path / "mine.cu").write_text(
        "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) { C[0] = A[0] * B[0]; }",
        encoding="utf-8",
    )
    spec = replace(user_kernel(tmp_path / "mine.cu", UserOptions()), tensor_cores=True)
    assert check_target(spec, "sm_90", dtype) == "sm_90"


def test_how_architectures_are_written() -> None:
    assert [arch_number(text) for text in ("sm_75", "sm_90a", "sm_100f", "sm_120")] == [75, 90, 100, 120]
    for text in ("90", "compute_90", "sm_9", "sm_90b", ""):
        with pytest.raises(UsageError, match="is not a GPU architecture"):
            arch_number(text)
