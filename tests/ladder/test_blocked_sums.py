"""What blocked summation is worth at a deep K. That it has the bits it should have: test_stand_in.py."""

from __future__ import annotations

import numpy as np
from rung_launch import launched

from gemmsmith.fills import Operands
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem

BLOCKED = rung_named("fp32_wgmma_bf16x6")
K_TILES = 48  # six blocks of 8


def errors(problem: Problem, data: Operands, blocked: int) -> np.ndarray:
    config = BLOCKED.config(dict(BLOCKED.small) | {"BLOCKED_SUMS": blocked})
    exact = data.a.astype(float) @ data.b.astype(float)
    return np.abs(launched(BLOCKED, config, problem, data) - exact) / exact * 2**24


def test_of_a_deep_k_with_sums_that_grow_much_of_the_error_is_gone() -> None:
    problem = Problem(8, 64, 64 * K_TILES, dtype=FP32)
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(1, 2, shape).astype(np.float32) for shape in (problem.a_shape, problem.b_shape))
    data = Operands(a, b, np.zeros(problem.c_shape, np.float32))
    plain, blocked = (errors(problem, data, each) for each in (0, 1))
    assert blocked.max() < 0.75 * plain.max()
    assert np.sqrt((blocked**2).mean()) < 0.75 * np.sqrt((plain**2).mean())
