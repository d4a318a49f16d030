"""A GPU's limits; a result above them is rejected as wrong.

Two limits. Compute: SMs × clock × operations per clock, in the arithmetic used. Memory: a rotation over F bytes with
an L2 of L bytes must move at least F − L bytes per cycle through DRAM, because at most L bytes remain cached from the
cycle before. Results are compared with the data-sheet peak, but rejected only above the peak at the GPU's highest
clock, which on some GPUs exceeds the data sheet's clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.gpus import GPU, rate_unit
from gemmsmith.problem import Problem

# Event timers resolve half a microsecond, and a sample lasts at least a millisecond.
_TIMER = 0.01


@dataclass(frozen=True)
class Limits:
    """One GPU's limits; if ``gpu`` is None (not in the table) no limit is known and nothing is rejected.

    max_mhz   the highest SM clock reported by the driver; 0 if unknown
    l2_bytes  the L2 size reported by the driver
    """

    gpu: GPU | None
    max_mhz: float = 0.0
    l2_bytes: int = 0

    def peak_tflops(self, precision: str) -> float:
        """The dense data-sheet peak in that arithmetic; NaN if unknown."""
        value = self.gpu.peak_tflops(precision) if self.gpu is not None else 0.0
        return value if value > 0 else math.nan

    def tflops(self, problem: Problem, precision: str) -> float:
        """The roofline: the peak, or the memory-bandwidth limit with each byte moved once."""
        if self.gpu is None or not problem.compulsory_bytes:
            return math.nan
        return min(self.peak_tflops(precision), problem.flops / problem.compulsory_bytes * self.gpu.dram_gbs / 1e3)

    def ceiling_tflops(self, precision: str) -> float:
        """The peak at the highest clock, which no kernel can exceed; NaN if unknown."""
        peak = self.peak_tflops(precision)
        if self.gpu is None or math.isnan(peak):
            return math.nan
        clock = max(self.max_mhz, self.gpu.boost_mhz)
        return max(peak, self.gpu.operations_per_clock(precision) * self.gpu.sms * clock / 1e6)

    def least_cold_seconds(self, set_bytes: int, sets: int) -> float:
        """The shortest possible time of one launch in a rotation over ``sets`` sets; 0 if unknown."""
        if self.gpu is None or not sets:
            return 0.0
        l2 = max(self.l2_bytes, self.gpu.l2_bytes)
        return max(0, set_bytes * sets - l2) / (self.gpu.dram_gbs * 1e9) / sets

    def objection(self, problem: Problem, precision: str, seconds: float, least_seconds: float = 0.0) -> str:
        """Why ``seconds`` for ``problem`` is impossible; empty if it is possible or the limit is unknown."""
        if not seconds > 0:
            return f"a time of {seconds:g} s is impossible" if problem.flops else ""
        reached, ceiling = problem.flops / seconds / 1e12, self.ceiling_tflops(precision)
        if self.gpu is not None and reached > ceiling * (1 + _TIMER):
            unit = rate_unit(precision)
            return f"{reached:.1f} {unit} is above the {precision} limit of {self.gpu.name}, {ceiling:.1f} {unit}"
        if self.gpu is not None and seconds < least_seconds * (1 - _TIMER):
            return (
                f"{seconds * 1e6:.2f} µs is less than the {least_seconds * 1e6:.2f} µs that moving the operands takes "
                f"at the {self.gpu.dram_gbs:.0f} GB/s of {self.gpu.name}"
            )
        return ""
