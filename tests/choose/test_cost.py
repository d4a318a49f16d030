"""The cost model of the wgmma kernels: what it predicts, and that every constant has a source."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from cost_cases import CHIP, FAST, FITTED, LARGE, SPLIT, SQUARE, STAGED, seconds

from gemmsmith.choose.columns import tiles_of
from gemmsmith.choose.constants import CONSTANTS, Constants, with_memory_of
from gemmsmith.choose.cost_data import (
    SimtCosts,
    SplitCosts,
    WgmmaCosts,
    cost_table,
    estimates,
    measured_gpu,
    wgmma_costs,
)
from gemmsmith.choose.waves import chip_of, resident_blocks
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, FP32, Problem

COSTS = wgmma_costs()


# --- constants as data


@pytest.mark.parametrize(("section", "struct"), [("wgmma", WgmmaCosts), ("split", SplitCosts), ("simt", SimtCosts)])
def test_every_constant_is_used_and_has_a_source(section: str, struct: type) -> None:
    rows = {name: row for name, row in cost_table()[section].items() if isinstance(row, dict) and "value" in row}
    others = {"widths", "layout_rate", "candidates"}
    assert set(rows) == {each.name for each in fields(struct)} - others
    for name, row in rows.items():
        assert set(row) == {"value", "unit", "means", "source"}, name
        assert row["value"] > 0, name
        assert all(row[text] for text in ("unit", "means", "source")), name


def test_a_constant_without_a_value_is_its_estimate() -> None:
    assert set(estimates()) == set(CONSTANTS)
    assert Constants() == Constants(**estimates())
    assert Constants(dram=1e12).clock == estimates()["clock"]


def test_the_constants_are_the_h200s() -> None:
    h200, h100 = gpu_named("H200"), gpu_named("H100")
    assert measured_gpu() == h200
    assert with_memory_of(Constants(), h200) == Constants()
    assert with_memory_of(Constants(), h100).dram == pytest.approx(Constants().dram * 3350 / 4800)
    assert (CHIP.sms, CHIP.flops_per_clock, CHIP.smem_per_sm) == (132, 4096, 228 * 1024)
    assert chip_of(gpu_named("H20")).flops_per_clock == 1024, "the H20 has a quarter of Hopper's rate"
    assert chip_of(h100, 114).sms == 114


# --- predictions


def test_predictions_stay_above_hardware_limits() -> None:
    for problem in (SQUARE, SQUARE.with_(m=8192), SQUARE.with_(m=16), Problem(1, 1, 1, BF16)):
        for config in (LARGE, SPLIT):
            found = seconds(problem, config)
            assert found > problem.flops / (CHIP.sms * CHIP.flops_per_clock * Constants().clock)
            assert found > problem.compulsory_bytes / Constants().dram
            assert found > Constants().launch


def test_waves_are_whole() -> None:
    """132 tiles and 133: the last one takes as long as all others together."""
    config = LARGE | {"CLUSTER_M": 1}
    full = Problem(128 * 132, 256, 8192, BF16)
    more = full.with_(m=full.m + 1)
    assert seconds(more, config) > 1.6 * seconds(full, config)
    assert seconds(full.with_(m=full.m - 127), config) == pytest.approx(seconds(full, config), rel=0.02)


def test_multicast_lowers_traffic_where_the_l2_is_the_limit() -> None:
    slow = Constants(l2=2e12)
    assert seconds(SQUARE, LARGE, constants=slow) < 0.8 * seconds(SQUARE, LARGE | {"CLUSTER_M": 1}, constants=slow)


def test_splitting_pays_where_k_is_deep_and_tiles_are_few() -> None:
    deep = Problem(128, 128, 16384, BF16)
    times = [seconds(deep, SPLIT | {"SPLIT": split}) for split in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    shallow = deep.with_(k=64)
    assert seconds(shallow, SPLIT | {"SPLIT": 8}) > seconds(shallow, SPLIT | {"SPLIT": 1})


def test_swapped_operands_suit_few_rows_and_not_few_columns() -> None:
    few = Problem(16, 4096, 4096, BF16)
    narrow = SPLIT | {"BN": 16}
    assert seconds(few, narrow | {"SWAP": 1}) < seconds(few, narrow)
    transposed = few.with_(m=4096, n=16, trans_a=True, trans_b=True)
    assert seconds(transposed, narrow) == pytest.approx(seconds(few, narrow | {"SWAP": 1}))


def test_copies_and_batches_cost_time() -> None:
    plain, copied = seconds(SQUARE, LARGE), seconds(SQUARE, LARGE, unaligned=1)
    assert copied - plain == pytest.approx(COSTS.align_copy + Constants().launch + 2 * 2 * 4096**2 / Constants().dram)
    assert seconds(SQUARE, LARGE, unaligned=3) > copied
    assert seconds(SQUARE.with_(batch=8), LARGE) == pytest.approx(8 * plain, rel=0.1)


@pytest.mark.parametrize("swap", [0, 1])
def test_an_unaligned_operand_is_not_copied_and_the_other_is(swap: int) -> None:
    own, other = (1, 2) if swap == 0 else (2, 1)
    few = Problem(64, 4096, 4096, BF16) if swap else Problem(4096, 64, 4096, BF16)
    copied, direct = SPLIT | {"SWAP": swap}, SPLIT | {"SWAP": swap, "UNALIGNED_OPERANDS": 1}
    constants = Constants()
    large, small = (COSTS.align_copy + constants.launch + 2 * 2 * rows * 4096 / constants.dram for rows in (4096, 64))
    assert seconds(few, copied, unaligned=own) - seconds(few, copied) == pytest.approx(large)
    assert seconds(few, copied, unaligned=other) - seconds(few, copied) == pytest.approx(small)
    assert seconds(few, direct, unaligned=own) == seconds(few, direct)
    assert seconds(few, direct, unaligned=other) - seconds(few, direct) == pytest.approx(small)
    assert seconds(few, direct, unaligned=3) == seconds(few, direct, unaligned=other)
    assert seconds(few, direct, unaligned=own) < seconds(few, copied, unaligned=own)


@pytest.mark.parametrize("swap", [0, 1])
def test_loading_unaligned_through_registers_costs_time(swap: int) -> None:
    fast = Constants(dram=1e14, l2=1e14, ingress=1e14, latency=1e-9)
    one, two = (
        SPLIT | {"SWAP": swap, "DEPTH": depth, "STAGES": 4 // depth, "UNALIGNED_OPERANDS": 1} for depth in (1, 2)
    )
    plain = [seconds(SQUARE, config | {"UNALIGNED_OPERANDS": 0}, constants=fast) for config in (one, two)]
    direct = [seconds(SQUARE, config, constants=fast) for config in (one, two)]
    assert direct[0] > 1.2 * plain[0]
    shorter, longer = direct[0] - plain[0], direct[1] - plain[1]
    assert 0.8 * shorter < longer < 0.95 * shorter, "the sectors at a row's ends, once per stage"


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize(("m", "n"), [(64, 4096), (4096, 64), (64, 64)])
def test_with_both_operands_unaligned_there_is_no_copy(swap: int, m: int, n: int) -> None:
    problem, config = Problem(m, n, 512, BF16), SPLIT | {"SWAP": swap}
    both = [seconds(problem, config | {"UNALIGNED_OPERANDS": 2}, unaligned) for unaligned in (0, 1, 2, 3)]
    assert len(set(both)) == 1
    for operands in (0, 1):
        paid = seconds(problem, config | {"UNALIGNED_OPERANDS": operands}, unaligned=3) - seconds(
            problem, config | {"UNALIGNED_OPERANDS": operands}
        )
        assert paid > COSTS.align_copy


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize(("depth", "split", "stages"), [(1, 1, 64), (2, 1, 32), (4, 1, 16), (1, 4, 16), (2, 8, 4)])
def test_the_second_unaligned_operand_costs_a_wait_per_stage(swap: int, depth: int, split: int, stages: int) -> None:
    config = SPLIT | {"SPLIT": split, "SWAP": swap, "DEPTH": depth}
    one, both = (
        seconds(Problem(64, 64, 4096, BF16), config | {"UNALIGNED_OPERANDS": n}, constants=FAST) for n in (1, 2)
    )
    assert both - one == pytest.approx(stages * COSTS.unaligned_wait, rel=0.01)


def test_copies_win_for_a_deep_k_that_is_not_split() -> None:
    """Without the wait per stage, 12 stages would still take less than a copy."""
    alone, divided = SPLIT | {"SPLIT": 1}, SPLIT | {"SPLIT": 8}
    for k, config, copied in ((128, alone, False), (768, alone, True), (1024, divided, False)):
        small = Problem(64, 64, k, BF16)
        one, *others = (seconds(small, config | {"UNALIGNED_OPERANDS": n}, unaligned=3) for n in (2, 0, 1))
        assert (min(others) < one) == copied, (k, config)


def test_an_unaligned_c_costs_more_in_narrow_boxes() -> None:
    """176 columns are boxes of 16, 192 are boxes of 64."""
    slow, tile = replace(FAST, store=1e9), STAGED | {"BM": 192, "STAGES": 4, "CONSUMERS": 3}  # four waves each
    wide, narrow = (seconds(SQUARE, tile | {"BN": bn}, 4, slow) / bn for bn in (192, 176))
    assert seconds(SQUARE, tile, 0, slow) / 192 < wide < narrow
    wide_c = SQUARE.with_(out_dtype=FP32)
    assert seconds(wide_c, STAGED, unaligned=4) == seconds(wide_c, STAGED), "stored from registers"


def test_tma_takes_as_long_for_a_narrow_row_as_for_a_wide_one() -> None:
    slow = replace(FAST, store=1e9, direct=1e9)
    flat, one = Problem(4096, 5632, 64, BF16, BF16), STAGED | {"CLUSTER_M": 1}
    wide = seconds(flat, one | {"BN": 192}, constants=slow) / 8 / 192  # waves of 960 tiles on 132 SMs
    for bn, waves, times in ((176, 8, 4), (160, 9, 2), (128, 11, 1)):
        found = seconds(flat, one | {"BN": bn}, constants=slow) / waves / bn
        assert found / wide == pytest.approx(times, rel=0.01), bn
        by_threads = one | {"BN": bn, "STORE_MODE": 0, "STORE_BOXES": 0}
        assert seconds(flat, by_threads, constants=slow) / waves / bn == pytest.approx(wide, rel=0.01)
    wide_c = flat.with_(out_dtype=FP32)
    assert seconds(wide_c, one | {"BN": 176}, constants=slow) / 8 / 176 == pytest.approx(2 * wide, rel=0.01)


@pytest.mark.parametrize(
    ("layout", "bits", "change", "pieces"),
    [
        ("NT", 24, {}, 128 + 256), ("NT", 24, {"CLUSTER_N": 2}, 64 + 256), ("NT", 24, {"CLUSTER_M": 2}, 128 + 128),
        ("NT", 8, {}, 128), ("NT", 16, {}, 256), ("NT", 8, {"CLUSTER_N": 2}, 64), ("NT", 16, {"CLUSTER_M": 2}, 128),
        ("NN", 24, {"BN": 208}, 128 + 4 * 64), ("NT", 24, {"BN": 208}, 128 + 208), ("NN", 8, {"BN": 208}, 128),
        ("TN", 8, {"BM": 192, "BN": 128}, 3 * 64), ("TT", 24, {"BN": 208}, 2 * 64 + 208),
    ],
)  # fmt: skip
def test_half_aligned_rows_are_loaded_piece_by_piece(
    layout: str, bits: int, change: dict[str, int], pieces: int
) -> None:
    """Only what a block loads itself counts: 65 k-tiles, in waves of tiles."""
    problem = Problem(4096, 4096, 4104, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    config = LARGE | {"CLUSTER_M": 1} | change
    cluster = config["CLUSTER_M"] * config["CLUSTER_N"]
    tiles = math.ceil(4096 / config["BM"]) * math.ceil(4096 / config["BN"])
    waves = math.ceil(tiles / 132)
    assert seconds(problem, config, bits, FAST) == pytest.approx(
        waves * 65 * pieces * COSTS.half_aligned_row + (cluster > 1) * COSTS.cluster_launch, rel=0.01
    )
    assert seconds(problem, config, 0, FAST) < 0.1 * seconds(problem, config, bits, FAST)


@pytest.mark.parametrize(
    ("layout", "m", "change", "pieces"),
    [
        ("TT", 4096, {}, 3 * 64), ("TN", 4096, {}, 3 * 64), ("TT", 4096, {"CLUSTER_M": 2}, 3 * 32),
        ("TT", 4096, {"BN": 160}, 0), ("TT", 4096, {"SWAP": 0}, 0), ("NT", 4096, {}, 0), ("TT", 152, {}, 0),
    ],
    ids=["TT", "TN", "shared", "on 32 bytes", "K-major", "NT", "one tile"],
)  # fmt: skip
def test_every_second_tile_across_k_starts_on_16_bytes_only(
    layout: str, m: int, change: dict[str, int], pieces: int
) -> None:
    """Tiles of 152 columns of A: every second one is loaded row by row. The step is the mean of both."""
    problem = Problem(m, 4096, 4096, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    config = LARGE | {"CLUSTER_M": 1, "BN": 152, "SWAP": 1} | change
    rows, cols = (4096, m) if config["SWAP"] else (m, 4096)
    tiles = math.ceil(rows / config["BM"]) * math.ceil(cols / config["BN"])
    slow = math.ceil(tiles / 132) * 64 * pieces * COSTS.half_aligned_row / 2
    found = seconds(problem, config, 0, FAST) - (config["CLUSTER_M"] > 1) * COSTS.cluster_launch
    assert found == pytest.approx(slow, rel=0.02) if pieces else found < 1e-6


@pytest.mark.parametrize("swap", [0, 1])
def test_rows_beyond_the_matrix_cost_nothing(swap: int) -> None:
    few = Problem(8, 4096, 4096, BF16, BF16, trans_b=True)
    config = SPLIT | {"SPLIT": 1, "SWAP": swap}
    assert seconds(few, config, 8, FAST) == pytest.approx(64 * 8 * COSTS.half_aligned_row, rel=0.1)
    assert seconds(few, config, 16, FAST) == pytest.approx(64 * 64 * COSTS.half_aligned_row, rel=0.1)


def test_half_aligned_rows_cost_nothing_where_something_else_limits() -> None:
    """At 4096x4096x4104 on an H200, clusters of 1x1 lost 45 % and those of 2x1 nothing."""
    problem = Problem(4096, 4096, 4104, BF16, BF16, trans_b=True)
    apart, shared = (LARGE | {"CLUSTER_M": m} for m in (1, 2))
    assert seconds(problem, apart, 24, FITTED) > 1.3 * seconds(problem, apart, 0, FITTED)
    assert seconds(problem, shared, 24, FITTED) == pytest.approx(seconds(problem, shared, 0, FITTED), rel=0.03)


@pytest.mark.parametrize("cluster", [{"CLUSTER_M": 2}, {"CLUSTER_N": 2}])
def test_a_launch_of_clusters_takes_longer(cluster: dict[str, int]) -> None:
    apart = LARGE | {"CLUSTER_M": 1}
    fast = Constants(l2=1e15, capped_bytes=1e18)
    for size in (256, 1024, 4096):
        square = Problem(size, size, size, BF16, BF16)
        more = seconds(square, apart | cluster, constants=fast) - seconds(square, apart, constants=fast)
        assert more == pytest.approx(COSTS.cluster_launch, rel=0.01)


def test_a_larger_group_saves_dram_traffic() -> None:
    huge = Problem(32768, 32768, 32768, BF16)
    slow = Constants(dram=4e11)
    assert seconds(huge, LARGE, constants=slow) < seconds(huge, LARGE | {"GROUP": 1}, constants=slow)


def test_resident_blocks_are_limited_by_shared_memory_and_registers() -> None:
    deep, shallow = SPLIT | {"STAGES": 8}, SPLIT | {"STAGES": 3}
    wide = SPLIT | {"BM": 128, "BN": 128, "STAGES": 2, "CONSUMERS": 1}
    assert list(resident_blocks(tiles_of([deep, shallow, wide]), CHIP)) == [
        233_472 // (8 * 128 * 128 + 4 * 64 * 64 + 1024),
        65_536 // (64 * 64 + 256 * 80),
        65_536 // (128 * 128 + 256 * 80),
    ]
