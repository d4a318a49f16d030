"""gemv: the bits of its own order of additions in every layout and alignment; each number of the long operand is read
once, coalesced; no races, spills or bank conflicts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from rung_launch import aligned, launched, verified
from test_simt_best import checking, load_wavefronts, problem

from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import render_for
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import ConfigError
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.gemv import MOST_VECTORS, long_operand
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice

NAME = "gemv"
LAYOUTS = ("NN", "NT", "TN", "TT")
ROWS = {"BM": 2, "BN": 8}  # of C are the vectors
SECTOR = 32


def small(**changes: int) -> tuple[KernelSpec, Config]:
    spec = rung_named(NAME)
    return spec, spec.config(dict(spec.small) | changes)


def shape_of(changes: dict[str, int], longer: int, vectors: int, k: int) -> tuple[int, int, int]:
    return (vectors, longer, k) if changes.get("BM", 8) < changes.get("BN", 2) else (longer, vectors, k)


# --- right, in every layout


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("changes", [{}, ROWS], ids=["columns", "rows"])
def test_aligned_operands_with_ragged_edges(layout: str, changes: dict[str, int]) -> None:
    """Several tiles in both directions, and three k-tiles of the short operand."""
    device = checking("reversed")
    p = problem(shape_of(changes, 19, 3, 2 * 256 + 37), layout, alpha=0.7, beta=-1.0)
    verified(*small(**changes), aligned(p), device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("changes", [{}, ROWS], ids=["columns", "rows"])
def test_operands_that_are_not_aligned(layout: str, changes: dict[str, int]) -> None:
    """Ragged, and whole tiles, where all but the last round needs no bounds checks."""
    for longer, vectors, k in ((9, 3, 77), (16, 2, 3 * 256)):
        verified(*small(**changes), problem(shape_of(changes, longer, vectors, k), layout, beta=1.0), offsets=(1, 3, 1))


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_only_the_long_operand_must_be_aligned(layout: str) -> None:
    spec, config = small()
    p = problem((16, 2, 256), layout)
    assert spec.specialize(config, p, (256, 260, 260)) == config
    assert spec.specialize(config, p, (260, 256, 256))["ALIGNED"] == 0
    assert spec.specialize(config, p.with_(batch=2, stride_a=4097), (256, 256, 256))["ALIGNED"] == 0
    verified(spec, config, p, offsets=(0, 1, 3))


@pytest.mark.parametrize("vectors", [1, 2, 4, 8])
@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_as_many_vectors_as_are_kept(vectors: int, layout: str) -> None:
    """One warp along K, or two; one load in flight for each row, or two. Sixteen lanes of other k that read eight
    vectors each are too many for one wavefront."""
    for changes in ({"BM": 32, "ROWS": 8, "WARPS_K": 1, "LOADS": 8}, {"BM": 8, "ROWS": 4, "BK": 512, "LOADS": 8}):
        device = checking()
        p = problem((35, vectors + 1, 300), layout, alpha=0.7, beta=-1.0)
        verified(*small(**changes, BN=vectors), aligned(p), device=device)
        assert load_wavefronts(device)[1] == 0 or (layout, vectors, changes["BM"]) == ("TN", 8, 8)


@pytest.mark.parametrize("longer", [4, 16, 64, 128])
@pytest.mark.parametrize("offset", [0, 1])
def test_rows_that_are_not_k_major(longer: int, offset: int) -> None:
    """One to 32 lanes along the rows; the others have other k."""
    changes = {"BM": longer, "ROWS": min(4, longer), "WARPS_K": 1, "LOADS": 4}
    if longer == 128:
        changes |= {"ROWS": 16, "LOADS": 16}
    for m in (longer, longer + 3):
        verified(*small(**changes), problem((m, 2, 131), "TN"), offsets=(offset, 0, 0))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 7), (8, 1, 128), (1, 65, 17), (33, 3, 0)], ids=str)
@pytest.mark.parametrize("changes", [{}, ROWS, {"CLUSTER_K": 4}], ids=["columns", "rows", "cluster"])
def test_small_shapes(shape: tuple[int, int, int], changes: dict[str, int]) -> None:
    verified(*small(**changes), problem(shape, alpha=2.0, beta=-1.0), mode="exact")


def test_forbidden_reads() -> None:
    spec, config = small()
    for shape, alpha, beta in (((11, 3, 7), 0.0, 0.0), ((11, 3, 7), 0.0, -1.0), ((5, 6, 0), math.inf, 2.0)):
        p = problem(shape, "TN", alpha=alpha, beta=beta)
        data = operands(p, "integers", seed=2)
        data = replace(data, a=np.full_like(data.a, np.nan), b=np.full_like(data.b, np.nan))
        assert np.array_equal(launched(spec, config, p, data), beta * data.c if beta else np.zeros(p.c_shape))


@pytest.mark.parametrize(("bias", "activation"), [("row", "gelu"), ("column", "relu")])
@pytest.mark.parametrize("changes", [{}, ROWS], ids=["columns", "rows"])
def test_bias_activation_and_batch_in_one_launch(bias: str, activation: str, changes: dict[str, int]) -> None:
    """One B for all products."""
    p = Problem(*shape_of(changes, 11, 3, 260), alpha=0.2, beta=0.5, bias=bias, activation=activation, batch=3)
    verified(*small(**changes), replace(p, stride_b=0), mode="float")


# --- a cluster divides K


@pytest.mark.parametrize("layout", ["NN", "TN"])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_the_blocks_of_a_cluster_divide_k(layout: str, blocks: int) -> None:
    """Rounds that are no multiple of the blocks, and fewer rounds than blocks."""
    for k in (5 * 256 + 3, 256):
        device = checking("reversed")
        p = problem((11, 3, k), layout, alpha=0.7, beta=-1.0)
        verified(*small(CLUSTER_K=blocks), aligned(p), device=device)


def test_more_outputs_than_threads() -> None:
    verified(*small(BM=64, BN=8, ROWS=8, WARPS_K=1, LOADS=8, CLUSTER_K=2, BK=128), problem((64, 8, 300), "TN"))


# --- what it costs


@pytest.mark.parametrize("layout", ["NN", "TN"])
@pytest.mark.parametrize("offset", [0, 1])
def test_each_number_of_the_long_operand_is_read_once(layout: str, offset: int) -> None:
    """Whole sectors, by loads of 16 bytes per lane; by four times as many of 4 bytes where rows are not aligned."""
    m, k = 64, 1024
    device = SimDevice(count=True)
    changes = {"BM": 32, "LOADS": 8, "WARPS_K": 1, "BK": 256}
    verified(*small(**changes), problem((m, 2, k), layout), device=device, offsets=(offset, 0, 0))
    assert device.counters is not None
    found = [c for operation, c in device.counters.items() if operation.profiled.sass == "LDG"]
    assert sum(c.threads for c in found) == m * k // (1 if offset else 4)
    least = m * k * 4 // SECTOR
    assert sum(c.sectors for c in found) == least if not offset else least < sum(c.sectors for c in found) < 1.3 * least


CHOSEN = [
    ("NN", {}), ("NN", {"BN": 1, "LOADS": 16}), ("NN", {"BN": 4}), ("TN", {"BM": 64, "ROWS": 8}),
    ("TN", {"BM": 128, "BN": 4, "ROWS": 16, "LOADS": 16}),
]  # fmt: skip


@pytest.mark.parametrize("is_aligned", [1, 0])
@pytest.mark.parametrize(("layout", "changes"), CHOSEN, ids=str)
def test_no_spills_with_sixteen_warps_on_an_sm(layout: str, changes: dict[str, int], is_aligned: int) -> None:
    spec = rung_named(NAME)
    config = spec.config({**changes, "ALIGNED": is_aligned})
    compiled = compile_request(render_for(spec, config, problem((64, 8, 64), layout), "sm_90"), find_toolchain())
    assert not compiled.resources.spills
    assert compiled.resources.stack == 0
    assert compiled.resources.registers <= 128


# --- the specification


def test_the_longer_side_of_the_tile_says_which_operand_is_read_once() -> None:
    p = problem((300, 5, 70), "NT")
    assert long_operand(p, small()[1]).shape == (300, 70)
    assert long_operand(p, small(**ROWS)[1]).shape == (5, 70)


def test_a_product_that_takes_longer_than_a_launch_waits_for_an_idle_gpu() -> None:
    spec, config = small()
    assert spec.geometry(problem((1000, 1, 1000)), config).pdl
    assert not spec.geometry(problem((8000, 1, 8000)), config).pdl


@pytest.mark.parametrize(("changes", "reason"), [
    ({"BM": 16, "BN": 16}, f"the shorter side has at most {MOST_VECTORS}"),
    ({"BM": 2, "BN": 1}, "the longer at least 4"),
    ({"LOADS": 2}, "ROWS=4 does not divide LOADS=2"),
    ({"BK": 128}, "128·WARPS_K·LOADS/ROWS = 128·2·4/4 = 256 does not divide BK=128"),
    ({"BM": 128, "BN": 8, "ROWS": 32, "LOADS": 32}, "at most 128 are free"),
], ids=str)  # fmt: skip
def test_an_illegal_configuration_is_refused_with_the_arithmetic(changes: dict[str, int], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        small(**changes)
    assert reason in f"{caught.value} {caught.value.hint}"
