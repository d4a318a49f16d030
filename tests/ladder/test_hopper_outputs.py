"""How the Hopper rungs store their outputs: by TMA, by threads or from registers; and tiles of two widths."""

from __future__ import annotations

import random

import pytest
from hopper_problems import CLUSTER, LAYOUTS, STORING, of_layout, random_config, random_problem

from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.renamed import DIRECT, THREADS, TMA
from gemmsmith.ladder.families.hopper_store import box_width
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, Problem, ceil_div


@pytest.mark.parametrize("name", STORING)
def test_outputs_that_no_map_describes_are_stored_by_threads(name: str) -> None:
    spec = rung_named(name)
    good = Problem(512, 512, 512, BF16, BF16)
    places = (256, 256, 256)
    by_tma = spec.specialize(spec.config(), good, places)
    assert (by_tma["STORE_MODE"], by_tma["STORE_BOXES"] > 0) == (TMA, True)
    for problem, addresses in (
        (good.with_(ldc=513), places), (good, (256, 256, 258)), (good, (256, 256, 264)), (good.with_(n=509), places),
        (good.with_(n=509, ldc=512), places), (good.with_(batch=2, stride_c=512 * 512 + 1), places),
    ):  # fmt: skip
        fitted = spec.specialize(spec.config(), problem, addresses)
        assert fitted == by_tma.with_(STORE_MODE=THREADS), str(problem)
        assert spec.tensor_maps is not None
        assert spec.tensor_maps(problem, fitted).keys() == {"map_a", "map_b"}
        assert spec.geometry(problem, fitted).smem == spec.geometry(good, by_tma).smem
    single = good.with_(m=1, ldc=513)
    assert spec.specialize(spec.config(), single, places)["STORE_MODE"] == TMA, "one row has no step to the next"


@pytest.mark.parametrize("name", STORING)
def test_outputs_of_32_bits_are_stored_by_tma_or_from_registers(name: str) -> None:
    spec = rung_named(name)
    for problem in (Problem(512, 512, 512, BF16, FP32), Problem(512, 509, 512, BF16, FP32)):
        for address in (256, 260):
            fitted = spec.specialize(spec.config(), problem, (256, 256, address))
            by_tma = name == CLUSTER.name and problem.n == 512 and address == 256
            assert fitted["STORE_MODE"] == (TMA if by_tma else DIRECT)
            assert (fitted["STORE_BOXES"] > 0) == by_tma
            assert spec.tensor_maps is not None
            assert ("map_c" in spec.tensor_maps(problem, fitted)) == by_tma


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", STORING)
def test_as_many_boxes_are_staged_as_fit(name: str, seed: int) -> None:
    dice = random.Random(f"boxes {name} {seed}")
    spec, (problem, places) = rung_named(name), random_problem(dice)
    config = random_config(spec, dice)
    fitted = spec.specialize(config, problem, places[:3])
    swap, sliced = config.get("SWAP", 0), config.get("SLICES", 1) * config.get("CLUSTER_K", 1) > 1
    size = problem.out_dtype.itemsize if name == CLUSTER.name else 2
    mode, count, width = fitted["STORE_MODE"], fitted["STORE_BOXES"], 8 if swap else box_width(config, size)
    direct = config.with_(STORE_MODE=DIRECT, STORE_BOXES=0, **({} if mode == TMA else {"TAIL_BN": 0}))
    assert fitted.with_(STORE_MODE=DIRECT, STORE_BOXES=0) == direct, "nothing else is changed"
    assert not spec.illegal(fitted)
    assert spec.tensor_maps is not None
    assert ("map_c" in spec.tensor_maps(problem, fitted)) == (mode == TMA)
    k_tiles = spec.geometry(problem, direct).smem
    box = config["CONSUMERS"] * 64 * width * size  # one for each warpgroup
    assert spec.geometry(problem, fitted).smem == k_tiles + count * box
    assert (mode == DIRECT) == (count == 0)
    if (problem.out_dtype == FP32 and name != CLUSTER.name) or config["STORE_MODE"] == DIRECT or sliced:
        assert mode == DIRECT
        return
    boxes = config["BN"] // width
    counts = [n for n in range(1, boxes + 1) if boxes % n == 0 or (problem.out_dtype == FP32 and not swap)]
    if swap:  # also two of equal parts; more than all where a consumer has several times 64 columns
        several = config["BM"] > 64 * config["CONSUMERS"]
        counts = [n for n in {*counts, *(2 * each for each in counts)} if (several or n <= boxes) and n <= 64]
    fit = [n for n in counts if k_tiles + n * box <= LARGEST_SMEM]
    rows = [places.c + size * (z * problem.stride_c + row * problem.ldc)
            for z in range(min(problem.batch, 2)) for row in range(min(problem.m, 2))]  # fmt: skip
    aligned = all(row % 16 == 0 and (row + size * problem.n) % 16 == 0 for row in rows)
    # Threads store no transposed outputs, and none of 32 bits.
    if (swap or problem.out_dtype == FP32) and not (aligned and config["STORE_MODE"] == TMA):
        assert (mode, count) == (DIRECT, 0)
        return
    assert count == max(fit, default=0)
    assert mode == (DIRECT if not fit else TMA if aligned and config["STORE_MODE"] == TMA else THREADS)


