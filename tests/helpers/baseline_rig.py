"""What the tests of the baselines share: problems, fakes in place of the libraries, and what a product leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from baseline_fakes import FakeCublas, FakeDevice, FakeLt, FakeTorch, FakeTriton, Operands

from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.run.baselines import (
    cublas,
    cublas_by_torch,
    cublas_by_wheel,
    cublaslt,
    lt_calls,
    triton_contender,
)

LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
PAIRS = [(FP32, FP32), (FP16, FP32), (FP16, FP16), (BF16, FP32), (BF16, BF16)]
PROBLEMS = [
    Problem(5, 7, 3, dtype, out, alpha, beta, trans_a=ta, trans_b=tb)
    for ta, tb in LAYOUTS
    for dtype, out in PAIRS
    for alpha, beta in ((1.0, 0.0), (0.5, -2.0))
]
SMALL = Problem(4, 6, 5)
STREAM = 77


def use_torch(monkeypatch: pytest.MonkeyPatch, torch: FakeTorch) -> FakeTorch:
    monkeypatch.setattr(cublas, "usable_torch", lambda: torch)
    monkeypatch.setattr(triton_contender, "usable_torch", lambda: torch)
    monkeypatch.setattr(cublas_by_torch, "load", lambda _name: SimpleNamespace(version="13.1.0.3"))
    return torch


def use_cublas(monkeypatch: pytest.MonkeyPatch, fake: FakeCublas) -> FakeCublas:
    monkeypatch.setattr(cublas_by_wheel, "load", lambda _name: fake)
    return fake


def use_lt(monkeypatch: pytest.MonkeyPatch, fake: FakeLt, times: dict[int, float] | None = None) -> FakeLt:
    """Times candidates by their number; the last launched one is being timed."""
    monkeypatch.setattr(lt_calls, "load", lambda _name: fake)
    monkeypatch.setattr(cublaslt, "seconds", lambda *_: (times or {}).get(fake.launched[-1], 1.0))
    return fake


def check_products(operands: Operands, enqueue: Callable[[int], None]) -> None:
    """``prepare`` wrote to no C, and each product is written to its own set."""
    for index, before in enumerate(operands.before):
        np.testing.assert_array_equal(operands.c(index), before)
    enqueue(1)
    np.testing.assert_array_equal(operands.c(0), operands.before[0])
    enqueue(0)
    for index, expected in enumerate(operands.expected):
        np.testing.assert_array_equal(operands.c(index), expected)


def use_triton(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, **options: Any) -> FakeTriton:
    use_torch(monkeypatch, FakeTorch(device))
    fake = FakeTriton(**options)
    monkeypatch.setitem(sys.modules, "triton", fake)
    monkeypatch.setitem(sys.modules, "gemmsmith.run.baselines.triton_kernel", SimpleNamespace(gemm=fake))
    return fake
