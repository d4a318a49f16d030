"""Texture and surface reads give the bits that an H200 gave, and the comparison can fail."""

from __future__ import annotations

import numpy as np
import pytest
from texture_cases import SURFACES, Case, cases, weights
from texture_recording import FILE, SAMPLES, recorded

import gemmsmith
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory import texture_filter

CASES = {case.name: case for case in (weights(SAMPLES), *cases(SAMPLES))}
# Signed bytes with linear filtering are one 32,767th off in some reads: how they are widened is not known.
ONE_OFF = ("1d int8 fractions linear", "2d int8 fractions linear")


def wrong(case: Case) -> int:
    """How many reads differ from the recorded ones."""
    with np.load(FILE) as file:
        expected = file[case.name]
    return int((recorded(SimDevice(), case) != expected).any(axis=1).sum())


def test_every_case_was_recorded() -> None:
    with np.load(FILE) as file:
        assert set(file.files) == set(CASES)


@pytest.mark.parametrize("group", ["1d", "2d", "3d", "other"])
def test_reads_have_the_recorded_bits(group: str) -> None:
    groups = {name: name[:2] if name[:2] in ("1d", "2d", "3d") else "other" for name in CASES if name not in ONE_OFF}
    chosen = [name for name in groups if groups[name] == group]
    assert len(chosen) > 10
    assert {name: count for name in chosen if (count := wrong(CASES[name]))} == {}


@pytest.mark.parametrize("name", ONE_OFF)
def test_signed_bytes_are_within_one_unit(name: str) -> None:
    with np.load(FILE) as file:
        expected = file[name].view(np.float32)
    found = recorded(SimDevice(), CASES[name]).view(np.float32)
    assert np.abs(found - expected).max() <= 1.001 / 32767


@pytest.mark.parametrize(
    ("constant", "value", "name"),
    [("_GUARD", 8, "2d f32 special linear"), ("_NORMALIZED", 2.0**22, "1d f32 wrap normalized point")],
)
def test_another_rule_contradicts_the_recording(
    monkeypatch: pytest.MonkeyPatch, constant: str, value: float, name: str
) -> None:
    monkeypatch.setattr(texture_filter, constant, value)
    assert wrong(CASES[name]) > 0


def test_weights_that_are_not_rounded_contradict_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texture_filter, "_rounded", lambda product, up: product >> 8)  # noqa: ARG005
    assert wrong(CASES["2d f32 linear"]) > 0


def test_surfaces_beyond_their_edges() -> None:
    """Zero reads 0 and drops writes; clamp takes the nearest texel."""
    rng, n = np.random.default_rng(5), 256
    line, image = rng.standard_normal(13).astype(np.float32), rng.standard_normal((9, 13)).astype(np.float32)
    quads = rng.integers(0, 256, (9, 13, 4)).astype(np.uint8)
    at = np.stack([rng.integers(-3, 17, n), rng.integers(-3, 13, n)]).astype(np.int32)
    two, four = gemmsmith.surface(image), gemmsmith.surface(quads, channels=4)
    outputs = np.zeros((4, n), np.float32), np.zeros((2, n, 4), np.uint8)
    result = gemmsmith.launch(SURFACES, "surfaces", grid=1, block=n,
                              args=[gemmsmith.surface(line), two, four, at, *outputs, n])  # fmt: skip
    x, y = (np.clip(each, 0, size - 1) for each, size in zip(at, (13, 9), strict=True))
    in_x, in_y = x == at[0], y == at[1]
    assert np.array_equal(result["out"], [np.where(in_x, line[x], 0), line[x],
                                          np.where(in_x & in_y, image[y, x], 0), image[y, x]])  # fmt: skip
    assert np.array_equal(result["quads"][0], quads[y, x])
    assert np.array_equal(result["quads"][1], np.where((in_x & in_y)[:, None], quads[y, x], 0))
    written = gemmsmith.launch(SURFACES, "writes", grid=1, block=32, args=[two, four, at, n])
    for i in range(n):
        if in_x[i] and in_y[i]:
            image[y[i], x[i]] = i
        quads[y[i], x[i]] = np.arange(i, i + 4)
    assert np.array_equal(written["two"], image)
    assert np.array_equal(written["bytes"], quads)