@pytest.mark.parametrize("name", STORING)
def test_the_random_problems_have_all_store_modes(name: str) -> None:
    seen = set()
    for seed in range(120):
        dice = random.Random(f"boxes {name} {seed}")
        spec, (problem, places) = rung_named(name), random_problem(dice)
        seen.add(spec.specialize(random_config(spec, dice), problem, places[:3])["STORE_MODE"])
    assert seen == {DIRECT, THREADS, TMA}


# --- tiles of two widths

TALL = {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}
TAIL_TILES = [TALL | {"TAIL_BN": 128}, TALL | {"TAIL_BN": 64}, {"TAIL_BN": 192}, {"TAIL_BN": 128, "CLUSTER_M": 4}]


@pytest.mark.parametrize("changes", TAIL_TILES, ids=str)
def test_tail_tiles_are_for_outputs_that_tma_stores(changes: dict[str, int]) -> None:
    config, good, places = CLUSTER.config(changes), Problem(512, 512, 512, BF16, BF16), (256, 256, 256)
    assert CLUSTER.specialize(config, good, places)["TAIL_BN"] == changes["TAIL_BN"]
    for problem, addresses in ((good.with_(n=509), places), (good.with_(ldc=513), places), (good, (256, 256, 258))):
        fitted = CLUSTER.specialize(config, problem, addresses)
        assert (fitted["TAIL_BN"], fitted["STORE_MODE"]) == (0, THREADS), str(problem)
    of_32_bits = CLUSTER.specialize(config, good.with_(out_dtype=FP32), places)
    assert (of_32_bits["TAIL_BN"], of_32_bits["STORE_MODE"]) == (changes["TAIL_BN"], TMA)
    at_odd_rows = CLUSTER.specialize(config, good.with_(out_dtype=FP32, n=510), places)
    assert (at_odd_rows["TAIL_BN"], at_odd_rows["STORE_MODE"]) == (0, DIRECT)
    by_threads = CLUSTER.specialize(CLUSTER.config(changes | {"STORE_MODE": THREADS}), good, places)
    assert (by_threads["TAIL_BN"], by_threads["STORE_MODE"]) == (0, THREADS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("changes", TAIL_TILES, ids=str)
def test_b_of_two_widths_comes_in_boxes_of_64_columns(changes: dict[str, int], layout: str) -> None:
    """Both widths are multiples of 64; with one width, a K-major k-tile is one box."""
    problem, config = of_layout(layout, 512, 512, 512), CLUSTER.config(changes)
    assert CLUSTER.tensor_maps is not None
    maps, alike = (CLUSTER.tensor_maps(problem, each) for each in (config, config.with_(TAIL_BN=0)))
    assert maps["map_b"].box == (64, 64 // config["CLUSTER_M"], 1)
    assert alike["map_b"].box == (64, (config["BN"] if problem.trans_b else 64) // config["CLUSTER_M"], 1)
    assert {name: each for name, each in maps.items() if name != "map_b"} == {
        name: each for name, each in alike.items() if name != "map_b"
    }


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("changes", TAIL_TILES, ids=str)
def test_a_grid_has_room_for_tail_tiles_alone(changes: dict[str, int], batch: int) -> None:
    """C may consist of tail tiles only. 16 bytes tell the threads of a block how many there are."""
    config, problem = CLUSTER.config(changes), Problem(1000, 3001, 512, BF16, FP32, batch=batch)
    down = ceil_div(1000, config["BM"] * config["CLUSTER_M"])
    across = ceil_div(3001, config["TAIL_BN"] * config["CLUSTER_N"])
    cluster = config["CLUSTER_M"] * config["CLUSTER_N"]
    launched = CLUSTER.geometry(problem, config)
    assert launched.grid == (down * across * batch * cluster, 1, 1)
    assert launched.cluster == (cluster, 1, 1)
    assert launched.smem == CLUSTER.geometry(problem, config.with_(TAIL_BN=0)).smem + 16
