"""Medians, their intervals and the stop rule, checked by counting and by coverage."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from gemmsmith.bench.statistics import LEAST_SAMPLES, estimate, interval_ranks, known, quantile, speed_ratio


@pytest.mark.parametrize(
    ("samples", "median"), [([3.0], 3.0), ([4.0, 1.0], 2.5), ([9.0, 1.0, 5.0], 5.0), ([1.0, 2.0, 3.0, 100.0], 2.5)]
)
def test_median(samples: list[float], median: float) -> None:
    assert estimate(samples).median == median


def test_spread_is_the_interquartile_range_over_the_median() -> None:
    assert estimate([float(i) for i in range(1, 102)]).spread == pytest.approx(50 / 51)
    assert estimate([7.0] * 5).spread == 0


def test_quantiles_agree_with_numpy() -> None:
    values = sorted(np.random.default_rng(0).normal(10, 1, 37))
    for part in (0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0):
        assert quantile(values, part) == pytest.approx(np.quantile(values, part))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 8, 10, 11, 20, 25, 50, 100, 101, 999])
def test_the_interval_is_the_narrowest_symmetric_one_of_95_per_cent(count: int) -> None:
    low, high = interval_ranks(count)

    def outside(rank: int) -> float:
        """The probability that the median is below the order statistic of that rank (from 0), twice."""
        return 2 * sum(comb(count, i) for i in range(rank + 1)) / 2**count

    assert 0 <= low <= high == count - 1 - low
    if count >= 6:
        assert outside(low) <= 0.05
    assert outside(low + 1) > 0.05


@pytest.mark.parametrize(("count", "ranks"), [(5, (0, 4)), (6, (0, 5)), (10, (1, 8)), (25, (7, 17)), (100, (39, 60))])
def test_tabulated_ranks(count: int, ranks: tuple[int, int]) -> None:
    assert interval_ranks(count) == ranks


def test_the_interval_covers_the_median_of_a_skewed_distribution() -> None:
    rng = np.random.default_rng(3)
    runs = [estimate(list(rng.exponential(1.0, 30))) for _ in range(2000)]
    covered = sum(run.low <= np.log(2) <= run.high for run in runs) / len(runs)
    assert 0.94 < covered < 0.98  # 30 samples give 95.7 %


def test_the_stop_rule_needs_samples_and_a_narrow_interval() -> None:
    assert not known([1.0] * (LEAST_SAMPLES - 1), 0.01)
    assert known([1.0] * LEAST_SAMPLES, 0.01)
    wide = [1.0, 1.1] * 10
    assert not known(wide, 0.01)
    assert known(wide, 0.06)


def test_ratios_use_common_rounds() -> None:
    ours = {0: 1.0, 1: 2.0, 2: 4.0, 7: 1e9}
    theirs = {0: 1.5, 1: 3.0, 2: 6.0, 5: 1e-9}
    found = speed_ratio(ours, theirs)
    assert found is not None
    assert (found.median, found.samples) == (1.5, 3)
    assert speed_ratio({0: 1.0}, {1: 1.0}) is None


def test_order_does_not_matter() -> None:
    values = list(np.random.default_rng(5).normal(1, 0.1, 40))
    assert estimate(values) == estimate(sorted(values)) == estimate(values[::-1])
