"""Lines of L2 that boxes touch: the formula beside a count of every row of every box."""

from __future__ import annotations

from itertools import product

import pytest

from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.lines import lines_of_boxes
from gemmsmith.problem import BF16, Problem

LINE = 64  # 16-bit elements
CONFIG = {"BM": 128, "BN": 96, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 1, "CLUSTER_N": 1, "GROUP": 8, "SWAP": 0}


def touched(start: int, width: int) -> int:
    return (start + width - 1) // LINE - start // LINE + 1


def counted(side: int, extent: int, k: int, across_k: bool) -> float:
    """Lines for one k-tile of ``side`` rows, in the mean of whole tiles and of eight k-tiles."""
    found, tiles = 0, range(extent // side)
    for tile, step in product(tiles, range(8)):
        for i in range(LINE if across_k else side):
            if across_k:
                row = (step * LINE + i) * extent + tile * side
                found += sum(touched(row + box, min(LINE, side - box)) for box in range(0, side, LINE))
            else:
                found += touched((tile * side + i) * k + step * LINE, LINE)
    return found / (len(tiles) * 8)


@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("bn", [64, 96, 152, 160])
@pytest.mark.parametrize(("m", "n", "k"), [(3072, 2560, 1024), (3080, 2568, 1032)], ids=["on lines", "on 16 bytes"])
def test_lines_are_as_counted(layout: str, swap: int, bn: int, m: int, n: int, k: int) -> None:
    problem = Problem(m, n, k, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    found = lines_of_boxes(shape_of(problem), tiles_of([CONFIG | {"BN": bn, "SWAP": swap}], layout))
    of_a, of_b = (bn, 128) if swap else (128, bn)
    a, b = counted(of_a, m, k, layout[0] == "T"), counted(of_b, n, k, layout[1] == "N")
    assert [float(each[0]) for each in found] == pytest.approx([b, a] if swap else [a, b], rel=0.03)


def test_what_others_multicast_is_not_asked_for() -> None:
    problem = Problem(4096, 4096, 4096, BF16, BF16, trans_b=True)
    one, shared = (lines_of_boxes(shape_of(problem), tiles_of([CONFIG | cluster]))
                   for cluster in ({}, {"CLUSTER_M": 2, "CLUSTER_N": 4}))  # fmt: skip
    assert (one[0][0], one[1][0]) == (128, 96)
    assert (shared[0][0], shared[1][0]) == (32, 48)
