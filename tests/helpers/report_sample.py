"""A report model for tests: simulated counters at 128³, and invented timings that are labelled as such.

As a script it writes the page: python tests/helpers/report_sample.py PAGE.html [all]
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import cache

from explained import compiled, profiled, sass

from gemmsmith.compile.compiler import compile_for
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.registry import rungs as all_rungs
from gemmsmith.problem import FP16, FP32, DType, Problem
from gemmsmith.report.collect import CollectedRung, count_rung, ladder_config, rungs_of
from gemmsmith.report.owners import find_owners
from gemmsmith.report.report_model import Made, Published, ReportModel, Rung, Sweep, SweepPoint
from gemmsmith.run.contender import Identity
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing

NAN = math.nan
FEW = ("naive", "coalesced", "warp_tile")
BOTH = (*FEW, "warp_tile_mixed", "wmma", "mma_swizzled")  # on CUDA cores, and on tensor cores
GPU = gpu_named("H200")
SIZES = (512, 1024, 2048, 4096, 8192)
# Invented, to look like a ladder; TFLOPS at 4096³.
INVENTED = {"naive": 0.52, "coalesced": 6.1, "shared_tile": 8.4, "register_block": 15.9, "block_tile_1d": 19.2,
            "block_tile_2d": 27.3, "vectorized": 36.4, "padded": 35.8, "rectangular": 38.9, "warp_tile": 44.6,
            "async_copy": 41.2, "warp_tile_mixed": 43.7, "wmma": 212.0, "mma_swizzled": 398.0,
            "mma_pipelined": 437.0, "wgmma_tma": 550.0, "wgmma_specialized": 640.0, "wgmma_persistent": 700.0,
            "wgmma_cluster": 740.0, "wgmma_split_k": 300.0, "wgmma_stream_k": 750.0}  # fmt: skip
LIBRARIES = {"cublas": ("fp32", 51.3), "cublaslt": ("fp32", 52.6), "cublas-tf32": ("tf32", 350.0)}
HALVES = {"cublas": ("fp16", 702.0), "cublaslt": ("fp16", 724.0)}  # the same libraries, with fp16 inputs
SLOWER = {512: 0.22, 1024: 0.58, 2048: 0.93, 4096: 1.0, 8192: 1.01}
MACHINE = Machine("an invented host", "Linux", "an invented processor", "3.12.3", gpu="NVIDIA H200", arch="sm_90",
                  driver="580.0", cuda="13.0", compiler="NVRTC 13.0",
                  packages=(("torch", "2.11"), ("cuBLAS", "13.1")))  # fmt: skip


def measurement(
    name: str, kind: str, precision: str, size: int, tflops: float, dtype: DType = FP32
) -> Measurement:  # fmt: skip
    problem = Problem(size, size, size, dtype=dtype)
    took = problem.flops / tflops / 1e12
    timing = Timing("graph", "cold", took, took * 0.995, took * 1.006, 0.012, 40, 20, True)
    library = (LIBRARIES if dtype == FP32 else HALVES)["cublas"][1]
    ratio = Ratio("cublas", tflops / (library * SLOWER[size]), 0.9, 1.1)
    state = Conditions(1830.0, 1700.0, 1980.0, 640.0, 699.0, 61.0, ("power cap",) if size > 4096 else (), 12)
    config = str(ladder_config(rung_named(name))) if kind == "rung" else "invented"
    return Measurement(Identity(name, kind, config, precision), problem, "measured", True, timings=(timing,),
                       ratios=(ratio,) if precision != "tf32" else (), conditions=state, limit_tflops=66.9)  # fmt: skip


def run(names: tuple[str, ...] = FEW, sizes: tuple[int, ...] = SIZES) -> Run:
    types = {name: rung_named(name).dtypes[0] for name in names}
    every = [(name, "rung", dtype.name, INVENTED[name], dtype) for name, dtype in types.items()]
    for dtype, libraries in ((FP32, LIBRARIES), (FP16, HALVES)):
        if dtype in types.values():
            every += [(name, "baseline", arithmetic, speed, dtype) for name, (arithmetic, speed) in libraries.items()]
    made = tuple(measurement(name, kind, arithmetic, size, speed * SLOWER[size], dtype)
                 for name, kind, arithmetic, speed, dtype in every for size in sizes)  # fmt: skip
    return Run("invented-1", "2026-01-02T03:04:05Z", "gemmsmith climb (invented for a test)", "0.1.0", MACHINE, made)


@cache
def gathered_rung(name: str) -> CollectedRung:
    """Counted at 4096³ from a sample; a rung that is not simulated is only compiled."""
    if not rung_named(name).simulated:
        return count_rung(name, 4096, "sm_90", compile_for)
    profile = profiled(name, 4096, 4096, 4096, 1, 64)
    spec, problem = rung_named(name), Problem(4096, 4096, 4096, dtype=rung_named(name).dtypes[0])
    owners = find_owners(spec, ladder_config(spec), problem, compiled(name))
    return CollectedRung(name, (), compiled(name), profile.geometry, sass(name), profile, owners)


@cache
def rungs(names: tuple[str, ...] = FEW) -> tuple[Rung, ...]:
    found = [gathered_rung(n) for n in names]
    # Diagnosed at 4096³ from a sample; the counters by source line are those of a whole launch at 128³.
    return tuple(
        replace(rung, profile=profiled(rung.name, 128, 128, 128), trusted=True, verified="(invented)")
        if rung.simulated else rung
        for rung in rungs_of(found, GPU)
    )  # fmt: skip


def sweeps() -> tuple[Sweep, ...]:
    one = Sweep("How deep a slice: BK of warp_tile", ("BK",), "TFLOPS at 4096³", (
        SweepPoint(("8",), 40.1, 39.8, 40.4), SweepPoint(("16",), 44.6, 44.1, 44.9), SweepPoint(("32",), 42.0),
        SweepPoint(("48",), illegal="BK=48 is not one of 8, 16, 32"),
    ), "recorded", "gemmsmith sweep warp_tile --vary BK=8,16,32,48", "H200")  # fmt: skip
    grid = [SweepPoint((str(tm), str(tn)), 20 + tm * 1.5 + tn - (tm * tn > 64) * 18.0)
            if tm * tn <= 128 else SweepPoint((str(tm), str(tn)), illegal=f"TM·TN = {tm * tn} accumulators spill")
            for tm in (4, 8, 16) for tn in (4, 8, 16)]  # fmt: skip
    two = Sweep("Thread tiles: TM and TN of rectangular", ("TM", "TN"), "TFLOPS at 4096³", tuple(grid), "recorded",
                "gemmsmith sweep rectangular --vary TM=4,8,16 --vary TN=4,8,16", "H200")  # fmt: skip
    return one, two


def published() -> tuple[Published, ...]:
    a6000, rtx = ("A6000 SGEMM document", "RTX A6000", 4096, "fp32"), ("RTX 4090 worklog", "RTX 4090", 4096, "fp32")
    torch, tf32 = "torch.matmul fp32 22.98 TFLOPS", "PyTorch 84.19 TFLOPS (TF32)"
    return (
        Published(*a6000, "baseline", "torch.matmul", 5.979, 22980, 100.0, torch),
        Published(*a6000, "coalesced", "32x32, called naive", 66.514, 2070, 9.0, torch),
        Published(*a6000, "shared_tile", "32", 48.025, 2860, 12.4, torch),
        Published(*a6000, "vectorized", "128,128,8,8x8", 8.072, 17020, 74.1, torch),
        Published(*a6000, "padded", "128,128,8,8x8", 8.688, 15820, 68.8, torch),
        Published(*a6000, "padded", "128,128,16,8x8", 8.049, 17070, 74.3, torch),
        Published(*a6000, "warp_tile", "128,128,16,8x8,64x32", 7.271, 18900, 82.2, torch),
        Published(*rtx, "naive", "32x32", 210.29, 650, 0.8, tf32),
        Published(*rtx, "coalesced", "32x32", 26.95, 5100, 6.1, tf32),
        Published(*rtx, "shared_tile", "32", 22.4, 6140, 7.3, tf32),
        Published(*rtx, "vectorized", "128,128,8,8x8", 3.52, 39070, 46.4, tf32),
        Published(*rtx, "warp_tile", "128,128,16,64x64,WNITER4,8x4", 3.0, 45820, 54.4, tf32),
        Published(
            "A6000 profiling worklog", "RTX A6000", 4096, "fp32", "vectorized", "128,128,8,8x8", 7.57, NAN, NAN, ""
        ),
    )


@cache
def sample(names: tuple[str, ...] = FEW) -> ReportModel:
    """The whole page, as if the timings had been recorded on an H200."""
    made = Made("gemmsmith climb", "2026-01-02", "0.1.0", Machine("an invented host", "Linux", "arm64", "3.11"))
    return ReportModel(GPU, Problem(4096, 4096, 4096), rungs(names), made, recorded=(run(names),),
                       published=published(), sweeps=sweeps())  # fmt: skip


@cache
def bare(names: tuple[str, ...] = FEW) -> ReportModel:
    """The page without a GPU and without recorded results: simulated counters and predictions."""
    return replace(sample(names), recorded=(), published=(), sweeps=())


if __name__ == "__main__":
    from gemmsmith.report import write_page

    chosen = tuple(spec.name for spec in all_rungs()) if sys.argv[2:3] == ["all"] else FEW
    write_page(sys.argv[1], bare(chosen) if sys.argv[3:4] == ["bare"] else sample(chosen))
