"""The configuration of simt_best for a shape: the measured winners are chosen, and every choice can be launched."""

from __future__ import annotations

import pytest

from gemmsmith.choose.key import unaligned
from gemmsmith.choose.simt import BY_REGISTERS, candidates, configuration_for, configurations, predicted_seconds
from gemmsmith.gpus import gpus
from gemmsmith.kernel.constraints import DYNAMIC_SMEM
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.simt_best import shared_tiles
from gemmsmith.problem import Problem

H200 = 132
# Shape, the tile chosen on an H200, whether operands were transposed first, and the measured time in microseconds.
# Those of 1024 cubed, 2048 cubed and 8192x28672x8192 are of 64x64, of operands as they are, and of 128x256; that of
# 64x7168x18432 is of 64x256: today's choices were not timed there.
MEASURED = [
    ((1024, 1024, 1024), (64, 128), 0, 52.6), ((2048, 2048, 2048), (128, 256), 1, 341.6),
    ((4096, 4096, 4096), (128, 256), 1, 2628.4), ((8192, 8192, 8192), (128, 256), 1, 20_777.7),
    ((16, 4096, 4096), (16, 128), 0, 26.4), ((64, 4096, 4096), (32, 64), 1, 55.2),
    ((128, 128, 16384), (32, 64), 0, 23.0), ((64, 7168, 18432), (64, 128), 1, 379.8),
    ((8192, 28672, 8192), (128, 128), 1, 71_066.8), ((4097, 4095, 4093), (128, 256), 1, 2806.4),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "tile", "transposed", "us"), MEASURED, ids=str)
def test_the_measured_winner_is_chosen(
    shape: tuple[int, int, int], tile: tuple[int, int], transposed: int, us: float
) -> None:
    problem = Problem(*shape)
    rows = unaligned(problem)
    config = configuration_for(problem, H200, rows)
    assert (config["BM"], config["BN"], config["TRANSPOSED_COPY"]) == (*tile, transposed)
    chosen = next(c for c in candidates() if c.config(config["SHARERS"], transposed) == config)
    assert predicted_seconds(problem, chosen, config, H200, rows) * 1e6 == pytest.approx(us, rel=0.12)


def test_operands_are_transposed_where_that_pays() -> None:
    """Not where nothing needs transposing, nor where few tiles read them, nor where the workspace might not fit."""
    large, thin = Problem(4096, 4096, 4096), Problem(16, 4096, 4096)
    assert [configuration_for(large.with_(trans_a=a, trans_b=b), H200)["TRANSPOSED_COPY"]
            for a, b in ((False, False), (False, True), (True, True), (True, False))] == [1, 1, 1, 0]  # fmt: skip
    assert configuration_for(large.with_(trans_a=True), H200, 2)["TRANSPOSED_COPY"] == 1
    assert [configuration_for(thin.with_(trans_b=b), H200)["TRANSPOSED_COPY"] for b in (False, True)] == [0, 0]
    assert configuration_for(Problem(2**17, 2**13, 2**17, trans_b=True), H200)["TRANSPOSED_COPY"] == 0


def test_the_last_wave_is_shared_where_that_pays() -> None:
    whole, short = Problem(128 * 12, 256 * 11, 4096), Problem(128 * 12, 256 * 12, 4096)
    assert shared_tiles(whole, configuration_for(whole, H200)) == 0
    config = configuration_for(short, H200)
    assert (config["BM"], config["BN"], config["SHARERS"]) == (128, 256, 132)
    assert shared_tiles(short, config) == 12


def test_limits_of_sharing() -> None:
    """A batch with more sharers than flags, and a number of SMs that SHARERS does not have: it has twice four."""
    deep = Problem(128, 128, 16384)
    assert configuration_for(deep, H200)["SHARERS"] == 128
    for batch in (2, 3, 4, 8, 100):
        config = configuration_for(deep.with_(batch=batch), H200)
        assert config["SHARERS"] * batch <= 1024
        assert (shared_tiles(deep.with_(batch=batch), config) > 0) == (config["SHARERS"] > 0)
    assert configuration_for(deep, 7)["SHARERS"] in (8, 28), "four blocks on each SM, or twice four in all"


@pytest.mark.parametrize("sms", sorted({gpu.sms for gpu in gpus()}))
def test_every_choice_can_be_launched(sms: int) -> None:
    """Also with both operands transposed, and within the shared memory of sm_86, sm_89 and sm_120."""
    spec = rung_named("simt_best")
    for m, n, k in ((1, 1, 1), (7, 5000, 33), (4096, 4096, 4096), (96, 96, 100_000), (2**20, 3, 8), (5, 5, 0)):
        problem = Problem(m, n, k, trans_b=True)
        config = configuration_for(problem, sms)
        assert not spec.illegal(config)
        assert spec.geometry(problem, config).smem <= DYNAMIC_SMEM
        assert spec.geometry(problem, config).blocks > 0


def test_a_prediction_grows_with_the_work() -> None:
    for candidate in candidates():
        config = candidate.config(0)
        times = [predicted_seconds(Problem(m, 512, 2048), candidate, config, H200) for m in (64, 512, 2048, 99_999)]
        assert times == sorted(times)
        assert times[0] < times[-1]


def test_where_operands_are_transposed_in_registers() -> None:
    """Not where rows are unaligned, nothing is K-major, the GPU has no clusters, fma are too short to hide the loads or
    registers too few."""

    def tiles(problem: Problem, where: int = 0, clusters: bool = True) -> set[tuple[int, int, int]]:
        return {(c["BM"], c["BN"], c["TEAMS"]) for _, c in configurations(problem, H200, where, clusters)
                if c["TRANSPOSED_COPY"] == BY_REGISTERS}  # fmt: skip

    nn = Problem(1000, 1000, 1000)
    assert (64, 64, 4) in tiles(nn)
    assert not tiles(nn, where=1) | tiles(nn, clusters=False) | tiles(nn.with_(trans_a=True))
    assert not {(32, 64, 8), (16, 32, 8)} & tiles(nn)
    both = tiles(nn.with_(trans_b=True))
    assert (64, 256, 1) in tiles(nn) - both, "40 registers of chunks instead of 8"
    assert configuration_for(nn.with_(trans_b=True), H200, 0, True)["TRANSPOSED_COPY"] == BY_REGISTERS


@pytest.mark.parametrize(("shape", "layout", "most", "transposed"), [
    ((20000, 4, 12000), "NN", 8, BY_REGISTERS), ((20000, 4, 12000), "TN", 8, 0),
    ((20000, 12, 12000), "NT", 16, BY_REGISTERS),
    ((20000, 4, 28), "NN", 8, BY_REGISTERS)], ids=str)  # fmt: skip
def test_few_columns_have_a_narrow_tile(shape: tuple[int, int, int], layout: str, most: int, transposed: int) -> None:
    """By registers where the operand that is read is K-major; none of such tiles for more columns."""
    problem = Problem(*shape, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    config = configuration_for(problem, H200, 0, True)
    assert (config["BN"], config["TRANSPOSED_COPY"]) == (most, transposed)
    wider = problem.with_(n=most + 1)
    assert all(config["BN"] > most for _, config in configurations(wider, H200, 0, True))


def test_few_rows_have_a_narrow_tile() -> None:
    assert configuration_for(Problem(6, 20000, 6000, trans_b=True), H200, 0, True)["BM"] == 8
    assert all(config["BM"] > 8 for _, config in configurations(Problem(9, 20000, 6000), H200, 0, True))
