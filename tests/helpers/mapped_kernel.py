"""A kernel with tensor maps but no code: it needs the same binding as the Hopper rungs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div

CODE = """
struct alignas(64) TensorMap { unsigned long long words[16]; };
extern "C" __global__ void __launch_bounds__(128, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a,
     const __grid_constant__ TensorMap map_b, float beta, float* C, long long ldc,
     const __grid_constant__ TensorMap map_c, const float* __restrict__ bias, long long strideC, int batch) {}
"""
BM, BN, BK = 128, 64, 64


def maps(problem: Problem, config: Config) -> dict[str, TensorMap]:
    """Boxes of 64 columns in 128 bytes; C has one only if the configuration stores through TMA."""
    size = problem.dtype.itemsize
    found = {}
    for name, rows, cols, ld, stride, many, box_rows in (
        ("A", *problem.a_shape, problem.lda, problem.stride_a, problem.copies[0], BM),
        ("B", *problem.b_shape, problem.ldb, problem.stride_b, problem.copies[1], BK),
    ):
        found[f"map_{name.lower()}"] = TensorMap(name, problem.dtype, (cols, rows, many), (ld * size, stride * size),
                                                 (64, box_rows, 1), 128)  # fmt: skip
    if config["STORE_MODE"]:
        found["map_c"] = TensorMap("C", problem.out_dtype, (problem.n, problem.m), (problem.ldc * 4,), (32, 64), 128)
    return found


def store_if_aligned(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    if addresses[2] % 16 or problem.ldc % 4:
        return config.with_(STORE_MODE=0)
    return config


def tiles(problem: Problem, config: Config) -> Geometry:
    count = ceil_div(problem.m, BM) * ceil_div(problem.n, BN) * problem.batch
    cluster = config["CLUSTER"]
    return Geometry((ceil_div(count, cluster) * cluster, 1, 1), (128, 1, 1), 65536, (cluster, 1, 1))


def mapped_kernel(folder: Path, code: str = CODE, **changes: Any) -> KernelSpec:
    path = folder / "mapped.cu"
    path.write_text(code, encoding="utf-8")
    spec = KernelSpec(
        name="mapped", rung=99, source=path, summary="", teaches="", geometry=tiles,
        parameters=(Parameter("STORE_MODE", 2, (0, 2), ""), Parameter("CLUSTER", 1, (1, 2, 4), "")),
        dtypes=(FP16, BF16), out_dtypes=(FP32,), layouts=("NN", "NT", "TN", "TT"), batched=True,
        specialize=store_if_aligned, min_arch=90, arch_specific=90, simulated=False, tensor_maps=maps,
        align_copies=True, persistent=True, epilogue=True,
    )  # fmt: skip
    return replace(spec, **changes)


def fake_compile(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
    """Compiles nothing; the key records the request."""
    key = f"{spec.name} {config} {problem.dtype} {arch}"
    return CompiledKernel(spec.entry, arch, "", b"", Resources(0, 0, 0, 0, 0, 0, 0), "", "", key, False, "")
