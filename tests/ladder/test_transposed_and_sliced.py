"""wgmma_cluster with SWAP, which computes the transpose of C, and with SLICES of K: right at edges, in every layout,
with outputs of 16 and 32 bits; and the same bits in every schedule of the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cluster_product import SMALL, SPEC, assert_close, problem_of, product
from ptx_only import copy_kernel, find_file

from gemmsmith.call.binding import specialized_config
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.renamed import DIRECT, TMA
from gemmsmith.kernel.spec import Addresses
from gemmsmith.problem import BF16, FP16, FP32, DType

SWAPPED = {"SWAP": 1, "BN": 24}


@pytest.mark.parametrize(
    ("m", "n", "layout", "out", "config"),
    [
        (50, 136, "NT", BF16, SWAPPED), (24, 64, "NN", FP32, SWAPPED), (7, 72, "TT", FP16, {"SWAP": 1, "BN": 8}),
        (100, 72, "TN", BF16, {"SWAP": 1, "BN": 40, "CLUSTER_M": 2}), (41, 129, "NT", FP32, {"SWAP": 1, "BN": 16}),
        (90, 200, "NN", BF16, {"SWAP": 1, "BN": 80, "BM": 128, "CLUSTER_N": 2}),
        (60, 192, "NT", FP32, {"SWAP": 1, "BN": 72, "BM": 192, "CONSUMERS": 3}),
        (65, 264, "NT", BF16, {"SWAP": 1, "BN": 56, "CLUSTER_M": 4}),
    ],
)  # fmt: skip
def test_transposed_tiles_are_right_at_every_edge(m: int, n: int, layout: str, out: DType, config: dict[str, int]
                                                  ) -> None:  # fmt: skip
    dtype = FP16 if out == FP16 else BF16
    if layout[0] == "T":
        m = -(-m // 8) * 8  # rows of A start on 16 bytes
    problem = problem_of(m, n, 136, layout, out, dtype)
    found, expected = product(config, problem)
    assert_close(found, expected, out)
    fitted = specialized_config(SPEC, SPEC.config(SMALL | config), problem, Addresses(256, 256, 256))
    aligned = n * out.itemsize % 16 == 0
    assert fitted["STORE_MODE"] == (TMA if aligned else DIRECT)


@pytest.mark.parametrize(
    ("layout", "out", "stages", "kept"),
    [("TN", FP32, 5, 4), ("NT", FP32, 5, 4), ("TN", BF16, 5, 5), ("TN", FP32, 3, 3), ("TN", FP32, 4, 4)],
)
def test_a_stage_is_given_up_for_outputs_that_would_leave_one_box_at_a_time(layout: str, out: DType, stages: int,
                                                                            kept: int) -> None:  # fmt: skip
    """136 rows of C are 17 boxes, which have no parts but single ones."""
    wide = {"SWAP": 1, "BM": 128, "BN": 136, "STAGES": stages, "CONSUMERS": 1 if layout == "TN" else 2}
    fitted = specialized_config(
        SPEC, SPEC.config(SMALL | wide), problem_of(272, 512, 192, layout, out), Addresses(256, 256, 256)
    )
    assert (fitted["STAGES"], fitted["STORE_BOXES"] >= 17) == (kept, True)
    assert SPEC.geometry(problem_of(272, 512, 192, layout, out), fitted).smem <= 232_448


def test_outputs_in_one_store_of_seventeen_boxes_are_right() -> None:
    problem = problem_of(136, 128, 72, "TN", FP32)
    found, expected = product({"SWAP": 1, "BM": 128, "BN": 136, "STAGES": 5}, problem)
    assert_close(found, expected, FP32)


@pytest.mark.parametrize(
    ("slices", "config"),
    [(2, {"BN": 64}), (3, {"BN": 32, "CLUSTER_M": 2}), (5, SWAPPED), (16, {"BN": 16}),
     (4, {"SWAP": 1, "BN": 40, "CLUSTER_N": 2})],
)  # fmt: skip
def test_slices_of_k_are_added_up(slices: int, config: dict[str, int]) -> None:
    problem = problem_of(70, 72, 64 * 7 + 8, out=FP32)  # as many k-tiles as slices, more, and fewer
    found, expected = product(config | {"SLICES": slices}, problem)
    assert_close(found, expected, FP32)
    for order in (1, 2):
        assert np.array_equal(product(config | {"SLICES": slices, "SLICE_ORDER": order}, problem)[0], found)


def test_slices_by_gpc_are_all_computed() -> None:
    """64 clusters of two, which are numbered by GPC: four slices of 16 pairs of tiles."""
    problem = problem_of(128, 256, 4 * 64, out=FP32)
    config = {"BN": 16, "CLUSTER_M": 2, "SLICES": 4, "SLICE_ORDER": 2}
    assert SPEC.geometry(problem, SPEC.config(SMALL | config)).grid[0] == 128
    assert_close(*product(config, problem), FP32)


@pytest.mark.parametrize(("down", "across"), [(3, 5), (7, 9), (8, 8), (13, 9)])
def test_tiles_by_gpc_are_all_computed(down: int, across: int) -> None:
    """Fewer than 64 pairs of tiles, 64, and two turns: one of 66, and one of fewer."""
    problem = problem_of(128 * down, 16 * across, 64, out=FP32)
    config = {"BN": 16, "CLUSTER_M": 2, "GROUP": 4}
    found, expected = product(config | {"SLICE_ORDER": 2}, problem)
    assert_close(found, expected, FP32)


def test_tiles_by_gpc_need_pairs_of_blocks() -> None:
    for other in ({"CLUSTER_M": 1}, {"CLUSTER_M": 2, "CLUSTER_N": 2}, {"CLUSTER_M": 2, "SLICE_ORDER": 1}):
        with pytest.raises(ConfigError, match="SLICE_ORDER"):
            SPEC.config(SMALL | {"SLICE_ORDER": 2} | other)


@pytest.mark.parametrize("config", [{"BN": 64, "SLICES": 3}, SWAPPED | {"SLICES": 4}, SWAPPED], ids=str)
def test_the_result_does_not_depend_on_the_schedule(config: dict[str, int]) -> None:
    problem = problem_of(70, 64, 320)
    first, _ = product(config, problem)
    for schedule in ("reversed", "random"):
        again, _ = product(config, problem, schedule)
        assert np.array_equal(first, again), schedule


def test_blocks_that_do_not_wait_leave_their_part_to_the_last(tmp_path: Path) -> None:
    """As on a GPU where another kernel holds the SMs that the other slices need: the same bits."""
    impatient = copy_kernel(SPEC, tmp_path)
    header = find_file(tmp_path, "slices.cuh")
    patient = header.read_text(encoding="utf-8")
    assert patient.count("MOST_POLLS = 2048") == 1
    header.write_text(patient.replace("MOST_POLLS = 2048", "MOST_POLLS = 0"), encoding="utf-8")
    problem, config = problem_of(70, 64, 320), {"BN": 64, "SLICES": 5}
    expected, _ = product(config, problem)
    for schedule in ("lockstep", "reversed", "random"):
        found, _ = product(config, problem, schedule, impatient)
        assert np.array_equal(found, expected), schedule


def test_too_many_slices_for_the_gpu_are_not_used() -> None:
    """Blocks wait for each other, so each slice needs a cluster of its own: 12 x 12 tiles of 16 slices have none."""
    problem = problem_of(64 * 12, 16 * 12, 128, out=FP32)
    found, expected = product({"BN": 16, "SLICES": 16}, problem)
    assert_close(found, expected, FP32)
