"""The published figures are read as they stand, and belong to rungs that exist."""

from __future__ import annotations

import math

from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rungs
from gemmsmith.store.published import published, published_for


def test_every_figure_names_a_rung_and_a_gpu_that_we_know() -> None:
    names = {spec.name for spec in rungs()} | {"baseline"}
    assert len(published()) == 41
    for figure in published():
        assert figure.kernel in names
        assert gpu_named(figure.gpu).name == figure.gpu


def test_times_and_rates_agree() -> None:
    for figure in published():
        if not math.isnan(figure.ms) and not math.isnan(figure.gflops):
            # Times and rates were rounded by their authors, the shortest to three digits.
            assert math.isclose(2 * figure.size**3 / figure.ms / 1e6, figure.gflops, rel_tol=0.02), figure


def test_a_figure_without_a_rate_has_one_from_its_time() -> None:
    (timed,) = (p for p in published_for("vectorized") if p.source == "A6000 profiling worklog")
    assert math.isclose(timed.tflops, 2 * 4096**3 / 7.57e-3 / 1e12)


def test_sweeps_are_left_out_of_a_rungs_figures() -> None:
    assert [p.source for p in published_for("rectangular")] == ["RTX 3050 worklog"]
