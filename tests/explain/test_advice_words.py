"""Advice by what the source has: neighbouring elements per thread, and launch bounds that leave too few registers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from explained import profiled, sass

from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.diagnosis import diagnose
from gemmsmith.explain.pattern_words import coalescing_fix
from gemmsmith.explain.register_limit import SPILLS, with_register_limit
from gemmsmith.gpus import gpu_named

BOUNDS = "__launch_bounds__(64, 16)"


def pattern(*lanes: int, width: int = 4, writes: bool = False) -> AccessPattern:
    return AccessPattern("global", writes, width, "B", "k.cu", 8, "", "", "", 100, 10, lanes)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (pattern(*range(0, 512, 16)), "load them as one vector of 16 bytes"),
        (pattern(*(16 * (lane % 16) for lane in range(32))), "Each thread has 4 neighbouring elements"),
        (pattern(*range(0, 256, 8), writes=True), "store them as one vector of 8 bytes"),
        (pattern(*range(0, 32 * 4096, 4096)), "let threadIdx.x choose the column"),
        (None, "let threadIdx.x choose the column"),
    ],
)
def test_neighbouring_elements_of_a_thread_are_no_reason_to_swap_x_and_y(
    found: AccessPattern | None, says: str
) -> None:
    told = coalescing_fix(found)
    assert says in told
    assert ("swap x and y" in told) == ("threadIdx.x" in says)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (f"__global__ void {BOUNDS}\nmine(float* C) {{", f"`{BOUNDS}` (mine.cu:2) asks for 16"),
        ("template <int T>\n__global__ __launch_bounds__(T * T) void mine(float* C) {", "`__launch_bounds__(T * T)`"),
        (f"__global__ void {BOUNDS} other(float* C) {{}}\n__global__ void mine(float* C) {{", "Allow more"),
        ("__global__ void mine(float* C) {", "Allow more registers"),
    ],
)  # fmt: skip
def test_spills_name_the_launch_bounds_of_their_kernel(head: str, says: str) -> None:
    profile = profiled("vectorized", 256, 256, 256)
    spilled = replace(profile.resources, spill_stores=16, spill_loads=16)
    found = diagnose(replace(profile, resources=spilled), sass("vectorized"), gpu_named("H200"))
    named = with_register_limit(found, f"// a kernel\n{head}\n}}\n", "mine", "mine.cu")
    (finding,) = [each for each in named.findings if each.kind == SPILLS]
    assert says in finding.fix
