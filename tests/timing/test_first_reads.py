"""Which blocks of a launch are the first to read their rows or columns."""

from __future__ import annotations

import pytest

from gemmsmith.explain.timing.first_reads import FirstReads, first_readers
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named

MUCH = 1e9


def blocks(found: list[FirstReads]) -> list[float]:
    return [each.blocks for each in found]


def test_all_blocks_of_the_first_round_wait() -> None:
    assert first_readers(64, 132, 8, 0, (128, 128), MUCH) == [(1.0, 16 / 128)], "each row and column serves eight"


def test_a_later_round_waits_for_the_rows_that_nobody_has_read() -> None:
    """16 x 16 tiles, 132 blocks a round: four blocks of row 8 have run, so that its other twelve find all in L2."""
    found = blocks(first_readers(256, 132, 16, 0, (128, 128), MUCH))
    assert found == [1.0, pytest.approx(112 / 124)]


def test_rounds_of_one_long_row_find_that_row() -> None:
    """A row of 400 tiles: its columns are new in the first rounds; of the second row, none is, but the row itself."""
    found = blocks(first_readers(800, 100, 400, 0, (32, 32), MUCH))
    assert found[:4] == [1.0] * 4
    assert found[4] == 1.0
    assert found[5:] == [0.0] * 3


def test_what_l2_does_not_hold_is_read_again() -> None:
    assert blocks(first_readers(800, 100, 400, 0, (32, 32), 1000)[5:]) == [1.0] * 3


def test_dram_gives_a_row_once_and_columns_that_l2_has_not_at_all() -> None:
    """128 x 128 tiles of 32 x 32, a row of them in each round: the second round lacks its row of A alone."""
    kept = first_readers(16384, 128, 128, 0, (32, 32), MUCH)
    assert kept[0] == (1.0, pytest.approx(129 / 256))
    assert kept[1] == (1.0, pytest.approx(1 / 256))
    too_small = first_readers(16384, 128, 128, 0, (32, 32), 4000)
    assert too_small[1] == (1.0, pytest.approx(129 / 256)), "a round reads 4,128 rows and columns"


def test_groups_of_rows_go_column_by_column() -> None:
    """16 x 16 tiles by groups of eight rows, half a group a round: the fourth round has rows of the third, columns of
    the second, and finds all in L2. Without groups every round has new rows."""
    assert blocks(first_readers(256, 64, 16, 8, (128, 128), MUCH)) == [1.0, 1.0, 1.0, 0.0]
    assert blocks(first_readers(256, 64, 16, 0, (128, 128), MUCH)) == [1.0] * 4


def test_a_kernel_that_waits_for_dram_is_slower_than_one_whose_operands_are_in_l2() -> None:
    from gemmsmith.explain.timing.prediction import Changes

    spec = rung_named("vectorized")
    predictor = Predictor(spec, spec.config(), spec.problem(1024, 1024, 1024), gpu_named("H200"))
    assert blocks(predictor.rates.first_readers) == [1.0]
    cold, hot = predictor.predict().us, predictor.predict(Changes(cold=False)).us
    assert 1.1 < cold / hot < 1.35, "measured: 1.21 (h200_cycles.json)"


def test_with_one_block_on_an_sm_every_round_of_new_rows_waits_as_the_first() -> None:
    """At 2048 blocks of 128 x 128 run in two rounds, and a step of k takes as long as at 1024, where there is one."""
    spec = rung_named("fp32_tensor_bf16x6")
    times = []
    for size in (1024, 2048):
        predictor = Predictor(spec, spec.config(), spec.problem(size, size, size), gpu_named("H200"))
        assert (predictor.resident, len(predictor.rates.first_readers)) == (1, predictor.per_sm)
        times.append(predictor.predict().main.cycles / size / predictor.per_sm)
    assert times[1] == pytest.approx(times[0], rel=0.1)


@pytest.mark.parametrize("rung", ["padded", "wgmma_split_k", "wgmma_persistent"])
def test_other_launches_go_by_how_busy_their_blocks_are(rung: str) -> None:
    """Two blocks on an SM, clusters, and persistent blocks."""
    spec = rung_named(rung)
    assert Predictor(spec, spec.config(), spec.problem(4096, 4096, 4096), gpu_named("H200")).rates.first_readers == []
