"""The ladder's specifications: presets, refusals with their arithmetic, launch geometry."""

from __future__ import annotations

import pytest

from gemmsmith.errors import ConfigError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs, simulated_rungs
from gemmsmith.problem import MAX_EXTENT, OUTPUTS, Problem, ceil_div

each_rung = pytest.mark.parametrize("spec", rungs(), ids=lambda spec: spec.name)


def problem_for(spec: KernelSpec, m: int, n: int, k: int) -> Problem:
    return Problem(m, n, k, dtype=spec.dtypes[0])


# --- configurations


@each_rung
def test_presets_are_legal_named_and_say_where_they_come_from(spec: KernelSpec) -> None:
    names = [preset.name for preset in spec.presets]
    assert names
    assert len(set(names)) == len(names)
    for preset in spec.presets:
        assert spec.config(preset=preset.name) == preset.config
        assert preset.published
        assert spec.geometry(problem_for(spec, 256, 256, 256), preset.config).threads % 32 == 0


def test_the_first_preset_is_the_default() -> None:
    different = [spec.name for spec in rungs() if spec.presets[0].config != spec.config()]
    assert different == ["wgmma_split_k"]  # whose presets are for other shapes than the default


def test_a_simulated_rung_has_a_small_configuration() -> None:
    for spec in simulated_rungs():
        assert spec.small, spec.name
        geometry = spec.geometry(problem_for(spec, 64, 64, 64), spec.small_config())
        assert 32 <= geometry.threads <= 256, spec.name


def test_a_value_may_be_given_by_its_name() -> None:
    spec = rung_named("wgmma_cluster")
    assert spec.config({"STORE_MODE": "direct"})["STORE_MODE"] == 0
    assert spec.config({"STORE_MODE": "threads", "BN": 128}) == spec.config({"STORE_MODE": 1, "BN": 128})


# Sweeps of the worklogs: every point is legal.
SWEPT = [
    *(("rectangular", {"UNROLL": u}) for u in (1, 2, 4, 8, 16)),
    *(("async_copy", {"UNROLL": u}) for u in (1, 2, 4, 8, 16)),
    *(("padded", {"PAD": p}) for p in (0, 1, 4, 8)),
    *(("padded", {"BK": bk}) for bk in (8, 16, 32)),
    *(("vectorized", {"VEC": v}) for v in (1, 2, 4)),
    *(("async_copy", {"STAGES": s}) for s in (2, 3, 4)),
    *(("rectangular", {"TM": tm, "TN": tn}) for tm, tn in ((4, 4), (8, 4), (8, 8), (16, 4), (16, 8), (4, 32))),
    *(("rectangular", {"BM": 128, "BN": 128, "BK": 16, "TM": tm, "TN": tn}) for tm, tn in ((8, 64), (16, 16))),
]


@pytest.mark.parametrize(("name", "changes"), SWEPT, ids=[f"{n}-{c}" for n, c in SWEPT])
def test_a_published_sweep_can_be_repeated(name: str, changes: dict[str, int]) -> None:
    assert dict(rung_named(name).config(changes)).items() >= changes.items()


