"""Lanes that add to one address of memory: all sums of an address at once are those of one lane after another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gemmsmith.sim.instructions import atomic
from gemmsmith.sim.instructions.atomic import Form, _update
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.global_memory import GlobalMemory

_FORM = Form("add", Space.GLOBAL, "f32", 1)
_LANES, _PLACES = 96, 12


def _normal(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(_LANES).astype(np.float32)


def _with(value: float) -> Callable[[np.random.Generator], np.ndarray]:
    def made(rng: np.random.Generator) -> np.ndarray:
        values = _normal(rng)
        values[rng.integers(0, _LANES, 5)] = value
        return values

    return made


def _opposite(rng: np.random.Generator) -> np.ndarray:
    values = _normal(rng)
    values[48:] = -values[:48]
    return values


def _added(at: np.ndarray, values: np.ndarray, first: np.ndarray) -> tuple[bytes, bytes]:
    """What each lane found, and what is there in the end."""
    memory = GlobalMemory()
    base = memory.allocate(4 * _PLACES)
    memory.view(base, 4 * _PLACES)[:] = first.view(np.uint8)
    with np.errstate(all="ignore"):
        old = _update(memory, np.uint64(base) + 4 * at.astype(np.uint64), _FORM, Space.GLOBAL, [values])
    return old.tobytes(), memory.view(base, 4 * _PLACES).tobytes()


@pytest.mark.parametrize("made", [_normal, _opposite, _with(1e-39), _with(np.inf), _with(np.nan), _with(3e38),
                                  _with(-0.0)])  # fmt: skip
@pytest.mark.parametrize("places", ["equal numbers", "one place", "unequal numbers"])
def test_sums_are_those_of_one_lane_after_another(
    made: Callable[[np.random.Generator], np.ndarray], places: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    values, first = made(rng), made(rng)[:_PLACES]
    at = {"equal numbers": rng.permutation(np.arange(_LANES) % _PLACES), "one place": np.zeros(_LANES, np.int64),
          "unequal numbers": rng.integers(0, _PLACES, _LANES)}[places]  # fmt: skip
    found = _added(at, values, first)
    monkeypatch.setattr(atomic, "_equal_groups", lambda _: None)
    assert found == _added(at, values, first)


def test_regular_sums_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(_: np.ndarray) -> list[np.ndarray]:
        raise AssertionError("a loop over turns")

    monkeypatch.setattr(atomic, "turns", one_by_one)
    rng = np.random.default_rng(7)
    _added(np.arange(_LANES) % _PLACES, _normal(rng), _normal(rng)[:_PLACES])
    with pytest.raises(AssertionError, match="turns"):
        _added(np.arange(_LANES) % _PLACES, _with(np.nan)(rng), _normal(rng)[:_PLACES])
