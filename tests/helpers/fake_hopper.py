"""Kernels with the names and parameters of the Hopper rungs but no code, for tests of the chooser."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div

H200 = "NVIDIA H200"
_BN = tuple(range(8, 257, 8))


def _smem_fits(c: Config) -> str | None:
    used = c["STAGES"] * dict(c).get("DEPTH", 1) * (c["BM"] + c["BN"]) * 128
    return None if used <= 227 * 1024 - 2048 else f"{used} B of shared memory"


def _rows_are_shared_out(c: Config) -> str | None:
    return None if c["BM"] % (64 * c["CONSUMERS"]) == 0 else "a consumer has multiples of 64 rows"


def _sums_fit(c: Config) -> str | None:
    return None if c["BM"] * c["BN"] // (128 * c["CONSUMERS"]) <= 208 else "too many sums"


def _launch(problem: Problem, c: Config) -> Geometry:
    tiles = ceil_div(problem.m, c["BM"]) * ceil_div(problem.n, c["BN"])
    return Geometry((tiles, 1, problem.batch), (128 * (c["CONSUMERS"] + 1), 1, 1))


def _spec(name: str, rung: int, *further: Parameter) -> KernelSpec:
    return KernelSpec(
        name=name,
        rung=rung,
        source=Path("none.cu"),
        summary="",
        teaches="",
        geometry=_launch,
        parameters=(
            Parameter("BM", 128, (64, 128, 192, 256), ""),
            Parameter("BN", 128, _BN, ""),
            Parameter("STAGES", 4, tuple(range(2, 9)), ""),
            Parameter("CONSUMERS", 2, (1, 2, 3, 4), ""),
            *further,
        ),
        constraints=(_smem_fits, _rows_are_shared_out, _sums_fit),
        dtypes=(FP16, BF16),
        out_dtypes=(FP32, FP16, BF16),
        layouts=("NN", "NT", "TN", "TT"),
        epilogue=True,
        batched=True,
        tensor_cores=True,
        min_arch=90,
    )


CLUSTER = _spec(
    "wgmma_cluster", 19, Parameter("CLUSTER_M", 2, (1, 2), ""), Parameter("CLUSTER_N", 1, (1, 2), ""),
    Parameter("GROUP", 8, (1, 2, 4, 8, 16), ""), Parameter("STORE_MODE", 2, (0, 1, 2), ""),
    Parameter("STORE_BOXES", 1, (0, 1), ""),
)  # fmt: skip
SPLIT_K = _spec(
    "wgmma_split_k", 20, Parameter("SPLIT", 4, (1, 2, 4, 8), ""), Parameter("SWAP", 0, (0, 1), ""),
    Parameter("DEPTH", 1, (1, 2, 4), ""),
)  # fmt: skip
