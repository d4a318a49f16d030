"""simt_best with tiles of 8 and 16 rows or columns: right in every layout and alignment, without bank conflicts where
fragments are read."""

from __future__ import annotations

import pytest
from rung_launch import aligned, verified
from test_simt_best import checking, load_wavefronts, problem, small

COLUMNS = {"BM": 64, "BN": 8, "BK": 16, "WM": 64, "WN": 8, "TM": 4, "TN": 4, "TEAMS": 2, "UNROLL": 2}
ROWS = COLUMNS | {"BM": 8, "BN": 64, "WM": 8, "WN": 64}
SIXTEEN = COLUMNS | {"BN": 16, "WN": 16, "TM": 8}


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
