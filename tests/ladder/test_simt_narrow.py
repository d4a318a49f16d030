"""simt_best with tiles of 8 and 16 rows or columns: right in every layout and alignment, without bank conflicts where
fragments are read."""

from __future__ import annotations

import pytest
from rung_launch import aligned, verified
from test_simt_best import checking, load_wavefronts, problem, small

COLUMNS = {"BM": 64, "BN": 8, "BK": 16, "WM": 64, "WN": 8, "TM": 4, "TN": 4, "TEAMS": 2, "UNROLL": 2}
ROWS = COLUMNS | {"BM": 8, "BN": 64, "WM": 8, "WN": 64}
SIXTEEN = COLUMNS | {"BN": 16, "WN": 16, "TM": 8}
# Three times a power of two.
THREES = {
    "48": COLUMNS | {"BN": 48, "WN": 48, "TM": 8, "TN": 12, "TEAMS": 4},
    "96": COLUMNS | {"BN": 96, "WN": 48, "TM": 8, "TN": 12, "TEAMS": 1},
}


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("tile", [COLUMNS, ROWS, SIXTEEN], ids=["columns", "rows", "sixteen"])
def test_aligned_operands_with_ragged_edges(layout: str, tile: dict[str, int]) -> None:
    shape = (5, 70, 37) if tile is ROWS else (70, 11 if tile is SIXTEEN else 3, 37)
    device = checking()
    verified(*small(**tile), aligned(problem(shape, layout, alpha=0.7, beta=-1.0)), device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize("tile", [COLUMNS, ROWS], ids=["columns", "rows"])
def test_operands_that_are_not_aligned(tile: dict[str, int]) -> None:
    verified(*small(**tile), problem((9, 70, 19) if tile is ROWS else (70, 9, 19), "NT"), offsets=(1, 3, 1))


@pytest.mark.parametrize("tile", [COLUMNS, ROWS, SIXTEEN], ids=["columns", "rows", "sixteen"])
def test_transposed_in_registers(tile: dict[str, int]) -> None:
    device = checking("reversed")
    tile = tile | {"TRANSPOSED_COPY": 2}
    verified(*small(**tile), aligned(problem((9, 70, 50) if tile["BM"] == 8 else (70, 9, 50), "NT")), device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("width", THREES)
def test_tiles_of_three_times_a_power_of_two(layout: str, width: str) -> None:
    device = checking()
    p = aligned(problem((70, int(width) + 5, 37), layout, alpha=0.7, beta=-1.0))
    verified(*small(**THREES[width]), p, device=device)
    assert load_wavefronts(device)[1] == 0


@pytest.mark.parametrize("changes", [{"SHARERS": 5}, {"CLUSTER_K": 2}, {"TRANSPOSED_COPY": 2}], ids=str)
def test_sums_of_forty_eight_columns(changes: dict[str, int]) -> None:
    device = checking("reversed")
    verified(*small(**THREES["48"] | changes), aligned(problem((70, 45, 72), "NT")), device=device)


def test_forty_eight_columns_that_are_not_aligned() -> None:
    verified(*small(**THREES["48"]), problem((70, 45, 19), "NN"), offsets=(1, 3, 1))
