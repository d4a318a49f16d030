"""How fast tensor cores multiply, by their accumulators: GeForce cards are half as fast with fp32 ones."""

from __future__ import annotations

import pytest

from gemmsmith.gpus import gpu_named
from gemmsmith.sim.sass.reader import read_instruction
from gemmsmith.sim.timing.parameters import parameters_of
from gemmsmith.sim.timing.table import _reads, mma_cycles

FP32 = "HMMA.16816.F32 R4, R8, R12, R4"
FP16 = "HMMA.16816.F16 R4, R8, R12, R4"
INT8 = "IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4"


def tops(gpu: str, text: str, k: int) -> float:
    """What all SMs reach together at boost clock, in 10¹² operations a second."""
    found, i = gpu_named(gpu), read_instruction(text, 0, 0)
    cycles = mma_cycles(i, parameters_of(found).sm)
    return 2 * 16 * 8 * k / cycles * 4 * found.sms * found.boost_mhz / 1e6


@pytest.mark.parametrize(
    ("gpu", "fp32", "fp16", "int8"),
    [("RTX 4090", 165.2, 330.3, 660.6), ("RTX 3090", 71, 142, 284), ("RTX A6000", 154.8, 154.8, 309.7)],
)
def test_peaks_of_data_sheets(gpu: str, fp32: float, fp16: float, int8: float) -> None:
    found = tops(gpu, FP32, 16), tops(gpu, FP16, 16), tops(gpu, INT8, 32)
    assert found == pytest.approx((fp32, fp16, int8), rel=0.01)


def test_fp16_accumulators_are_half_as_many_registers() -> None:
    """A has four registers, B two, C four of fp32 and two of fp16; each bank has half of them."""
    assert _reads(read_instruction(FP32, 0, 0), None) == (5, 5)
    assert _reads(read_instruction(FP16, 0, 0), None) == (4, 4)


def test_data_centre_cards_make_no_difference() -> None:
    assert tops("H200", FP16, 16) == tops("H200", FP32, 16)
    assert tops("A100", FP16, 16) == tops("A100", FP32, 16)
