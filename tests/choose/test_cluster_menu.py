"""The menu of wgmma_cluster: legal by construction, and with as many slices of K as fill the GPU once."""

from __future__ import annotations

import numpy as np
import pytest
from cost_cases import CHIP

from gemmsmith.choose.candidates import is_legal, menu, ranked
from gemmsmith.choose.cluster_menu import slices_by_gpc, useful_slices
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, Problem

SPEC = rung_named("wgmma_cluster")
SLICED = {"BM": 128, "BN": 128, "STAGES": 6, "CONSUMERS": 2, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8,
          "STORE_MODE": 0, "STORE_BOXES": 0, "TAIL_BN": 0, "SWAP": 0, "SLICES": 2}  # fmt: skip


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_configuration_is_legal_and_fits(layout: str) -> None:
    found = menu(SPEC, layout).configs
    assert len(found) > 2000
    assert len(set(found)) == len(found)
    assert not any(SPEC.illegal(config) for config in found)
    names = [name for name, _ in SPEC.config()]
    for out in (BF16, FP32):
        problem = Problem(1024, 1024, 1024, BF16, out, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
        for config in found[::23]:
            assert [name for name, _ in config] == names
            fitted = SPEC.specialize(config, problem, (256, 256, 256))
            assert SPEC.geometry(problem, fitted).smem <= LARGEST_SMEM
            from_registers = config["SLICES"] * config["CLUSTER_K"] > 1 or (config["BN"] < 64 and not config["SWAP"])
            assert fitted["STORE_BOXES"] > 0 or from_registers or out == FP32


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_no_room_is_left_for_another_stage(layout: str) -> None:
    found = [config for config in menu(SPEC, layout).configs if not config["STORE_MODE"] and not config["SEND"]]
    assert any(config["BN"] % (8 * config["CLUSTER_M"]) for config in found), "loaded without padding"
    for config in found[::7]:
        more = config.with_(STAGES=config["STAGES"] + 1)
        assert config["STAGES"] == 13 or not is_legal(SPEC, more, layout, LARGEST_SMEM), str(config)


@pytest.mark.parametrize(
    ("m", "n", "k", "slices"),
    [(512, 512, 65536, 8), (512, 512, 64 * 8, 2), (128, 128, 65536, 16), (2048, 2048, 8192, 1), (1024, 1024, 8192, 2)],
)
def test_slices_fill_the_gpu_once(m: int, n: int, k: int, slices: int) -> None:
    found = useful_slices(shape_of(Problem(m, n, k, BF16, BF16)), tiles_of([SLICED, SLICED | {"SLICES": 1}]), CHIP)
    assert list(found) == [slices, 1]


@pytest.mark.parametrize(
    ("m", "n", "changes", "by_gpc"),
    [(512, 512, {"SLICES": 8}, True), (512, 1024, {"SLICES": 4}, True), (512, 512, {"SLICES": 7}, False),
     (256, 1024, {"SLICES": 8}, False), (512, 512, {"SLICES": 8, "CLUSTER_M": 1}, False)],
)  # fmt: skip
def test_slices_are_numbered_by_gpc(m: int, n: int, changes: dict[str, int], by_gpc: bool) -> None:
    """Where there are 64 clusters of two, and those of a slice are in two rows and columns."""
    tiles = tiles_of([SLICED | changes])
    assert list(slices_by_gpc(shape_of(Problem(m, n, 65536, BF16, BF16)), tiles)) == [by_gpc]
    spec = SPEC.config(SLICED | changes | {"SLICE_ORDER": 2 if by_gpc else 0})
    assert SPEC.geometry(Problem(m, n, 65536, BF16, BF16), spec).pdl is not by_gpc


@pytest.mark.parametrize(("extents", "batch", "swap"), [
    ((5, 4096, 1024), 1, 1), ((4096, 16, 1024), 1, 0), ((17, 4096, 1024), 1, None), ((5, 4096, 1024), 2, None),
], ids=str)  # fmt: skip
def test_tiles_for_few_rows_are_candidates_for_them_alone(extents: tuple[int, ...], batch: int, swap: int | None
                                                          ) -> None:  # fmt: skip
    found = [c.config for c in ranked(Problem(*extents, BF16, BF16, batch=batch, trans_b=True), CHIP, Constants())
             if c.spec is SPEC]  # fmt: skip
    narrow = [c for c in found if c["BN"] == 8 or c["DEPTH"] == 2 or (c["BN"] < 64 and not c["SWAP"])]
    assert {c["SWAP"] for c in narrow} == ({swap} if swap is not None else set())
    assert swap is None or {c["DEPTH"] for c in narrow} == {1, 2}


def test_only_useful_slices_are_candidates() -> None:
    for problem in (Problem(512, 512, 65536, BF16, BF16), Problem(4096, 4096, 4096, BF16, BF16)):
        found = [c for c in ranked(problem, CHIP, Constants()) if c.spec is SPEC]
        slices = np.array([c.config["SLICES"] for c in found])
        assert (slices > 1).any() == (problem.m == 512)
        assert not any(c.spec.illegal(c.config) for c in found)


def test_transposed_tiles_are_no_candidates_where_c_is_unaligned() -> None:
    found = ranked(Problem(512, 511, 1024, BF16, BF16, trans_b=True), CHIP, Constants())
    assert {c.config["SWAP"] for c in found if c.spec is SPEC} == {0}


def eights(problem: Problem) -> list[Config]:
    found = [c.config for c in ranked(problem, CHIP, Constants()) if c.spec is SPEC]
    return [config for config in found if config["CLUSTER_M"] * config["CLUSTER_N"] == 8]


@pytest.mark.parametrize(
    ("k", "pads", "eight"), [(1032, 0, True), (1024, 0, False), (1032, 8, False), (200, 0, False), (1048, 0, True)]
)
def test_clusters_of_eight_in_several_waves_are_for_rows_that_are_half_aligned(k: int, pads: int, eight: bool) -> None:
    """Rows of 1032 elements start on 16 bytes, but not all on 32; padded to 1040 they do."""
    problem = Problem(5200, 5200, k, BF16, BF16, trans_b=True).with_(lda=k + pads)
    assert bool(eights(problem)) == eight


def test_clusters_of_eight_in_one_wave_are_for_aligned_products() -> None:
    problem = Problem(520, 520, 1024, BF16, BF16, trans_b=True)
    found = eights(problem)
    assert found
    assert all(120 * config["BM"] * config["BN"] >= 520 * 520 for config in found)
    assert all(config["SLICES"] == config["CLUSTER_K"] == 1 for config in found)
    assert not eights(problem.with_(n=519))


def test_small_tiles_have_one_order() -> None:
    """Along rows of tiles in clusters of one column and several rows; large tiles have several orders."""
    found = [dict(config) for config in menu(SPEC, "NT").configs]
    small = {((config["CLUSTER_M"], config["CLUSTER_N"]), config["GROUP"])
             for config in found if config["BM"] * config["BN"] < 128 * 128}  # fmt: skip
    assert small == {
        ((1, 1), 8),
        ((1, 2), 16),
        ((1, 4), 8),
        ((2, 1), 1),
        ((2, 2), 8),
        ((2, 4), 8),
        ((4, 1), 1),
        ((4, 2), 1),
    }
    staged = {config["GROUP"] for config in found if config["BM"] * config["BN"] >= 128 * 128 and config["STORE_MODE"]}
    assert staged == {4, 8, 16}
