"""Tail tiles: how the model predicts them and when they are candidates; with the real kernels, on an H200."""

from __future__ import annotations

import pytest

from gemmsmith.choose.candidates import Candidate, menu, ranked
from gemmsmith.choose.choice import forget
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import predicted_seconds
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.neighbours import neighbours, steps
from gemmsmith.choose.waves import Chip
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, Problem

CLUSTER = rung_named("wgmma_cluster")
TALL = CLUSTER.config(preset="256x192-1x2")
LARGE = Problem(8192, 8192, 8192, BF16, BF16, trans_b=True)


@pytest.fixture
def model() -> tuple[Chip, Constants]:
    forget()
    found = hopper_model("NVIDIA H200", 132, "sm_90")
    assert found is not None
    return found


def with_tail(config: Config, columns: int) -> Config:
    return Config(tuple((name, columns if name == "TAIL_BN" else value) for name, value in config))


def predicted(problem: Problem, model: tuple[Chip, Constants]) -> dict[tuple[str, str], float]:
    return {candidate.name: candidate.seconds for candidate in ranked(problem, *model)}


def test_a_shorter_last_wave_is_predicted(model: tuple[Chip, Constants]) -> None:
    """Measured: 1605 µs, and 1644 µs without tail tiles."""
    times = predicted(LARGE, model)
    tail, wide = (times[CLUSTER.name, str(with_tail(TALL, columns))] for columns in (128, 0))
    assert 1.01 <= wide / tail <= 1.05
    assert tail == pytest.approx(1605e-6, rel=0.05)
    assert wide == pytest.approx(1644e-6, rel=0.05)


def test_no_tail_tiles_where_wide_tiles_fill_whole_waves(model: tuple[Chip, Constants]) -> None:
    """They would never be used, so the candidate would be timed twice."""
    problem = Problem(6144, 6144, 6144, BF16, BF16, trans_b=True)
    offered = {(c.config["BM"], c.config["BN"], c.config["TAIL_BN"]) for c in ranked(problem, *model)
               if c.spec == CLUSTER and (c.config["CLUSTER_M"], c.config["CLUSTER_N"]) == (1, 2)}  # fmt: skip
    assert (256, 192, 0) in offered
    assert (256, 192, 128) not in offered
    near = neighbours(Candidate(CLUSTER, TALL, 1.0), problem, *model)
    assert near
    assert not any(candidate.config["TAIL_BN"] for candidate in near)
    tiles = tiles_of([dict(with_tail(TALL, 128)), dict(with_tail(TALL, 0))])
    tail, without = predicted_seconds(shape_of(problem), tiles, *model)
    assert tail == without


@pytest.mark.parametrize(
    ("problem", "addresses", "offered"),
    [
        (LARGE, None, {0, 128}), (LARGE.with_(n=8191), None, {0}), (LARGE.with_(ldc=8193), None, {0}),
        (LARGE, (256, 256, 258), {0}), (LARGE.with_(out_dtype=FP32), None, {0}),
    ],
)  # fmt: skip
def test_no_tail_tiles_where_threads_store_c(
    problem: Problem, addresses: tuple[int, int, int] | None, offered: set[int], model: tuple[Chip, Constants]
) -> None:
    found = ranked(problem, *model, addresses=addresses)
    assert {candidate.config["TAIL_BN"] for candidate in found if candidate.spec == CLUSTER} == offered


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_menu_has_tail_tiles_for_every_wider_tile(layout: str) -> None:
    found = menu(CLUSTER, layout).configs
    tailed = [config for config in found if config["TAIL_BN"]]
    assert {config["BN"] for config in tailed} == {192, 256}
    assert not any(CLUSTER.illegal(config) for config in tailed)
    assert {with_tail(config, 0) for config in tailed} == {
        config for config in found if config["BN"] in (192, 256) and not config["TAIL_BN"]
        and not config["SWAP"] and config["SLICES"] * config["CLUSTER_K"] == 1
    }  # fmt: skip


@pytest.mark.parametrize(("columns", "other"), [(0, 128), (128, 0), (64, 0)])
def test_a_step_adds_or_removes_tail_tiles(columns: int, other: int, model: tuple[Chip, Constants]) -> None:
    config = with_tail(TALL, columns)
    changes = [change for change in steps(dict(config), LARGE) if "TAIL_BN" in change]
    wider = [{"BN": 176, "TAIL_BN": 0}, {"BN": 208, "TAIL_BN": 0}] if columns else []  # widths without tail tiles
    assert changes == [{"TAIL_BN": other}, *wider]
    near = neighbours(Candidate(CLUSTER, config, 1.0), LARGE, *model)
    assert with_tail(TALL, other) in [candidate.config for candidate in near]
    assert {candidate.config["BN"] for candidate in near} == {176, 192, 208}
    assert not any(CLUSTER.illegal(candidate.config) for candidate in near)


def test_neighbours_have_no_tail_tiles_where_threads_store_c(model: tuple[Chip, Constants]) -> None:
    near = neighbours(Candidate(CLUSTER, TALL, 1.0), LARGE.with_(n=8191), *model)
    assert {candidate.config["TAIL_BN"] for candidate in near} == {0}


def test_a_kernel_without_tail_tiles_has_no_such_step(model: tuple[Chip, Constants]) -> None:
    spec = rung_named("wgmma_split_k")
    assert not any("TAIL_BN" in change for change in steps(dict(spec.config()), LARGE))
    small = Candidate(CLUSTER, CLUSTER.config({"BN": 128}), 1.0)
    found = neighbours(small, LARGE, *model)
    assert {candidate.config["TAIL_BN"] for candidate in found} == {0}, "none are narrower than 128"
