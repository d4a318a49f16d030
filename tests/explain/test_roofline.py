"""Roofline positions computed by hand."""

from __future__ import annotations

import pytest
from explained import profiled

from gemmsmith.explain.roofline import roofline
from gemmsmith.gpus import gpu_named, gpus


def test_a_cube_of_4096_is_compute_bound_on_every_gpu() -> None:
    profile = profiled("coalesced", 4096, 4096, 4096, 1, 64)
    for gpu in gpus():
        place = roofline(profile, gpu)
        assert place.intensity == pytest.approx(2 * 4096**3 / (3 * 4096**2 * 4))
        assert (place.bound, place.attainable_tflops, place.origin) == ("compute", gpu.fp32_tflops, "predicted")
        assert place.ridge == pytest.approx(1e3 * gpu.fp32_tflops / gpu.dram_gbs)


def test_matrix_times_vector_is_memory_bound() -> None:
    place = roofline(profiled("coalesced", 256, 1, 256), gpu_named("H200"))
    read = 4 * (256 * 256 + 256 + 256)
    assert place.dram_bytes == read
    assert place.bound == "memory"
    assert place.attainable_tflops == pytest.approx(2 * 256 * 256 / read * 4800 / 1e3)
    assert place.seconds == pytest.approx(read / 4800e9)


@pytest.mark.parametrize(("name", "sectors"), [("naive", 33), ("coalesced", 5)])
def test_l2_bytes_are_the_sectors_touched(name: str, sectors: int) -> None:
    place = roofline(profiled(name, 128, 128, 128), gpu_named("A100"))
    stores = 128 * 128 * (1 if name == "naive" else 1 / 8)
    assert place.l2_bytes == 32 * (sectors * 128**3 / 32 + stores)
    assert place.l2_intensity == pytest.approx(2 * 128**3 / place.l2_bytes)


def test_no_work_takes_no_time() -> None:
    place = roofline(profiled("coalesced", 64, 64, 0), gpu_named("H200"))
    assert place.flops == 0
    assert place.seconds == 0
