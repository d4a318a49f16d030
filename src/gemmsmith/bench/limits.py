"""What a GPU can do at most, and which results are therefore wrong.

Two limits. The arithmetic: SMs × clock × operations per clock, in the arithmetic that was used. The memory: a
rotation over F bytes through an L2 of L bytes must move F − L bytes over the memory bus in each cycle, because no more
than L can be there from the cycle before. The data sheet's peak is what a result is compared with; it is rejected only
above what the silicon can do at its highest clock, which on some GPUs is above the clock of the data sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.gpus import GPU, rate_unit
from gemmsmith.problem import Problem

# A GPU's event timer resolves half a microsecond, and a sample lasts a millisecond or more.
_TIMER = 0.01


@dataclass(frozen=True)
class Limits:
    """One GPU's limits; ``gpu`` is None where it is not in the table, and then nothing is known or rejected.

    max_mhz   the highest SM clock, as the driver reports it; 0 where it is not known
    l2_bytes  as the driver reports it
    """

    gpu: GPU | None
    max_mhz: float = 0.0
    l2_bytes: int = 0

    def peak_tflops(self, precision: str) -> float:
        """The data sheet's peak in that arithmetic, dense; NaN where unknown."""
        value = self.gpu.peak_tflops(precision) if self.gpu is not None else 0.0
        return value if value > 0 else math.nan

    def tflops(self, problem: Problem, precision: str) -> float:
        """The roofline: the peak, or what the memory bandwidth allows with each byte moved once."""
        if self.gpu is None or not problem.compulsory_bytes:
            return math.nan
        return min(self.peak_tflops(precision), problem.flops / problem.compulsory_bytes * self.gpu.dram_gbs / 1e3)

    def ceiling_tflops(self, precision: str) -> float:
        """What no kernel can exceed: the peak at the highest clock. NaN where unknown."""
        peak = self.peak_tflops(precision)
        if self.gpu is None or math.isnan(peak):
            return math.nan
        clock = max(self.max_mhz, self.gpu.boost_mhz)
        return max(peak, self.gpu.operations_per_clock(precision) * self.gpu.sms * clock / 1e6)

    def least_cold_seconds(self, set_bytes: int, sets: int) -> float:
        """The least time of one launch of a rotation over ``sets`` sets; 0 where nothing is known."""
        if self.gpu is None or not sets:
            return 0.0
        l2 = max(self.l2_bytes, self.gpu.l2_bytes)
        return max(0, set_bytes * sets - l2) / (self.gpu.dram_gbs * 1e9) / sets

    def objection(self, problem: Problem, precision: str, seconds: float, least_seconds: float = 0.0) -> str:
        """Why ``seconds`` for ``problem`` is impossible; empty where it is not, or where the limit is unknown."""
        if not seconds > 0:
            return f"a time of {seconds:g} s is impossible" if problem.flops else ""
        reached, ceiling = problem.flops / seconds / 1e12, self.ceiling_tflops(precision)
        if self.gpu is not None and reached > ceiling * (1 + _TIMER):
            unit = rate_unit(precision)
            return f"{reached:.1f} {unit} is above the {ceiling:.1f} that {self.gpu.name} can do in {precision}"
        if self.gpu is not None and seconds < least_seconds * (1 - _TIMER):
            return (
                f"{seconds * 1e6:.2f} µs is less than the {least_seconds * 1e6:.2f} µs that its operands need "
                f"over the {self.gpu.dram_gbs:.0f} GB/s of {self.gpu.name}'s memory"
            )
        return ""