REFUSED = [
    ("naive", {"TILE": 33}, "TILE=33 is not one of 8, 16, 32"),
    ("register_block", {"TILE": 64, "SIDE": 1}, "(64/1)·(64/1) = 4096 threads, but a block has 32 to 1024"),
    ("block_tile_1d", {"BM": 128, "BN": 256, "TM": 4}, "BM·BN/TM = 128·256/4 = 8192 threads"),
    ("block_tile_1d", {"BM": 32, "BN": 256}, "a k-tile of A has BM·BK = 32·8 = 256 elements"),
    ("block_tile_2d", {"BM": 32, "BN": 32, "TM": 16}, "BM·BN/(TM·TN) = 32·32/(16·8) = 8 threads"),
    ("block_tile_2d", {"BM": 256, "BN": 256, "BK": 32, "MIN_BLOCKS": 1},
     "4·(BM+BN)·BK = 4·(256+256)·32 = 65,536 B of shared memory, but 49,152 B is the most a kernel can declare"),
    ("block_tile_2d", {"BM": 128, "BN": 128}, "MIN_BLOCKS=8 blocks of 256 threads are 2048 threads"),
    ("vectorized", {"BM": 64, "BN": 64, "TM": 4, "TN": 4},
     "a k-tile of A has BM·BK = 64·8 = 512 elements, which is not a multiple of 256 threads · 4 elements per load"),
    ("padded", {"BM": 256, "BN": 128, "BK": 32}, "4·(BM+PAD+BN)·BK = 4·(256+4+128)·32 = 49,664 B"),
    ("padded", {"PAD": 2}, "PAD=2 is not one of 0, 1, 4, 8"),
    ("rectangular", {"TN": 128}, "TN=128 does not divide BN=64"),
    ("rectangular", {"TN": 64}, "BM·BN/(TM·TN) = 64·64/(8·64) = 8 threads"),
    ("rectangular", {"BM": 256, "BN": 128, "BK": 16, "TN": 128},
     "TM·TN = 8·128 = 1024 accumulators, but a thread has 255 registers"),
    ("rectangular", {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 64, "UNROLL": 16},
     "TM·TN·UNROLL = 8·64·16 = 8192 multiplications in a row"),
    ("rectangular", {"BK": 8, "UNROLL": 16}, "UNROLL=16 does not divide BK=8"),
    ("rectangular", {"BM": 256, "BN": 256, "TM": 16, "TN": 16, "MIN_BLOCKS": 1},
     "4·(BM·(BK+PAD)+BK·BN) = 4·(256·(64+4)+64·256) = 135,168 B of shared memory, but 101,376 B is the most a block"),
    ("warp_tile", {"WM": 128, "BM": 64}, "WM=128 does not divide BM=64"),
    ("warp_tile", {"WM": 16, "WN": 16}, "WM·WN = 16·16 = 256 outputs, which is not a multiple of "
     "32·TM·TN·WNITER = 32·8·4·4 = 4096"),
    ("warp_tile", {"WM": 16, "WN": 16, "WNITER": 1, "TM": 4, "TN": 4},
     "32·(BM/WM)·(BN/WN) = 32·(128/16)·(128/16) = 2048 threads"),
    ("async_copy", {"BK": 64, "STAGES": 4},
     "STAGES·4·(BM·(BK+PAD)+BK·BN) = 4·4·(64·(64+4)+64·64) = 135,168 B"),
    ("async_copy", {"BK": 8}, "UNROLL=16 does not divide BK=8"),
    ("async_copy", {"STAGES": 1}, "STAGES=1 is not one of 2, 3, 4"),
    ("warp_tile_mixed", {"BM": 64, "BK": 8, "WM": 32, "WN": 32, "WNITER": 1, "UNROLL": 8},
     "a k-tile of A has BM·BK = 64·8 = 512 elements, which is not a multiple of 256 threads · 8"),
    ("wmma", {"PAD": 4}, "PAD=4 is not one of 0, 8, 16"),
    ("wmma", {"BN": 64, "WN": 128}, "WN=128 does not divide BN=64"),
    ("mma_swizzled", {"WM": 16, "WN": 16}, "32·(BM/WM)·(BN/WN) = 32·(128/16)·(128/16) = 2048 threads"),
    ("mma_swizzled", {"BM": 256, "WM": 128, "WN": 32, "BN": 32}, "BN=32 is not one of 64, 128, 256"),
    ("mma_pipelined", {"BM": 256, "WM": 128, "WN": 128}, "WM·WN/32 = 128·128/32 = 512 accumulators per lane"),
    ("mma_pipelined", {"BK_BYTES": 32}, "BK_BYTES=32 is not one of 64, 128"),
    ("mma_pipelined", {"STAGES": 2}, "STAGES=2 is not one of 3, 4, 5, 6"),
    ("mma_pipelined", {"BM": 256, "BN": 64, "WM": 64, "WN": 64, "MIN_BLOCKS": 4, "BK_BYTES": 128, "STAGES": 6},
     "STAGES·(BM+BN)·BK_BYTES = 6·(256+64)·128 = 245,760 B of shared memory, but 232,448 B"),
    ("wgmma_split_k", {"UNALIGNED_OPERANDS": 3}, "UNALIGNED_OPERANDS=3 is not one of 0, 1, 2"),
    ("wgmma_split_k", {"BN": 240, "STAGES": 2, "UNALIGNED_OPERANDS": 2},
     "a producer thread holds (BM+2·BN)·DEPTH/4 = (64+2·240)·1/4 = 136 registers of unaligned operands, but with 1 "
     "consumers 128 fit"),
    ("wgmma_split_k", {"BN": 112, "STAGES": 2, "DEPTH": 2, "UNALIGNED_OPERANDS": 2},
     "(64+2·112)·2/4 = 144 registers of unaligned operands"),
    ("wgmma_split_k", {"BM": 128, "BN": 144, "STAGES": 2, "CONSUMERS": 2, "UNALIGNED_OPERANDS": 2},
     "(128+2·144)·1/4 = 104 registers of unaligned operands, but with 2 consumers 96 fit"),
    ("wgmma_split_k", {"BM": 192, "BN": 48, "STAGES": 2, "CONSUMERS": 3, "SPLIT": 1, "UNALIGNED_OPERANDS": 2},
     "(192+2·48)·1/4 = 72 registers of unaligned operands, but with 3 consumers 64 fit"),
    ("wgmma_split_k", {"BM": 128, "BN": 16, "STAGES": 2, "CONSUMERS": 2, "DEPTH": 4, "UNALIGNED_OPERANDS": 1},
     "a producer thread holds BM·DEPTH/4 = 128·4/4 = 128 registers of unaligned operands, but with 2 consumers 96"),
    ("wgmma_persistent", {"STORE_MODE": 3}, "STORE_MODE=3 is not one of 0 (direct), 1 (threads), 2 (tma)"),
    ("wgmma_persistent", {"STORE_MODE": "tmo"}, "must be an integer or one of direct, threads, tma, not 'tmo'"),
    ("naive", {"TILE": "wide"}, "naive: TILE must be an integer, not 'wide'"),
    ("naive", {"TILE": True}, "naive: TILE must be an integer, not True"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "reason"), REFUSED, ids=[f"{n}-{c}" for n, c, _ in REFUSED])
