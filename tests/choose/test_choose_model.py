"""The cost model, its fit to measured times, and the candidates that it puts in order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fake_hopper import CLUSTER, SPLIT_K

from gemmsmith.choose import candidates
from gemmsmith.choose.candidates import Candidate, menu, neighbours, ranked
from gemmsmith.choose.cost import (
    _CLUSTER,
    _COPYING,
    _HALF_ALIGNED,
    _SHIFTED,
    CONSTANTS,
    Constants,
    _resident,
    chip_of,
    predicted_seconds,
    shape_of,
    tiles_of,
)
from gemmsmith.choose.fit import LEAST_SAMPLES, Sample, fit
from gemmsmith.choose.key import KIND, ShapeKey
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, Problem

CHIP = chip_of(gpu_named("H200"))
SQUARE = Problem(4096, 4096, 4096, BF16, BF16)
LARGE = {"BM": 128, "BN": 256, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8}
REAL_SPECS = candidates.hopper_specs
STAGED = {"BM": 128, "BN": 192, "STAGES": 3, "CONSUMERS": 2, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8,
          "STORE_MODE": 2, "STORE_BOXES": 1}  # fmt: skip
SPLIT = {"BM": 64, "BN": 64, "STAGES": 4, "CONSUMERS": 1, "SPLIT": 4, "SWAP": 0}


@pytest.fixture(autouse=True)
def _hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    def specs() -> tuple[KernelSpec, ...]:
        return (CLUSTER, SPLIT_K)

    monkeypatch.setattr(candidates, "hopper_specs", specs)


# Nothing is waited for but what a test is about.
FAST = Constants(clock=1e14, dram=1e17, l2=1e17, ingress=1e16, latency=1e-12, step=1e-13, tile=1e-12, store=1e16,
                 launch=1e-12, reduction=1e-12)  # fmt: skip
FITTED = Constants(l2=1.4e13, ingress=1.5e11)  # about what an H200 has


def seconds(problem: Problem, config: dict[str, int], unaligned: int = 0, constants: Constants | None = None) -> float:
    return float(predicted_seconds(shape_of(problem, unaligned), tiles_of([config]), CHIP, constants or Constants())[0])


# --- the model


def test_predictions_respect_what_no_kernel_can_beat() -> None:
    for problem in (SQUARE, SQUARE.with_(m=8192), SQUARE.with_(m=16), Problem(1, 1, 1, BF16)):
        for config in (LARGE, SPLIT):
            found = seconds(problem, config)
            assert found > problem.flops / (CHIP.sms * CHIP.flops_per_clock * Constants().clock)
            assert found > problem.compulsory_bytes / Constants().dram
            assert found > Constants().launch


def test_waves_are_whole() -> None:
    """132 tiles and 133: the last one takes as long as all others."""
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
    turned = few.with_(m=4096, n=16)
    assert seconds(turned, narrow) == pytest.approx(seconds(few, narrow | {"SWAP": 1}))


def test_copies_and_batches_cost() -> None:
    plain, copied = seconds(SQUARE, LARGE), seconds(SQUARE, LARGE, unaligned=1)
    assert copied - plain == pytest.approx(_COPYING + Constants().launch + 2 * 2 * 4096**2 / Constants().dram)
    assert seconds(SQUARE, LARGE, unaligned=3) > copied
    assert seconds(SQUARE.with_(batch=8), LARGE) == pytest.approx(8 * plain, rel=0.1)


@pytest.mark.parametrize("swap", [0, 1])
def test_a_loose_operand_is_not_copied_and_the_other_is(swap: int) -> None:
    own, other = (1, 2) if swap == 0 else (2, 1)
    few = Problem(64, 4096, 4096, BF16) if swap else Problem(4096, 64, 4096, BF16)
    copied, loose = SPLIT | {"SWAP": swap}, SPLIT | {"SWAP": swap, "UNALIGNED_OPERANDS": 1}
    constants = Constants()
    large, small = (_COPYING + constants.launch + 2 * 2 * rows * 4096 / constants.dram for rows in (4096, 64))
    assert seconds(few, copied, unaligned=own) - seconds(few, copied) == pytest.approx(large)
    assert seconds(few, copied, unaligned=other) - seconds(few, copied) == pytest.approx(small)
    assert seconds(few, loose, unaligned=own) == seconds(few, loose)
    assert seconds(few, loose, unaligned=other) - seconds(few, loose) == pytest.approx(small)
    assert seconds(few, loose, unaligned=3) == seconds(few, loose, unaligned=other)
    assert seconds(few, loose, unaligned=own) < seconds(few, copied, unaligned=own)


@pytest.mark.parametrize("swap", [0, 1])
def test_a_loose_operand_costs_on_its_way_through_registers(swap: int) -> None:
    fast = Constants(dram=1e14, l2=1e14, ingress=1e14, latency=1e-9)
    one, two = (
        SPLIT | {"SWAP": swap, "DEPTH": depth, "STAGES": 4 // depth, "UNALIGNED_OPERANDS": 1} for depth in (1, 2)
    )
    plain = [seconds(SQUARE, config | {"UNALIGNED_OPERANDS": 0}, constants=fast) for config in (one, two)]
    loose = [seconds(SQUARE, config, constants=fast) for config in (one, two)]
    assert loose[0] > 1.2 * plain[0]
    shorter, longer = loose[0] - plain[0], loose[1] - plain[1]
    assert 0.8 * shorter < longer < 0.95 * shorter, "two slices have the sectors at a line's ends once"


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize(("m", "n"), [(64, 4096), (4096, 64), (64, 64)])
def test_where_both_are_loose_no_copy_is_paid_for(swap: int, m: int, n: int) -> None:
    problem, config = Problem(m, n, 512, BF16), SPLIT | {"SWAP": swap}
    both = [seconds(problem, config | {"UNALIGNED_OPERANDS": 2}, unaligned) for unaligned in (0, 1, 2, 3)]
    assert len(set(both)) == 1
    for loose in (0, 1):
        paid = seconds(problem, config | {"UNALIGNED_OPERANDS": loose}, unaligned=3) - seconds(
            problem, config | {"UNALIGNED_OPERANDS": loose}
        )
        assert paid > _COPYING


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize(("depth", "split", "stages"), [(1, 1, 64), (2, 1, 32), (4, 1, 16), (1, 4, 16), (2, 8, 4)])
def test_the_other_loose_operand_is_waited_for_in_every_stage(swap: int, depth: int, split: int, stages: int) -> None:
    config = SPLIT | {"SPLIT": split, "SWAP": swap, "DEPTH": depth}
    one, both = (
        seconds(Problem(64, 64, 4096, BF16), config | {"UNALIGNED_OPERANDS": n}, constants=FAST) for n in (1, 2)
    )
    assert both - one == pytest.approx(stages * _SHIFTED, rel=0.01)


def test_of_a_deeper_k_that_is_not_divided_operands_are_rather_copied() -> None:
    """Without what the stages of the other loose operand cost, 12 of them would still take less than a copy."""
    alone, divided = SPLIT | {"SPLIT": 1}, SPLIT | {"SPLIT": 8}
    for k, config, copied in ((128, alone, False), (768, alone, True), (1024, divided, False)):
        small = Problem(64, 64, k, BF16)
        one, *others = (seconds(small, config | {"UNALIGNED_OPERANDS": loose}, unaligned=3) for loose in (2, 0, 1))
        assert (min(others) < one) == copied, (k, config)


def test_an_unaligned_c_is_dearer_in_narrow_boxes() -> None:
    """176 columns are boxes of 16, 192 are boxes of 64."""
    slow, tile = replace(FAST, store=1e9), STAGED | {"BM": 192, "STAGES": 4, "CONSUMERS": 3}  # four waves of either
    wide, narrow = (seconds(SQUARE, tile | {"BN": bn}, 4, slow) / bn for bn in (192, 176))
    assert seconds(SQUARE, tile, 0, slow) / 192 < wide < narrow
    of_32_bits = SQUARE.with_(out_dtype=FP32)
    assert seconds(of_32_bits, STAGED, unaligned=4) == seconds(of_32_bits, STAGED), "stored from registers"


def test_the_copy_engine_stores_narrow_boxes_row_by_row() -> None:
    slow = replace(FAST, store=1e9)
    flat, one = Problem(4096, 5632, 64, BF16, BF16), STAGED | {"CLUSTER_M": 1}
    wide = seconds(flat, one | {"BN": 192}, constants=slow) / 8 / 192  # waves of 960 tiles on 132 SMs
    for bn, waves, times in ((176, 8, 4), (160, 9, 2), (128, 11, 1)):
        found = seconds(flat, one | {"BN": bn}, constants=slow) / waves / bn
        assert found / wide == pytest.approx(times, rel=0.01), bn
        by_threads = one | {"BN": bn, "STORE_MODE": 0}
        assert seconds(flat, by_threads, constants=slow) / waves / bn == pytest.approx(wide, rel=0.01)
    of_32_bits = flat.with_(out_dtype=FP32)
    assert seconds(of_32_bits, one | {"BN": 176}, constants=slow) / 8 / 176 == pytest.approx(2 * wide, rel=0.01)


@pytest.mark.parametrize(
    ("layout", "bits", "change", "pieces"),
    [
        ("NT", 24, {}, 128 + 256), ("NT", 24, {"CLUSTER_N": 2}, 64 + 256), ("NT", 24, {"CLUSTER_M": 2}, 128 + 128),
        ("NT", 8, {}, 128), ("NT", 16, {}, 256), ("NT", 8, {"CLUSTER_N": 2}, 64), ("NT", 16, {"CLUSTER_M": 2}, 128),
        ("NN", 24, {"BN": 208}, 128 + 4 * 64), ("NT", 24, {"BN": 208}, 128 + 208), ("NN", 8, {"BN": 208}, 128),
        ("TN", 8, {"BM": 192, "BN": 128}, 3 * 64), ("TT", 24, {"BN": 208}, 2 * 64 + 208),
    ],
)  # fmt: skip
def test_half_aligned_rows_are_fetched_piece_by_piece(
    layout: str, bits: int, change: dict[str, int], pieces: int
) -> None:
    """Only what a block fetches itself counts: 65 slices, in waves of tiles."""
    problem = Problem(4096, 4096, 4104, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    config = LARGE | {"CLUSTER_M": 1} | change
    cluster = config["CLUSTER_M"] * config["CLUSTER_N"]
    tiles = math.ceil(4096 / config["BM"]) * math.ceil(4096 / config["BN"])
    waves = math.ceil(tiles / 132)
    assert seconds(problem, config, bits, FAST) == pytest.approx(
        waves * 65 * pieces * _HALF_ALIGNED + (cluster > 1) * _CLUSTER, rel=0.01
    )
    assert seconds(problem, config, 0, FAST) < 0.1 * seconds(problem, config, bits, FAST)


@pytest.mark.parametrize("swap", [0, 1])
def test_half_aligned_rows_that_are_not_there_cost_nothing(swap: int) -> None:
    few = Problem(8, 4096, 4096, BF16, BF16, trans_b=True)
    config = SPLIT | {"SPLIT": 1, "SWAP": swap}
    assert seconds(few, config, 8, FAST) == pytest.approx(64 * 8 * _HALF_ALIGNED, rel=0.1)
    assert seconds(few, config, 16, FAST) == pytest.approx(64 * 64 * _HALF_ALIGNED, rel=0.1)


def test_half_aligned_rows_cost_nothing_where_something_else_is_waited_for() -> None:
    """Of 4096 x 4096 x 4104 on an H200, 1x1 was slowed down by 45 % and 2x1 not at all."""
    problem = Problem(4096, 4096, 4104, BF16, BF16, trans_b=True)
    apart, shared = (LARGE | {"CLUSTER_M": m} for m in (1, 2))
    assert seconds(problem, apart, 24, FITTED) > 1.3 * seconds(problem, apart, 0, FITTED)
    assert seconds(problem, shared, 24, FITTED) == pytest.approx(seconds(problem, shared, 0, FITTED), rel=0.03)


@pytest.mark.parametrize("cluster", [{"CLUSTER_M": 2}, {"CLUSTER_N": 2}])
def test_a_launch_of_clusters_takes_longer(cluster: dict[str, int]) -> None:
    apart = LARGE | {"CLUSTER_M": 1}
    fast = Constants(l2=1e15)
    for size in (256, 1024, 4096):
        square = Problem(size, size, size, BF16, BF16)
        more = seconds(square, apart | cluster, constants=fast) - seconds(square, apart, constants=fast)
        assert more == pytest.approx(_CLUSTER, rel=0.01)


def test_a_larger_group_saves_memory_traffic_of_large_products() -> None:
    huge = Problem(32768, 32768, 32768, BF16)
    slow = Constants(dram=4e11)
    assert seconds(huge, LARGE, constants=slow) < seconds(huge, LARGE | {"GROUP": 1}, constants=slow)


def test_blocks_on_an_sm_are_limited_by_shared_memory_and_registers() -> None:
    deep, shallow = SPLIT | {"STAGES": 8}, SPLIT | {"STAGES": 3}
    wide = SPLIT | {"BM": 128, "BN": 128, "STAGES": 2, "CONSUMERS": 1}
    assert list(_resident(tiles_of([deep, shallow, wide]), CHIP)) == [
        233_472 // (8 * 128 * 128 + 4 * 64 * 64 + 1024),
        65_536 // (64 * 64 + 256 * 80),
        65_536 // (128 * 128 + 256 * 80),
    ]


# --- the fit


def samples(truth: Constants, noise: float = 0.0) -> list[Sample]:
    rng = np.random.Generator(np.random.PCG64(3))
    found = []
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 512), (256, 256, 8192), (16, 8192, 8192), (128, 128, 64)):
        for config in (LARGE, LARGE | {"CLUSTER_M": 1}, LARGE | {"BM": 64, "BN": 64, "CONSUMERS": 1}, SPLIT,
                       SPLIT | {"SPLIT": 1}, SPLIT | {"BN": 16, "SWAP": 1, "STAGES": 8}):  # fmt: skip
            problem = Problem(m, n, k, BF16)
            time = seconds(problem, config, constants=truth) * math.exp(noise * rng.standard_normal())
            found.append(Sample(ShapeKey(KIND, 4, "NN", m, n, k), tuple(config.items()), time))
    return found


def test_a_fit_finds_the_constants_that_made_the_times() -> None:
    truth = Constants(clock=1.7e9, dram=3e12, launch=4e-6, latency=2e-6)
    before = fit(samples(truth)[: LEAST_SAMPLES - 1], CHIP)
    assert before.constants == Constants(), "too few to say anything"
    assert before.error > 0.1
    found = fit(samples(truth), CHIP)
    assert found.samples == 30
    assert found.error < 0.01
    for name in ("clock", "dram", "launch"):
        assert getattr(found.constants, name) == pytest.approx(getattr(truth, name), rel=0.1), name


@pytest.mark.parametrize("layout", ["NT", "NN", "TN"])
def test_a_fit_knows_which_shapes_are_half_aligned(layout: str) -> None:
    """By their sizes: matrices that were tuned are contiguous."""
    problem = Problem(4096, 4096, 4104, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    bits = {"NT": 24, "NN": 8, "TN": 0}[layout]
    configs = (LARGE, LARGE | {"BM": 64, "CLUSTER_M": 1}, LARGE | {"BN": 64})
    key = ShapeKey(KIND, 4, layout, 4096, 4096, 4104)
    made = [Sample(key, tuple(config.items()), seconds(problem, config, bits, FITTED)) for config in configs]
    assert fit(made, CHIP, FITTED).error < 1e-9


def test_noise_stays_in_the_error() -> None:
    found = fit(samples(Constants(), noise=0.05), CHIP)
    assert 0.02 < found.error < 0.07
    assert found.constants.clock == pytest.approx(Constants().clock, rel=0.2)


def test_a_shape_counts_once_however_often_it_was_timed_and_slow_configurations_little() -> None:
    """With so many that what holds constants near their start does not count."""
    noisy = samples(Constants(), noise=0.2)
    one, others = ([s for s in noisy if (s.key.m == 16) is which] for which in (True, False))
    usual = fit(noisy * 20, CHIP)
    slow = [replace(s, seconds=s.seconds * 30) for s in one]
    for more in ([*one, *others * 20], [*noisy * 20, *slow * 20]):
        found = fit(more, CHIP)
        assert found.error == pytest.approx(usual.error, rel=0.01)
        assert found.constants.clock == pytest.approx(usual.constants.clock, rel=0.01)


def test_a_constant_that_nothing_depends_on_stays() -> None:
    never_split = [s for s in samples(Constants(dram=3e12)) if dict(s.config).get("SPLIT", 1) == 1]
    found = fit([*never_split, *never_split], CHIP)
    assert found.constants.reduction == pytest.approx(Constants().reduction)
    assert all(getattr(found.constants, name) > 0 for name in CONSTANTS)


def test_nothing_measured_is_nothing_fitted() -> None:
    found = fit([], CHIP, Constants(dram=1e12))
    assert found.constants.dram == 1e12
    assert math.isnan(found.error)


# --- the candidates


@pytest.mark.parametrize("spec", [CLUSTER, SPLIT_K], ids=lambda spec: spec.name)
def test_the_menu_is_legal_and_as_deep_as_fits(spec: KernelSpec) -> None:
    found = menu(spec, "NN")
    assert len(found.configs) > 200
    assert len(set(found.configs)) == len(found.configs)
    for config in found.configs[::7]:
        values = dict(config)
        assert spec.illegal(config) == []
        deeper = replace(config, values=tuple((values | {"STAGES": values["STAGES"] + 1}).items()))
        back = values["CONSUMERS"] * 64 * values["BN"] if values.get("STORE_MODE") else 0  # half of the outputs
        stage = values.get("DEPTH", 1) * (values["BM"] + values["BN"]) * 128
        smem = [each["STAGES"] * stage + back for each in (config, deeper)]
        two = spec == SPLIT_K and smem[0] <= 113 * 1024  # as deep as leaves room for a second block, up to eight
        fits = smem[1] <= (113 if two else 227) * 1024 and not spec.illegal(deeper)
        fits = fits and not (two and values["STAGES"] == 8)
        assert not fits, "one more stage must not fit beside room for outputs"
        used = values["STAGES"] * (values["BM"] + values["BN"]) * 128 + back
        assert used <= 227 * 1024
        sums = values["BM"] * values["BN"] / (128 * values["CONSUMERS"])
        assert sums <= (208 if values["CONSUMERS"] == 2 else 128)
        assert values.get("CLUSTER_M", 1) * values.get("CLUSTER_N", 1) <= 2


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_menu_has_loose_operands_in_all_tiles_of_one_cluster(layout: str) -> None:
    spec = rung_named("wgmma_split_k")
    found = menu(spec, layout).configs
    loose = [config for config in found if config["UNALIGNED_OPERANDS"]]
    assert {config["CLUSTERS"] for config in loose} == {1}
    assert {config["CLUSTERS"] for config in found} > {1}, "others share K among clusters"
    for name in ("BM", "BN", "SPLIT", "SWAP", "DEPTH"):
        assert {config[name] for config in loose} == {config[name] for config in found}, name
    both = [config for config in loose if config["UNALIGNED_OPERANDS"] == 2]
    for name in ("BM", "SPLIT", "SWAP", "DEPTH"):
        assert {config[name] for config in both} == {config[name] for config in found}, name
    assert {config["BN"] for config in both} == {config["BN"] for config in found if config["BN"] <= 192}
    sample = Problem(1024, 1024, 1024, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    assert all(spec.geometry(sample, config).smem <= 227 * 1024 for config in loose)


@pytest.mark.parametrize(
    ("problem", "addresses", "swaps"),
    [
        (Problem(64, 64, 64, BF16), None, set()), (Problem(64, 64, 63, BF16), None, {0}),
        (Problem(64, 63, 64, BF16), None, {1}), (Problem(64, 63, 63, BF16), None, {0, 1}),
        (Problem(64, 64, 64, BF16), (2, 0, 0), {0}), (Problem(64, 64, 64, BF16), (0, 2, 0), {1}),
        (Problem(64, 64, 64, BF16, BF16, ldc=67), None, set()), (Problem(64, 64, 64, BF16, BF16), (0, 0, 2), set()),
    ],
)  # fmt: skip
def test_an_operand_is_taken_loose_only_where_it_must_be_copied_otherwise(
    problem: Problem, addresses: tuple[int, int, int] | None, swaps: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", REAL_SPECS)
    found = ranked(problem, CHIP, Constants(), addresses=addresses)
    by_loose = [
        {dict(c.config)["SWAP"] for c in found if dict(c.config).get("UNALIGNED_OPERANDS") == n} for n in (0, 1, 2)
    ]
    others = {
        1 - swap for swap in swaps
    }  # in which it is the other operand, of which only UNALIGNED_OPERANDS = 2 spares the copy
    assert by_loose == [{0, 1}, swaps, others]
    assert all(math.isfinite(c.seconds) for c in found)


def test_a_layout_that_takes_more_shared_memory_has_fewer_stages() -> None:
    def doubled(problem: Problem, config: Config) -> Geometry:
        sides = config["BM"] + config["BN"] * (1 if problem.trans_b else 2)
        return Geometry((1, 1, 1), (256, 1, 1), config["STAGES"] * sides * 128)

    spec = replace(CLUSTER, name="wgmma_cluster", extra_defines=(("DOUBLED", "1"),), geometry=doubled)
    along_k, across = menu(spec, "NT").configs, menu(spec, "NN").configs
    assert sum(c["STAGES"] for c in across) < sum(c["STAGES"] for c in along_k)
    for config in across:
        assert doubled(SQUARE, config).smem <= 227 * 1024


def test_candidates_are_in_order_and_within_what_was_asked_for() -> None:
    everybody = ranked(SQUARE, CHIP, Constants())
    times = [c.seconds for c in everybody]
    assert times == sorted(times)
    assert len(everybody) == len(menu(CLUSTER, "NN").configs) + len(menu(SPLIT_K, "NN").configs)
    close = ranked(SQUARE, CHIP, Constants(), within=1.1)
    assert close == everybody[: len(close)]
    assert times[len(close) - 1] <= 1.1 * times[0] < times[len(close)]


def test_a_short_list_is_varied() -> None:
    found = ranked(SQUARE, CHIP, Constants(), count=12)
    assert len(found) == 12
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    sizes = [(c.spec.name, c.config["BM"], c.config["BN"]) for c in found]
    assert max(sizes.count(size) for size in sizes) <= 2
    assert found[0] == ranked(SQUARE, CHIP, Constants())[0]
    few = len(ranked(SQUARE, CHIP, Constants(), within=1.02))
    assert len(ranked(SQUARE, CHIP, Constants(), count=few, within=1.02)) == few, "filled up with what is alike"


def test_only_kernels_that_take_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", lambda: (CLUSTER, replace(SPLIT_K, layouts=("NT",))))
    assert {c.spec.name for c in ranked(SQUARE, CHIP, Constants())} == {"wgmma_cluster"}
    assert len({c.spec.name for c in ranked(SQUARE.with_(trans_b=True), CHIP, Constants())}) == 2
    assert ranked(Problem(4, 4, 4), CHIP, Constants()) == []


@pytest.mark.parametrize("spec", [CLUSTER, SPLIT_K], ids=lambda spec: spec.name)
def test_neighbours_are_legal_and_differ_in_one_thing(spec: KernelSpec) -> None:
    best = Candidate(spec, spec.config({"BM": 128, "BN": 128, "STAGES": 6, "CONSUMERS": 2}), 1.0)
    found = neighbours(best, SQUARE, CHIP, Constants())
    changed = []
    for near in found:
        assert spec.illegal(near.config) == []
        assert near.seconds > 0
        different = {name for name, value in near.config if best.config[name] != value}
        assert different
        changed.append("cluster" if "CLUSTER_M" in different or "CLUSTER_N" in different else min(different))
        pairs = ({"DEPTH", "STAGES"}, {"STORE_MODE", "STORE_BOXES"})
        assert len(different) == 1 or changed[-1] == "cluster" or different in pairs
    mine = {"cluster", "STORE_BOXES", "GROUP"} if spec is CLUSTER else {"SPLIT", "DEPTH"}
    assert set(changed) == {"STAGES", "BN"} | mine
    edge = Candidate(spec, spec.config({"BM": 128, "BN": 256, "STAGES": 2, "CONSUMERS": 2}), 1.0)
    assert {near.config["BN"] for near in neighbours(edge, SQUARE, CHIP, Constants())} == {240, 256}
    assert {near.config["STAGES"] for near in neighbours(edge, SQUARE, CHIP, Constants())} == {2}
    full = Candidate(spec, spec.config({"BM": 128, "BN": 128, "STAGES": 7, "CONSUMERS": 2}), 1.0)
    assert {near.config["BN"] for near in neighbours(full, SQUARE, CHIP, Constants())} == {112, 128}
