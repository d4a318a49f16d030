"""Arithmetic modulo 2³²: order cannot matter there, so every fp32 rung agrees with the plain product, bit for bit.

Random 32-bit patterns leave no room for luck: one term dropped, doubled or misplaced changes every bit of an output.
"""

from __future__ import annotations

import pytest
from rung_launch import FP32_RUNGS, problem_of, small, tile, verified

from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.shapes import fuzz_shapes
from gemmsmith.sim.device import SimDevice


@pytest.mark.parametrize("scalars", [(1.0, 0.0), (0.7, -1.5), (0.0, 2.0)], ids=str)
@pytest.mark.parametrize("name", FP32_RUNGS)
def test_around_the_tile(name: str, scalars: tuple[float, float]) -> None:
    spec, config = small(name)
    bm, bn, bk = tile(name)
    for shape in ((bm, bn, bk), (bm + 1, bn - 1, 2 * bk + 1), (1, bn + 1, bk - 1)):
        problem = problem_of(name, shape).with_(alpha=scalars[0], beta=scalars[1])
        verified(spec, config, problem, device=SimDevice(mod32=True), mode="mod32")


@pytest.mark.parametrize("shape", fuzz_shapes(4, seed=20, largest=90), ids=str)
@pytest.mark.parametrize("name", FP32_RUNGS)
def test_random_shapes(name: str, shape: tuple[int, int, int]) -> None:
    spec, config = small(name)
    problem = problem_of(name, shape).with_(beta=1.0)
    verified(spec, config, problem, device=SimDevice(mod32=True), mode="mod32", seed=sum(shape))


@pytest.mark.parametrize("name", FP32_RUNGS)
def test_the_default_configuration(name: str) -> None:
    spec = rung_named(name)
    verified(spec, spec.config(), problem_of(name, (70, 131, 37)), device=SimDevice(mod32=True), mode="mod32")


def test_it_can_fail() -> None:
    """A simulator that rounds is not one that counts modulo 2³²."""
    spec, config = small("naive")
    with pytest.raises(AssertionError, match="WRONG"):
        verified(spec, config, problem_of("naive", (9, 9, 9)), device=SimDevice(), mode="mod32")


def test_16_bit_inputs_are_refused() -> None:
    spec, config = small("warp_tile_mixed")
    with pytest.raises(UsageError, match="mod32"):
        verified(spec, config, problem_of("warp_tile_mixed", (9, 9, 9)), device=SimDevice(mod32=True), mode="mod32")
