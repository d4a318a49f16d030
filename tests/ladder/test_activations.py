"""ReLU, SiLU and GELU as the kernels compute them: against float64, at the limits, and bit for bit on the simulator.

The functions are written down a second time here, in NumPy, with the coefficients read from the header. The
simulator must agree with that to the last bit, so the accuracy measured here is the kernels'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.ladder.registry import rungs
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.fma import fma32

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
HEADER = rungs()[0].source.parent / "include" / "epilogue" / "activation.cuh"
SOURCE = """#include "activation.cuh"
extern "C" __global__ void apply(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = activate<KIND>(x[i]);
}
"""
KINDS = {"relu": 1, "gelu": 2, "silu": 3}
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 3e38, -3e38, 1e-40, -1e-40, 1.0, -1.0, 16.0, -16.0, 128.0, -128.0)


@cache
def coefficients(name: str) -> tuple[np.float32, ...]:
    found = re.search(rf"constexpr float {name}\[\] = {{([^}}]*)}}", HEADER.read_text(encoding="utf-8"))
    assert found is not None
    return tuple(np.float32(text.strip().rstrip("f")) for text in found.group(1).split(","))


def number(value: float) -> np.float32:
    return np.float32(value)


def polynomial(x: F32, name: str) -> F32:
    terms = coefficients(name)
    total = np.full_like(x, terms[-1])
    for term in terms[-2::-1]:
        total = fma32(total, x, np.asarray(term))
    return total


def exp_of_negative(x: F32) -> F32:
    shift = number(12582912.0)
    n = fma32(x, np.asarray(number(1.44269504)), np.asarray(shift)) - shift
    r = fma32(n, np.asarray(number(-0.693145752)), x)
    r = fma32(n, np.asarray(number(-1.42860677e-6)), r)
    exponent = np.where(np.isnan(n), 0, n).astype(np.int32)
    half = exponent >> 1
    first, second = (((e + 127) << 23).astype(np.int32).view(np.float32) for e in (half, exponent - half))
    return polynomial(r, "Q") * first * second


def relu(x: F32) -> F32:
    return np.where(x < 0, number(0), x).astype(np.float32)


def silu(x: F32) -> F32:
    start = np.where(x < -128, number(-128), x)
    size = np.where(np.abs(start) > 128, number(128), np.abs(start))
    e = exp_of_negative(-size)
    above: F32 = np.where(start < 0, start * e, start)
    return above / (number(1) + e)


def distribution(x: F32) -> F32:
    size = np.where(np.abs(x) > 16, number(16), np.abs(x))
    u = number(1) / fma32(size, np.asarray(number(0.4)), np.asarray(number(1)))
    tail = polynomial(u, "T") * u * exp_of_negative(size * number(-0.5) * size)
    near = fma32(x, polynomial(size * size, "S"), np.asarray(number(0.5)))
    return np.where(size < 1, near, np.where(x < 0, tail, number(1) - tail))


def gelu(x: F32) -> F32:
    start = np.where(x < -16, number(-16), x)
    return start * distribution(start)


TRANSCRIBED: dict[str, Callable[[F32], F32]] = {"relu": relu, "gelu": gelu, "silu": silu}


def dense() -> F32:
    """Everywhere that something happens, ends of intervals included."""
    parts = (np.linspace(-20, 20, 40001), np.linspace(-1.01, 1.01, 20001), np.linspace(-140, 140, 10001))
    return np.concatenate(parts).astype(np.float32)


def normal_distribution(x: F32) -> F64:
    return np.array([0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in x])


@cache
def compiled(name: str) -> CompiledKernel:
    request = CompileRequest("apply.cu", SOURCE, (("activation.cuh", HEADER.read_text(encoding="utf-8")),),
                             (("KIND", str(KINDS[name])),), "sm_90", "apply")  # fmt: skip
    return compile_request(request, find_toolchain())


def simulated(name: str, x: F32) -> F32:
    device = SimDevice()
    source, target = device.allocate(x.nbytes), device.allocate(x.nbytes)
    device.write(source, x.view(np.uint8))
    arguments = (source.to_bytes(8, "little"), target.to_bytes(8, "little"), x.size.to_bytes(4, "little"))
    device.launch(device.load(compiled(name)), Launch(Geometry((-(-x.size // 256), 1, 1), (256, 1, 1)), arguments))
    return device.read(target, x.nbytes).view(np.float32)


@pytest.mark.parametrize("name", KINDS)
def test_the_simulator_gives_the_same_bits(name: str) -> None:
    x = np.concatenate([dense()[::7], np.array(SPECIAL, np.float32)])
    with np.errstate(all="ignore"):
        expected = TRANSCRIBED[name](x)
    got = simulated(name, x)
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(got), nan)
    assert np.array_equal(got.view(np.uint32)[~nan], expected.view(np.uint32)[~nan])


@pytest.mark.parametrize("name", KINDS)
def test_no_instruction_is_approximate(name: str) -> None:
    assert not re.search(r"\.(approx|ftz|full)\b", compiled(name).ptx)


def test_the_exponential_errs_by_little_more_than_one_unit() -> None:
    x = -np.abs(dense())
    exact = np.exp(x.astype(np.float64))
    normal = exact > 2.0**-126
    with np.errstate(under="ignore"):
        error = np.abs(exp_of_negative(np.maximum(x, number(-128))) - exact)
    assert (error[normal] / exact[normal]).max() <= 1.3 * 2.0**-24
    assert error[~normal].max() <= 2.0**-149  # one subnormal step


def test_erf_is_right_to_2e_7() -> None:
    """erf(x/√2) is 2·Φ(x) − 1, so Φ must be right to half as much."""
    x = dense()
    with np.errstate(under="ignore"):
        assert np.abs(distribution(x) - normal_distribution(x)).max() <= 0.9e-7


def test_gelu_errs_by_two_units_of_its_argument() -> None:
    x = dense()
    wide = x.astype(np.float64)
    with np.errstate(under="ignore"):
        error = np.abs(gelu(x) - wide * normal_distribution(x))
    assert (error / np.maximum(np.abs(wide), 1)).max() <= 2 * 2.0**-24
    assert error[x < 0].max() <= 0.7e-7


def test_silu_errs_by_few_units() -> None:
    x = dense()
    wide = x.astype(np.float64)
    exact = wide / (1 + np.exp(-wide))
    with np.errstate(under="ignore"):
        error = np.abs(silu(x) - exact)
    normal = np.abs(exact) > 2.0**-100
    assert (error[normal] / np.abs(exact[normal])).max() <= 4 * 2.0**-24
    assert error[~normal].max() <= 2.0**-120


@pytest.mark.parametrize("name", KINDS)
def test_the_limits(name: str) -> None:
    got = simulated(name, np.array([math.nan, math.inf, -math.inf, 0.0, 3e38, -3e38], np.float32))
    assert np.isnan(got[0])
    assert got[1] == math.inf
    assert got[2] == 0
    assert got[3] == 0
    assert got[4] == np.float32(3e38)
    assert got[5] == 0
