"""The fit of the choice's networks: what times of earlier kernels err by is learnt, and is not shipped."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fit_networks as fit

INPUTS = ("first", "second", "third")


def test_what_earlier_kernels_err_by_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EPOCHS", 100), ("SHAPES_AT_ONCE", 10), ("DECAY", 0.02), ("HIDDEN", (32, 16))):
        monkeypatch.setattr(fit, name, value)
    dice = np.random.default_rng(0)
    table, of = dice.normal(size=(240, 3)), np.repeat(np.arange(60), 4)
    earlier = (of % 2).astype(float)
    wanted = 0.1 * table[:, 0] + 0.2 * earlier * table[:, 2]
    networks = fit.fitted_networks(fit.Rows(INPUTS, table, wanted, np.ones(240), of, earlier), 3)
    asked = dice.normal(size=(200, 3))
    found = networks({name: asked[:, i] for i, name in enumerate(INPUTS)})
    slopes = np.linalg.lstsq(np.column_stack([asked, np.ones(200)]), found, rcond=None)[0]
    assert slopes[:3] == pytest.approx([0.1, 0.0, 0.0], abs=0.03)
