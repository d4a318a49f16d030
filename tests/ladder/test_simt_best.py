"""simt_best: fma in the order of k in every layout and alignment; teams and blocks add up in a fixed order.

Without bank conflicts, races or spills.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from rung_launch import aligned, launched, verified
from shared_sums_rule import shared_sums_reference

from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import render_kernel
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import ConfigError
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec, Workspace
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.oracles.fma import ordered_fma_reference

NAME = "simt_best"
LAYOUTS = ("NN", "NT", "TN", "TT")
TEAMS = {"TEAMS": 4, "UNROLL": 2}


def small(**changes: int) -> tuple[KernelSpec, Config]:
    spec = rung_named(NAME)
    return spec, spec.config(dict(spec.small) | {"UNROLL": 4} | changes)  # k-tiles of two iterations


def problem(shape: tuple[int, int, int], layout: str = "NN", **more: float) -> Problem:
    return Problem(*shape, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **more)  # type: ignore[arg-type]


def checking(order: str = "lockstep") -> SimDevice:
    return SimDevice(schedule=schedule_named(order, 0, late_copies=True), hazards=True, count=True)


def load_wavefronts(device: SimDevice) -> tuple[int, int]:
    """Wavefronts of shared-memory reads, and how many of them are bank conflicts."""
    counters = device.counters
    assert counters is not None
    found = [c for operation, c in counters.items() if operation.profiled.sass == "LDS"]
    return sum(c.wavefronts for c in found), sum(c.wavefronts - c.groups for c in found)


# --- right, in every layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aligned_operands_with_ragged_edges(layout: str) -> None:
    """More than one tile in M and N, and in K more k-tiles than stages."""
    device = checking()
    verified(*small(), aligned(problem((35, 69, 37), layout, alpha=0.7, beta=-1.0)), device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_whole_tiles(layout: str) -> None:
    """All k-tiles but the last are copied without bounds checks."""
    device = checking("reversed")
    verified(*small(), problem((32, 64, 56), layout), device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_operands_that_are_not_aligned(layout: str) -> None:
    """Ragged, and a whole tile with a ragged end of K, where all but the end needs no bounds checks."""
    p = problem((33, 66, 19), layout, beta=1.0)
    verified(*small(), replace(p, lda=p.lda + 2, ldc=p.ldc + 1), offsets=(1, 3, 1))
    verified(*small(), problem((32, 64, 43), layout), offsets=(1, 0, 2))


@pytest.mark.parametrize("changes", [
    {"STAGES": 2, "UNROLL": 2, "BK": 16}, {"STAGES": 5, "UNROLL": 8, "WM": 16, "WN": 64}, {"BN": 32, "TM": 4, "TN": 8},
], ids=str)  # fmt: skip
def test_other_configurations(changes: dict[str, int]) -> None:
    device = checking()
    verified(*small(**changes), aligned(problem((45, 68, 50), "NT", alpha=2.0)), device=device)
    assert load_wavefronts(device)[1] == 0


def test_the_default_configuration() -> None:
    """A 16-byte read by 32 lanes takes two wavefronts, not four: lanes share addresses in pairs."""
    spec, k = rung_named(NAME), 16
    device = checking()
    verified(spec, spec.config(), problem((128, 256, k)), device=device)
    reads = 8 * (k + 1) * 6  # warps, steps and the one behind the last, reads of a step
    assert load_wavefronts(device) == (2 * reads, 0)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 7), (32, 1, 8), (1, 65, 17), (33, 64, 0)], ids=str)
def test_small_shapes(shape: tuple[int, int, int]) -> None:
    verified(*small(), problem(shape, alpha=2.0, beta=-1.0), mode="exact")


def test_forbidden_reads() -> None:
    spec, config = small()
    for shape, alpha, beta in (((33, 3, 7), 0.0, 0.0), ((33, 3, 7), 0.0, -1.0), ((5, 66, 0), math.inf, 2.0)):
        p = problem(shape, "TN", alpha=alpha, beta=beta)
        data = operands(p, "integers", seed=2)
        data = replace(data, a=np.full_like(data.a, np.nan), b=np.full_like(data.b, np.nan))
        assert np.array_equal(launched(spec, config, p, data), beta * data.c if beta else np.zeros(p.c_shape))


def test_special_values_stay_in_their_rows_and_columns() -> None:
    verified(*small(), aligned(problem((35, 67, 21))), fill="specials")


@pytest.mark.parametrize(("bias", "activation"), [("row", "gelu"), ("column", "relu")])
def test_bias_activation_and_batch_in_one_launch(bias: str, activation: str) -> None:
    p = Problem(33, 66, 12, alpha=0.2, beta=0.5, bias=bias, activation=activation, batch=3)
    verified(*small(), replace(p, stride_b=0), mode="float")


# --- sums that teams and blocks share


@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_teams_divide_the_steps_of_a_k_tile(layout: str) -> None:
    """Each has every fourth step; K is not a multiple of four steps."""
    device = checking("reversed")
    verified(*small(**TEAMS), aligned(problem((35, 69, 37), layout, alpha=0.7, beta=-1.0)), device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize(("shape", "blocks"), [
    ((32, 64, 80), 5), ((33, 70, 43), 5), ((33, 130, 43), 10), ((64, 64, 16), 4), ((32, 64, 8), 1), ((160, 64, 8), 5),
], ids=str)  # fmt: skip
def test_blocks_share_tiles_that_do_not_fill_a_wave(shape: tuple[int, int, int], blocks: int) -> None:
    """One tile, four, one more than a wave, fewer k-tiles than sharers, one k-tile, and a whole wave."""
    spec, config = small(SHARERS=5)
    p = problem(shape, alpha=0.7, beta=-1.0)
    assert spec.geometry(p, config).grid == (blocks, 1, 1)
    verified(spec, config, p, device=checking())


def test_teams_and_blocks_share_a_batch_with_an_epilogue() -> None:
    p = Problem(33, 66, 44, alpha=0.2, beta=0.5, bias="column", activation="relu", batch=2)
    verified(*small(SHARERS=5, **TEAMS), replace(p, stride_b=0), mode="float")


@pytest.mark.parametrize(("shape", "changes"), [
    ((33, 70, 83), {"CLUSTER_K": 4}), ((35, 69, 37), {"CLUSTER_K": 2, **TEAMS}), ((20, 30, 9), {"CLUSTER_K": 8}),
], ids=str)  # fmt: skip
def test_blocks_of_a_cluster_divide_k(shape: tuple[int, int, int], changes: dict[str, int]) -> None:
    """Several tiles, teams as well, and more blocks than k-tiles; the sums are added in the order of k."""
    spec, config = small(**changes)
    p = problem(shape, "NT", alpha=0.7, beta=-1.0)
    assert spec.geometry(p, config).cluster == (changes["CLUSTER_K"], 1, 1)
    device = checking("reversed")
    verified(spec, config, p, device=device)
    data = operands(p, "normal", seed=3)
    expected = shared_sums_reference(p, data.a, data.b, data.c, config=config)
    assert np.array_equal(launched(spec, config, p, data), expected)


def test_a_shared_product_has_the_same_bits_in_any_order_of_blocks() -> None:
    spec, config = small(SHARERS=5)
    p = problem((32, 128, 43))
    data = operands(p, "normal", seed=3)
    assert np.array_equal(launched(spec, config, p, data), launched(spec, config, p, data))
    expected = shared_sums_reference(p, data.a, data.b, data.c, config=config)
    assert np.array_equal(launched(spec, config, p, data), expected)
    assert not np.array_equal(expected, ordered_fma_reference(p, data.a, data.b, data.c))


def test_the_workspace() -> None:
    """Flags and two partial tiles per sharer; nothing if no tile is shared: a whole wave, no product, a large batch."""
    spec, config = small(SHARERS=8)
    needed = spec.workspace
    assert needed is not None
    p = problem((32 * 3, 64 * 3, 64))
    assert needed(p, config) == Workspace(4096 + 8 * 2 * 32 * 64 * 4, 4096)
    assert needed(p.with_(batch=128), config) == Workspace(4096 + 128 * 8 * 2 * 32 * 64 * 4, 4096)
    for none in (problem((32 * 8, 64, 64)), p.with_(alpha=0.0), p.with_(k=0), p.with_(batch=129)):
        assert needed(none, config) == Workspace()
        assert spec.geometry(none, config).grid[0] == 8 + (none.m == p.m)
    assert needed(p, small()[1]) == Workspace()


def test_sharing_depends_on_the_configuration_alone() -> None:
    spec, config = small(SHARERS=8, **TEAMS)
    fitted = spec.specialize(config, problem((33, 66, 19)), (4, 4, 4))
    assert (fitted["ALIGNED"], fitted["SHARERS"], fitted["TEAMS"]) == (0, 8, 4)


# --- configurations


def test_the_fast_path_is_chosen_by_alignment() -> None:
    spec = rung_named(NAME)
    p = problem((64, 64, 64), batch=2)
    assert spec.specialize(spec.config(), p, (256, 512, 3)) == spec.config()
    for changed, addresses in ((p, (4, 512, 0)), (p.with_(ldb=66), (0, 0, 0)), (p.with_(stride_a=4097), (0, 0, 0))):
        assert spec.specialize(spec.config(), changed, addresses)["ALIGNED"] == 0


@pytest.mark.parametrize(("changes", "reason"), [
    ({"TM": 8}, r"WM·WN = 64·64 = 4096 outputs, but 32 lanes have 32·TM·TN = 32·8·8 = 2048"),
    ({"TM": 16, "TN": 16, "WM": 128}, r"TM·TN = 16·16 = 256 accumulators per thread"),
    ({"WM": 16, "WN": 128, "TM": 16, "TN": 4}, r"WM/TM = 16/16 = 1 lanes along a side"),
    ({"BK": 32, "STAGES": 5, "BM": 256}, r"STAGES·BK·4·\(BM\+BN\+8\) = 5·32·4·\(256\+256\+8\) = 332,800 B"),
    ({"BK": 8, "UNROLL": 4, "TEAMS": 4}, r"TEAMS·UNROLL = 4·4 = 16 does not divide BK=8"),
    ({"BM": 64, "BN": 128, "WM": 16, "WN": 32, "TM": 4, "TN": 4, "TEAMS": 2, "BK": 8, "STAGES": 2},
     r"512·TEAMS·\(BM/WM\)·\(BN/WN\) = .* = 16,384 bytes, but k-tiles have .* = 12,288"),
    ({"CLUSTER_K": 2, "SHARERS": 8}, r"K is divided twice: CLUSTER_K=2 and SHARERS=8"),
    ({"TEAMS": 8, "BK": 32}, r"TEAMS·32·\(BM/WM\)·\(BN/WN\) = 8·32·\(128/64\)·\(256/64\) = 2048 threads"),
    ({"SHARERS": 7}, "SHARERS=7 is not one of 0, 2, 3, 5, 8"),
])  # fmt: skip
def test_illegal_configurations_show_the_arithmetic(changes: dict[str, int], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        rung_named(NAME).config(changes)


@pytest.mark.parametrize(("arch", "layout", "preset"), [
    ("sm_80", "NT", "128x256-16x8"), ("sm_90", "NN", "128x64-4"), ("sm_89", "TN", "deep"), ("sm_120", "NN", "skinny"),
])  # fmt: skip
def test_no_spills(arch: str, layout: str, preset: str) -> None:
    spec = rung_named(NAME)
    config = spec.config(preset=preset)
    request = render_kernel(spec, config, dtype=FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T", arch=arch)
    resources = compile_request(request, find_toolchain()).resources
    assert not resources.spills
    assert resources.stack == 0
    assert spec.geometry(problem((1, 1, 1), layout), config).smem <= 99 * 1024
