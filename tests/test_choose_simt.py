"""The configuration of simt_best for a shape: those that were measured to win do, and every one can be launched."""

from __future__ import annotations

import pytest

from gemmsmith.choose.simt import CANDIDATES, configuration_for, predicted_seconds
from gemmsmith.gpus import gpus
from gemmsmith.kernels.constraints import DYNAMIC_SMEM
from gemmsmith.kernels.registry import rung_named
from gemmsmith.kernels.simt_best import shared_tiles
from gemmsmith.problem import Problem

H200 = 132
# Shape, the tile that was fastest on an H200, and how long it took there, in microseconds.
MEASURED = [
    ((1024, 1024, 1024), (128, 64), 54.7), ((2048, 2048, 2048), (128, 256), 341.0),
    ((4096, 4096, 4096), (128, 256), 2692.4), ((8192, 8192, 8192), (128, 256), 21_401.4),
    ((16, 4096, 4096), (16, 128), 34.4), ((64, 4096, 4096), (32, 64), 65.1), ((128, 128, 16384), (32, 64), 34.8),
    ((64, 7168, 18432), (64, 256), 378.0), ((8192, 28672, 8192), (128, 256), 73_565.0),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "tile", "us"), MEASURED, ids=str)
def test_what_was_fastest_is_chosen(shape: tuple[int, int, int], tile: tuple[int, int], us: float) -> None:
    problem = Problem(*shape)
    config = configuration_for(problem, H200)
    assert (config["BM"], config["BN"]) == tile
    chosen = next(c for c in CANDIDATES if c.config(config["SHARERS"]) == config)
    assert predicted_seconds(problem, chosen, config, H200) * 1e6 == pytest.approx(us, rel=0.12)


def test_tiles_that_fill_no_wave_are_shared_where_that_pays() -> None:
    whole, short = Problem(128 * 12, 256 * 11, 4096), Problem(128 * 12, 256 * 12, 4096)
    assert shared_tiles(whole, configuration_for(whole, H200)) == 0
    config = configuration_for(short, H200)
    assert (config["BM"], config["BN"], config["SHARERS"]) == (128, 256, 132)
    assert shared_tiles(short, config) == 12


def test_what_cannot_be_shared_is_not() -> None:
    """More sharers than flags in a batch, and a GPU whose wave the kernel has no number for."""
    deep = Problem(128, 128, 16384)
    assert configuration_for(deep, H200)["SHARERS"] == 264
    for batch in (2, 3, 4, 8, 100):
        config = configuration_for(deep.with_(batch=batch), H200)
        assert config["SHARERS"] * batch <= 1024
        assert (shared_tiles(deep.with_(batch=batch), config) > 0) == (config["SHARERS"] > 0)
    assert configuration_for(deep, 131)["SHARERS"] == 0


@pytest.mark.parametrize("sms", sorted({gpu.sms for gpu in gpus()}))
def test_every_choice_can_be_launched(sms: int) -> None:
    """Also with two operands transposed, and within the shared memory of sm_86, sm_89 and sm_120."""
    spec = rung_named("simt_best")
    for m, n, k in ((1, 1, 1), (7, 5000, 33), (4096, 4096, 4096), (96, 96, 100_000), (2**20, 3, 8), (5, 5, 0)):
        problem = Problem(m, n, k, trans_b=True)
        config = configuration_for(problem, sms)
        assert not spec.illegal(config)
        assert spec.geometry(problem, config).smem <= DYNAMIC_SMEM
        assert spec.geometry(problem, config).blocks > 0


def test_a_prediction_grows_with_the_work() -> None:
    for candidate in CANDIDATES:
        config = candidate.config(0)
        times = [predicted_seconds(Problem(m, 512, 2048), candidate, config, H200) for m in (64, 512, 2048, 99_999)]
        assert times == sorted(times)
        assert times[0] < times[-1]
