"""fma.rn.f64 is rounded once, also where the product needs no more than 53 bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gemmsmith.sim.arithmetic import exact64

_KINDS = ["integers", "singles", "doubles", "one double among singles"]


@pytest.mark.parametrize("kind", _KINDS)
def test_finite_values_are_rounded_once(kind: str) -> None:
    rng = np.random.Generator(np.random.PCG64(64))
    a, b, c = (rng.standard_normal(200) * 2.0 ** rng.integers(-30, 30, 200) for _ in range(3))
    if kind == "integers":
        a, b, c = (rng.integers(-300, 300, 200).astype(np.float64) for _ in range(3))
    elif kind != "doubles":
        a, b = (x.astype(np.float32).astype(np.float64) for x in (a, b))
    if kind == "one double among singles":
        a[17], b[17], c[17] = 1 + 2.0**-52, 1 + 2.0**-52, -1 - 2.0**-51
    expected = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert exact64.fma(a, b, c).tolist() == expected


def test_signs_of_zero_infinities_and_nan() -> None:
    inf, nan = np.inf, np.nan
    a, b, c = np.array([(0.0, 5.0, -0.0), (-0.0, 5.0, -0.0), (inf, 2.0, 1.0), (inf, 0.0, 1.0), (3.0, 2.0, -inf),
                        (inf, 2.0, -inf), (1.0, 1.0, nan), (1e300, 1e300, -inf), (3e38, 3e38, 1.0)]).T  # fmt: skip
    with np.errstate(all="ignore"):
        found = exact64.fma(a, b, c)
    expected = np.array([0.0, -0.0, inf, nan, -inf, nan, nan, -inf, 3e38 * 3e38])
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.signbit(found[:2]).tolist() == [False, True]