def test_an_illegal_configuration_is_refused_with_the_arithmetic(
    name: str, changes: dict[str, int | str], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        rung_named(name).config(changes)
    assert reason in str(caught.value)


@pytest.mark.parametrize("changes", [
    {"BN": 224}, {"BN": 96, "DEPTH": 2}, {"BN": 32, "DEPTH": 4}, {"BM": 128, "BN": 128, "CONSUMERS": 2},
    {"BM": 128, "BN": 32, "CONSUMERS": 2, "DEPTH": 2}, {"BM": 192, "BN": 32, "CONSUMERS": 3, "SPLIT": 1},
], ids=str)  # fmt: skip
def test_producer_threads_load_as_much_of_unaligned_operands_as_registers_hold(changes: dict[str, int]) -> None:
    """With 16 columns more, only one operand may be unaligned."""
    spec, few = rung_named("wgmma_split_k"), {"STAGES": 2, **changes}
    assert spec.config({**few, "UNALIGNED_OPERANDS": 2})["UNALIGNED_OPERANDS"] == 2
    wider = {**few, "BN": changes["BN"] + 16}
    assert spec.config({**wider, "UNALIGNED_OPERANDS": 1})["UNALIGNED_OPERANDS"] == 1
    with pytest.raises(ConfigError, match="registers of unaligned operands"):
        spec.config({**wider, "UNALIGNED_OPERANDS": 2})


# --- what a rung takes


@each_rung
def test_types_and_layouts(spec: KernelSpec) -> None:
    assert "NN" in spec.layouts
    assert len(spec.layouts) in (1, 4)
    for dtype in spec.dtypes:
        outputs = [out for out in OUTPUTS[dtype] if out in spec.out_dtypes]
        assert outputs == (list(OUTPUTS[dtype]) if spec.tensor_cores else outputs[:1])
        assert spec.takes(Problem(4, 4, 4, dtype, outputs[0]))
    assert all(any(out in OUTPUTS[dtype] for dtype in spec.dtypes) for out in spec.out_dtypes)
    assert spec.epilogue == spec.batched
    assert spec.arch_specific in (0, spec.min_arch)


# --- geometry

SHAPES = [
    (1, 1, 1),
    (31, 33, 7),
    (64, 64, 0),
    (128, 128, 128),
    (129, 127, 65),
    (1, 4097, 8),
    (4097, 1, 8),
    (300, 700, 5),
]


@pytest.mark.parametrize("spec", [s for s in rungs() if not s.tensor_maps], ids=lambda spec: spec.name)
def test_the_grid_covers_the_problem_with_no_block_to_spare(spec: KernelSpec) -> None:
    """Those with tensor maps: test_hopper_launches.py; with tiles that blocks share: test_simt_best.py."""
    for shape in SHAPES:
        problem = problem_for(spec, *shape)
        for config in (preset.config for preset in spec.presets if not preset.config.get("SHARERS", 0)):
            geometry = spec.geometry(problem, config)
            rows, cols = (config.get(side, config.get("TILE", 0)) for side in ("BM", "BN"))
            tiles = ceil_div(problem.m, rows) * ceil_div(problem.n, cols)
            assert geometry.grid == (tiles * geometry.cluster[0], 1, 1)
            assert geometry.block[1:] == (1, 1)
            assert geometry.threads % 32 == 0


@pytest.mark.parametrize(("m", "n"), [(MAX_EXTENT, 1), (1, MAX_EXTENT), (2**20, 2**20)])
def test_a_huge_extent_can_be_launched(m: int, n: int) -> None:
    """gridDim.x ends at 2^31 - 1, gridDim.y at 65,535."""
    for spec in rungs():
        few = {"wgmma_split_k": 2**19, "gemv": 2**18}  # for small outputs: four blocks for 64 x 32, one for 32 x 8
        width = min(n, few.get(spec.name, n))
        grid = spec.geometry(problem_for(spec, m, width, 1), spec.config()).grid
        assert 1 <= grid[0] <= 2**31 - 1, spec.name
        assert grid[1:] == (1, 1), spec.name


@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (0, 0)])
def test_an_empty_problem_has_an_empty_grid(m: int, n: int) -> None:
    for spec in rungs():
        assert spec.geometry(problem_for(spec, m, n, 3), spec.config()).blocks == 0, spec.name


@pytest.mark.parametrize(("name", "changes", "smem"), [
    ("vectorized", {}, 0), ("wmma", {}, 0),  # declared in the source
    ("async_copy", {"STAGES": 3, "BK": 32}, 3 * 4 * (64 * 36 + 32 * 64)),
    ("mma_pipelined", {"BM": 256, "BK_BYTES": 128, "STAGES": 3, "MIN_BLOCKS": 1}, 3 * (256 + 128) * 128),
])  # fmt: skip
def test_dynamic_shared_memory(name: str, changes: dict[str, int], smem: int) -> None:
    spec = rung_named(name)
    assert spec.geometry(problem_for(spec, 64, 64, 64), spec.config(changes)).smem == smem


def test_a_batch_goes_along_z() -> None:
    """Work of persistent kernels lies along x."""
    for spec in (spec for spec in rungs() if spec.batched):
        one, many = (spec.geometry(problem_for(spec, 300, 200, 8).with_(batch=n), spec.config()) for n in (1, 5))
        assert many.grid == ((5 * one.grid[0], 1, 1) if spec.persistent else (*one.grid[:2], 5)), spec.name
        assert (many.block, many.smem) == (one.block, one.smem)
