"""fp16x3: sums are scaled back by powers of two exactly, and rounded once."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from rung_launch import bits, compiler, launched
from split_fp16_rule import fp16x3_accepts, fp16x3_reference
from test_fp32_tensor import problem
from test_fp32_tensor_fp16x3 import SPLIT, mutated, small

from gemmsmith.fills import Array, Operands
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice


def test_sums_are_scaled_back_exactly_and_rounded_once() -> None:
    """Rows from 2**-149 to 2**120 by columns of the same: results underflow, are subnormal, or infinite."""
    p = problem((64, 64, 40), "NT")
    random = np.random.default_rng(2)
    data = Operands(*(random.standard_normal((64, 40)).astype(np.float32) for _ in range(2)), np.zeros((64, 64), "f4"))
    for operand in (data.a, data.b):
        operand[np.abs(operand) < 0.01] = 1
        operand *= 2.0 ** np.linspace(-147, 124, 64, dtype=np.float32)[random.permutation(64), None]
        operand[3] = 0
    tiny = data.a[np.abs(data.a).max(axis=1) < 2.0**-135]
    assert len(tiny) > 2
    data.a[np.abs(data.a).max(axis=1) < 2.0**-135] = np.sign(tiny) * 2.0**-149  # few bits are left: all of one size
    tiny = data.b[np.abs(data.b).max(axis=1) < 2.0**-135]
    data.b[np.abs(data.b).max(axis=1) < 2.0**-135] = np.sign(tiny) * 2.0**-149
    assert fp16x3_accepts(p, data.a, data.b)
    with np.errstate(all="ignore"):
        expected = fp16x3_reference(p, data.a, data.b, data.c)
    got = launched(*small(), p, data)
    assert np.isinf(got).any()
    assert ((np.abs(got) < 2.0**-126) & (got != 0)).any()
    assert np.array_equal(bits(got), bits(expected))


SCALE = """
#include "tile/split_fp16.cuh"
extern "C" __global__ void scale(const float* sums, const int* exponents, float* out, int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) out[i] = unscale(sums[i], exponents[i]);
}
"""


def scaled(folder: Path, sums: Array, exponents: Array) -> Array:
    """Each sum times its power of two, by the header beside the source or else the package's own."""
    source = folder / "scale.cu"
    source.write_text(SCALE, encoding="utf-8")
    geometry = Geometry((-(-len(sums) // 256), 1, 1), (256, 1, 1))
    spec = KernelSpec("scale", source, "", "", lambda _problem, _config: geometry, entry="scale")
    device = SimDevice()
    out = device.allocate(4 * len(sums))
    addresses = (upload(device, sums[None]), upload(device, exponents[None]), out)
    arguments = (*(struct.pack("<Q", each) for each in addresses), struct.pack("<i", len(sums)))
    loaded = device.load(compiler(spec, spec.config(), Problem(1, 1, 1), device.arch))
    device.launch(loaded, Launch(geometry, arguments))
    return device.read(out, 4 * len(sums)).view(np.float32)


def every_scale() -> tuple[Array, Array, Array]:
    """Sums of every size, by every power of two that rows and columns can have; and what comes of it."""
    random = np.random.default_rng(3)
    exponents = np.repeat(np.arange(-326, 227, dtype=np.int32), 64)
    sums = random.uniform(1, 2, len(exponents)) * random.choice([-1, 1], len(exponents))
    sums = (sums * 2.0 ** random.integers(-48, 61, len(sums))).astype(np.float32)
    sums[::50] = 0
    with np.errstate(over="ignore"):
        return sums, exponents, np.ldexp(sums.astype(np.float64), exponents).astype(np.float32)


def test_any_sum_by_any_power_of_two(tmp_path: Path) -> None:
    sums, exponents, expected = every_scale()
    assert np.isinf(expected).any()
    assert ((np.abs(expected) < 2.0**-126) & (expected != 0)).any()
    assert np.array_equal(bits(scaled(tmp_path, sums, exponents)), bits(expected))


@pytest.mark.parametrize(("right", "wrong"), [
    ("max(-78, min", "max(-126, min"), ("min(127, exponent)", "min(128, exponent)"),
    ("1 << (exponent + 149)", "0"), ("max(-149, exponent", "max(-126, exponent"),
])  # fmt: skip
def test_other_steps_would_round_twice_or_overflow(tmp_path: Path, right: str, wrong: str) -> None:
    mutated(tmp_path, SPLIT, right, wrong)
    sums, exponents, expected = every_scale()
    assert not np.array_equal(bits(scaled(tmp_path, sums, exponents)), bits(expected))
