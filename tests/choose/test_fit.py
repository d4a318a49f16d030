"""Fitting the cost model's constants to measured times."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from cost_cases import CHIP, FITTED, LARGE, SPLIT, seconds

from gemmsmith.choose.constants import CONSTANTS, Constants
from gemmsmith.choose.fit import LEAST_SAMPLES, Sample, fit
from gemmsmith.choose.key import KIND, ShapeKey
from gemmsmith.kernel.renamed import DIRECT
from gemmsmith.problem import BF16, Problem


def samples(truth: Constants, noise: float = 0.0) -> list[Sample]:
    rng = np.random.Generator(np.random.PCG64(3))
    large = LARGE | {"STORE_MODE": DIRECT, "STORE_BOXES": 0}
    found = []
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 512), (256, 256, 8192), (16, 8192, 8192), (128, 128, 64)):
        for config in (large, large | {"CLUSTER_M": 1}, large | {"BM": 64, "BN": 64, "CONSUMERS": 1}, SPLIT,
                       SPLIT | {"SPLIT": 1}, SPLIT | {"BN": 16, "SWAP": 1, "STAGES": 8}):  # fmt: skip
            problem = Problem(m, n, k, BF16)
            time = seconds(problem, config, constants=truth) * math.exp(noise * rng.standard_normal())
            found.append(Sample(ShapeKey(KIND, 4, "NN", m, n, k), tuple(config.items()), time))
    return found


def test_a_fit_recovers_the_constants_behind_the_times() -> None:
    truth = Constants(clock=1.7e9, dram=3e12, launch=4e-6, latency=2e-6)
    before = fit(samples(truth)[: LEAST_SAMPLES - 1], CHIP)
    assert before.constants == Constants(), "too few samples"
    assert before.error > 0.1
    found = fit(samples(truth), CHIP)
    assert found.samples == 30
    assert found.error < 0.01
    for name in ("clock", "dram", "launch"):
        assert getattr(found.constants, name) == pytest.approx(getattr(truth, name), rel=0.1), name


@pytest.mark.parametrize("layout", ["NT", "NN", "TN"])
def test_a_fit_knows_which_shapes_are_half_aligned(layout: str) -> None:
    """From their extents: tuned matrices are contiguous."""
    problem = Problem(4096, 4096, 4104, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    bits = {"NT": 24, "NN": 8, "TN": 0}[layout]
    configs = (LARGE, LARGE | {"BM": 64, "CLUSTER_M": 1}, LARGE | {"BN": 64})
    key = ShapeKey(KIND, 4, layout, 4096, 4096, 4104)
    made = [Sample(key, tuple(config.items()), seconds(problem, config, bits, FITTED)) for config in configs]
    assert fit(made, CHIP, FITTED).error < 1e-9


def test_noise_appears_as_error() -> None:
    found = fit(samples(Constants(), noise=0.05), CHIP)
    assert 0.02 < found.error < 0.07
    assert found.constants.clock == pytest.approx(Constants().clock, rel=0.2)


def test_a_shape_counts_once_and_slow_configurations_little() -> None:
    """With so many samples that the pull towards the start does not matter."""
    noisy = samples(Constants(), noise=0.1)
    one, others = ([s for s in noisy if (s.key.m == 16) is which] for which in (True, False))
    usual = fit(noisy * 20, CHIP)
    slow = [replace(s, seconds=s.seconds * 30) for s in one]
    for more in ([*one, *others * 20], [*noisy * 20, *slow * 20]):
        found = fit(more, CHIP)
        assert found.error == pytest.approx(usual.error, rel=0.01)
        assert found.constants.clock == pytest.approx(usual.constants.clock, rel=0.01)


def test_a_constant_that_no_sample_depends_on_stays() -> None:
    never_split = [s for s in samples(Constants(dram=3e12)) if dict(s.config).get("SPLIT", 1) == 1]
    found = fit([*never_split, *never_split], CHIP)
    assert found.constants.reduction == pytest.approx(Constants().reduction)
    assert all(getattr(found.constants, name) > 0 for name in CONSTANTS)


def test_without_samples_nothing_is_fitted() -> None:
    found = fit([], CHIP, Constants(dram=1e12))
    assert found.constants.dram == 1e12
    assert math.isnan(found.error)
