"""The roofline: the attainable speed given a problem's arithmetic and the bytes that must move.

Two intensities bracket a kernel. DRAM must move at least each input and each output once. L2 serves at most every
sector that the kernel's requests touch, if L1 never hits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.explain.profile import SECTOR, TENSOR, Profile
from gemmsmith.gpus import GPU

OPS = (("ld", "load"), ("st", "store"))


@dataclass(frozen=True)
class Roofline:
    """A kernel's position under one GPU's roof.

    intensity  flop per byte of compulsory DRAM traffic
    ridge      the intensity at which memory and compute limits meet
    bound      'memory' below the ridge, 'compute' above it
    """

    gpu: str
    flops: int
    dram_bytes: int
    l2_bytes: float
    intensity: float
    l2_intensity: float
    ridge: float
    bound: str
    attainable_tflops: float
    origin: str = "predicted"

    @property
    def seconds(self) -> float:
        """The shortest possible time; 0 for a problem without work."""
        return self.flops / self.attainable_tflops / 1e12 if self.flops else 0.0


def roofline(profile: Profile, gpu: GPU) -> Roofline:
    """The position of ``profile``'s problem and traffic on ``gpu``."""
    problem = profile.problem
    upper = SECTOR * sum(profile.sectors(op) + profile.tma(word, "sectors") for op, word in OPS)
    intensity = _per_byte(problem.flops, problem.compulsory_bytes)
    peak = gpu.required_peak(problem.dtype.name if profile.value(TENSOR) > 0 else "fp32")
    ridge = peak * 1e3 / gpu.dram_gbs
    return Roofline(
        gpu=gpu.name,
        flops=problem.flops,
        dram_bytes=problem.compulsory_bytes,
        l2_bytes=upper,
        intensity=intensity,
        l2_intensity=_per_byte(problem.flops, upper),
        ridge=ridge,
        bound="memory" if intensity < ridge else "compute",
        attainable_tflops=min(peak, intensity * gpu.dram_gbs / 1e3),
    )


def _per_byte(flops: int, count: float) -> float:
    return flops / count if count else (math.nan if math.isnan(count) else 0.0)
