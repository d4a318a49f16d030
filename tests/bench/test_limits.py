"""A GPU's limits: the table's tensor peaks, the roofline, and impossible results."""

from __future__ import annotations

import math

import pytest

from gemmsmith.bench.limits import Limits
from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, gpu_named, gpu_of_device, gpus
from gemmsmith.problem import FP16, INT8, Problem

H200 = Limits(gpu_named("H200"), 1980.0, 62_914_560)
BIG = Problem(8192, 8192, 8192)
KINDS = ("tf32", "fp16", "bf16", "fp8", "int8")
by_name = pytest.mark.parametrize("gpu", gpus(), ids=lambda g: g.name)


@by_name
def test_a_required_peak_exists_or_is_refused(gpu: GPU) -> None:
    for kind in ("fp32", *KINDS):
        if gpu.peak_tflops(kind):
            assert gpu.required_peak(kind) == gpu.peak_tflops(kind)
            continue
        with pytest.raises(UsageError, match=f"{gpu.name} has no tensor cores for {kind}"):
            gpu.required_peak(kind)
    assert gpu.peak_tflops("fp4") == 0


@pytest.mark.parametrize(
    ("name", "sms", "found"),
    [
        ("NVIDIA H200", 132, "H200"), ("NVIDIA H100 80GB HBM3", 132, "H100"), ("NVIDIA A100-SXM4-80GB", 108, "A100"),
        ("NVIDIA GeForce RTX 4090", 128, "RTX 4090"), ("NVIDIA RTX A6000", 84, "RTX A6000"),
        ("NVIDIA B200", 148, "B200"),
        ("NVIDIA H100 PCIe", 114, ""), ("NVIDIA GH200 480GB", 132, ""), ("NVIDIA GeForce RTX 3050 Laptop GPU", 16, ""),
        ("NVIDIA GeForce RTX 4090 D", 114, ""), ("Tesla T4", 40, "T4"), ("", 132, ""),
    ],
)  # fmt: skip
def test_driver_names_of_gpus(name: str, sms: int, found: str) -> None:
    gpu = gpu_of_device(name, sms)
    assert (gpu.name if gpu else "") == found


# --- the roofline


def test_the_roof_is_the_peak_or_the_bandwidth() -> None:
    assert H200.tflops(BIG, "fp32") == 66.9
    assert H200.tflops(BIG, "tf32") == 494.7
    skinny = Problem(1, 4096, 4096)
    assert H200.tflops(skinny, "fp32") == pytest.approx(skinny.flops / skinny.compulsory_bytes * 4.8)


def test_an_unknown_gpu_or_arithmetic_has_no_limit() -> None:
    unknown = Limits(None, 1980.0, 1)
    assert math.isnan(unknown.tflops(BIG, "fp32"))
    assert unknown.objection(BIG, "fp32", 1e-9, 1.0) == ""
    assert unknown.least_cold_seconds(1 << 30, 4) == 0
    ampere = Limits(gpu_named("A100"))
    assert math.isnan(ampere.tflops(BIG, "fp8"))
    assert ampere.objection(BIG, "fp8", 1e-9) == ""
    assert math.isnan(ampere.tflops(BIG, "fp4"))


def test_int8_has_its_own_limit() -> None:
    bytes_ = BIG.with_(dtype=INT8)
    ada, ampere = Limits(gpu_named("RTX 4090")), Limits(gpu_named("A100"))
    assert ada.objection(bytes_, "int8", seconds_at(600.0)) == "", "twice the rate of fp8 with fp32 sums"
    assert ada.objection(bytes_, "int8", seconds_at(700.0)) == (
        "700.0 TOPS is above the int8 limit of RTX 4090, 660.6 TOPS"
    )
    assert ampere.tflops(bytes_, "int8") == 623.7, "without fp8 there is int8 all the same"
    assert "above" in ampere.objection(bytes_, "int8", seconds_at(650.0))


# --- impossible results


def seconds_at(tflops: float, problem: Problem = BIG) -> float:
    return problem.flops / tflops / 1e12


def test_a_speed_above_the_peak_is_rejected_with_numbers() -> None:
    assert H200.objection(BIG, "fp32", seconds_at(66.0)) == ""
    assert H200.objection(BIG, "fp32", seconds_at(70.0)) == "70.0 TFLOPS is above the fp32 limit of H200, 66.9 TFLOPS"
    assert H200.objection(BIG, "tf32", seconds_at(70.0)) == ""


def test_the_ceiling_is_at_the_highest_clock() -> None:
    half = BIG.with_(dtype=FP16)
    assert H200.ceiling_tflops("fp16") == pytest.approx(4096 * 132 * 1.98e9 / 1e12)
    assert H200.objection(half, "fp16", seconds_at(1050.0)) == "", "above the data sheet's clock, not above the silicon"
    assert "above" in H200.objection(half, "fp16", seconds_at(1090.0))
    faster = Limits(gpu_named("RTX 4090"), 3105.0)
    assert faster.objection(BIG, "fp32", seconds_at(95.0)) == ""
    assert "above" in Limits(gpu_named("RTX 4090")).objection(BIG, "fp32", seconds_at(95.0))


def test_a_rotation_must_move_its_bytes_through_memory() -> None:
    set_bytes, sets = 3 << 20, 60
    least = H200.least_cold_seconds(set_bytes, sets)
    assert least == pytest.approx((set_bytes * sets - 62_914_560) / 4.8e12 / sets)
    problem = Problem(512, 512, 64)
    assert "GB/s of H200" in H200.objection(problem, "tf32", least * 0.97, least)
    assert H200.objection(problem, "tf32", least * 1.01, least) == ""
    assert H200.objection(problem, "tf32", least * 0.97) == "", "a hot cache may be faster"
    assert H200.least_cold_seconds(1 << 20, 2) == 0, "what fits L2 needs no memory"


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_non_positive_time_is_impossible(seconds: float) -> None:
    assert "impossible" in H200.objection(BIG, "fp32", seconds)
