"""Counts of rungs that can be computed by hand, and the other fields of a profile."""

from __future__ import annotations

import json
import math

import pytest
from explained import LADDER, profiled

from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.profile import CONFLICTS, FFMA, REQUESTS, WARPS, Profile, to_json

N = 128
FMAS = N**3 // 32  # warp-wide multiply-adds
SLICES = (N // 32) ** 3  # 32×32 tiles of A (or B) that a tiled kernel loads


def counts(profile: Profile) -> dict[str, float]:
    shared = {f"shared {op} requests": profile.value(REQUESTS[op]) for op in ("ld", "st")}
    waves = {f"shared {op} wavefronts": profile.wavefronts(op) for op in ("ld", "st")}
    return {
        "load requests": profile.requests("ld"), "load sectors": profile.sectors("ld"),
        "store requests": profile.requests("st"), "store sectors": profile.sectors("st"), **shared, **waves,
        "conflicts": sum(profile.value(CONFLICTS[op]) for op in ("ld", "st")), "barriers": profile.barriers,
    }  # fmt: skip


BY_HAND = {
    # A: 32 rows, a sector each; B: one address. The store goes down a column, too.
    "naive": {
        "load requests": 2 * FMAS, "load sectors": (32 + 1) * FMAS, "store requests": N * N // 32,
        "store sectors": N * N, "shared ld requests": 0, "shared st requests": 0, "shared ld wavefronts": 0,
        "shared st wavefronts": 0, "conflicts": 0, "barriers": 0,
    },
    # A: one address; B: 32 neighbours, four sectors.
    "coalesced": {
        "load requests": 2 * FMAS, "load sectors": (1 + 4) * FMAS, "store requests": N * N // 32,
        "store sectors": N * N // 8, "shared ld requests": 0, "shared st requests": 0, "shared ld wavefronts": 0,
        "shared st wavefronts": 0, "conflicts": 0, "barriers": 0,
    },
    # 32 warps load a row of each tile. For four k: one LDS.128 of A (one address, two wavefronts), four LDS.32 of B.
    "shared_tile": {
        "load requests": 2 * 32 * SLICES, "load sectors": 4 * 2 * 32 * SLICES, "store requests": N * N // 32,
        "store sectors": N * N // 8, "shared ld requests": 5 * FMAS // 4, "shared st requests": 2 * 32 * SLICES,
        "shared ld wavefronts": 6 * FMAS // 4, "shared st wavefronts": 2 * 32 * SLICES, "conflicts": 0,
        "barriers": 2 * 32 * SLICES,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_counts_computed_by_hand(name: str) -> None:
    assert counts(profiled(name, N, N, N)) == BY_HAND[name]


@pytest.mark.parametrize("name", LADDER)
def test_every_rung_executes_exactly_its_multiply_adds(name: str) -> None:
    profile = profiled(name, N, N, N)
    assert profile.value(FFMA) == N**3
    assert dict(profile.mix)["multiply-add"] == FMAS
    assert dict(profile.machine_mix)["multiply-add"] == FMAS
    assert profile.value(WARPS) == profile.geometry.blocks * profile.geometry.threads / 32
    assert profile.active_lanes == 32
    assert profile.branch_efficiency == 100


@pytest.mark.parametrize(
    ("name", "used"), [("naive", (4.0, 4.0)), ("coalesced", ((4 + 128) / 5, 32.0)), ("vectorized", (32.0, 16.0))]
)
def test_bytes_used_of_each_sector(name: str, used: tuple[float, float]) -> None:
    assert profiled(name, N, N, N).bytes_per_sector == pytest.approx(used)


def test_a_sector_has_at_most_32_used_bytes() -> None:
    for name in LADDER:
        assert all(0 < used <= 32 for used in profiled(name, N, N, N).bytes_per_sector), name


@pytest.mark.parametrize("name", LADDER)
def test_lines_sum_to_the_kernel(name: str) -> None:
    profile = profiled(name, N, N, N)
    for metric in METRICS:
        if not metric.hardware_only and metric.name != WARPS:
            assert sum(dict(line.metrics).get(metric.name, 0) for line in profile.lines) == profile.value(metric.name)


def test_lines_carry_their_source_text() -> None:
    lines = {line.number: line for line in profiled("naive", N, N, N).lines if line.file == "01_naive.cu"}
    (a,) = [line for line in lines.values() if "A[row * lda + k]" in line.text]
    (b,) = [line for line in lines.values() if "B[k * ldb + col]" in line.text]
    assert a.total("_sectors_") == 32 * FMAS
    assert b.total("_sectors_") == FMAS
    headers = {line.file for line in profiled("vectorized", N, N, N).lines if line.text}
    assert {"07_vectorized.cu", "vector.cuh", "window.cuh"} <= headers


def test_cp_async_sectors_count_once() -> None:
    profile = profiled("async_copy", N, N, N)
    assert sum(line.total("_sectors_") for line in profile.lines) == profile.sectors("ld") + profile.sectors("st")


def test_traffic_by_space() -> None:
    spaces = {t.space: t for t in profiled("shared_tile", N, N, N).traffic}
    assert spaces["global load"].requested == spaces["global load"].moved == 128 * 2 * 32 * SLICES
    assert spaces["shared store"].requested == 128 * 2 * 32 * SLICES
    assert spaces["global store"].requested == 4 * N * N
    assert spaces["local load"].requested == 0


def test_hardware_only_metrics_are_absent() -> None:
    profile = profiled("naive", N, N, N)
    hardware = {m.name for m in METRICS if m.hardware_only}
    assert set(profile.absent) == hardware
    assert all(math.isnan(profile.value(name)) for name in hardware)
    assert not hardware & set(to_json(profile)["metrics"])


@pytest.mark.parametrize("name", ["naive", "warp_tile", "async_copy"])
def test_json_is_complete(name: str) -> None:
    facts = json.loads(json.dumps(to_json(profiled(name, N, N, N)), allow_nan=False))
    assert set(facts["metrics"]) == {m.name for m in METRICS if not m.hardware_only}
    assert facts["origin"] == "simulated"
    assert facts["sampled_blocks"] == 0
    assert facts["cross_check"]
    assert {"state", "meaning", "lines", "simulated", "machine"} <= set(facts["cross_check"][0])


def test_machine_mix_scales_the_main_loop() -> None:
    """naive: ptxas unrolls by 16; the loop's 109 instructions contain 16 multiply-adds and 32 loads."""
    profile = profiled("naive", N, N, N)
    mix = dict(profile.machine_mix)
    assert profile.loop_trips == FMAS / 16
    assert mix["global load"] == 2 * FMAS
    assert 6 < sum(mix.values()) / FMAS < 8
