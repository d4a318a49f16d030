"""A winner serves other row counts that its tiles cover alike, and no others."""

from __future__ import annotations

import pytest

from gemmsmith.choose.key import KIND, ShapeKey
from gemmsmith.choose.rows import has_as_many_tiles, winner_of_rows
from gemmsmith.choose.table import Entry

TALL = Entry("wgmma_cluster", (("BM", 256), ("BN", 128), ("CLUSTER_M", 2), ("CLUSTER_N", 1), ("SWAP", 0)), 10.0)
TURNED = Entry("wgmma_cluster", (("BM", 256), ("BN", 152), ("CLUSTER_M", 1), ("CLUSTER_N", 2), ("SWAP", 1)), 10.0)
SPLIT = Entry("wgmma_split_k", (("BM", 144), ("BN", 80), ("SWAP", 1)), 10.0)


def key(m: int, n: int = 4096, k: int = 4096, layout: str = "NT", out_bytes: int = 2) -> ShapeKey:
    return ShapeKey(KIND, out_bytes, layout, m, n, k, 1)


def same(_: ShapeKey) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("entry", "timed", "asked", "alike"),
    [
        (TALL, 4096, 3585, True), (TALL, 4096, 3584, False), (TALL, 4096, 4097, False),  # 512 rows of a cluster
        (TURNED, 300, 304, True), (TURNED, 300, 305, False), (TURNED, 300, 1, True),  # 304 rows of a cluster
        (SPLIT, 72, 80, True), (SPLIT, 72, 81, False),
    ],
)  # fmt: skip
def test_tiles_in_whole_clusters_are_counted(entry: Entry, timed: int, asked: int, alike: bool) -> None:
    assert has_as_many_tiles(key(asked), key(timed), entry) is alike


@pytest.mark.parametrize("other", [key(300, n=4104), key(300, k=4104), key(300, layout="NN"), key(300, out_bytes=4)])
def test_other_products_are_not_alike(other: ShapeKey) -> None:
    assert not has_as_many_tiles(key(300), other, TURNED)
    assert winner_of_rows(key(300), {other: TURNED}, same) is None


def test_rows_that_load_more_slowly_are_not_alike() -> None:
    """With A transposed, 296 rows of 2 bytes start on 16 bytes, but not all on 32."""
    assert has_as_many_tiles(key(288, layout="TT"), key(304, layout="TT"), TURNED)
    assert not has_as_many_tiles(key(296, layout="TT"), key(304, layout="TT"), TURNED)


def test_the_nearest_rows_serve() -> None:
    winners = {key(200): TURNED, key(290): TALL, key(304): SPLIT}
    assert winner_of_rows(key(288), winners, same) is TALL
    assert winner_of_rows(key(210), winners, same) is TURNED
    assert winner_of_rows(key(600), winners, same) is None, "more tiles"


def test_fewer_rows_are_served_unless_the_best_gains_much() -> None:
    winners = {key(300): TURNED}
    gains = {key(300): 1.0, key(290): 0.99, key(200): 0.97, key(304): 1.2}
    assert winner_of_rows(key(290), winners, gains.__getitem__) is TURNED
    assert winner_of_rows(key(200), winners, gains.__getitem__) is None
    assert winner_of_rows(key(304), winners, gains.__getitem__) is TURNED, "with more rows nothing takes less"


@pytest.mark.parametrize(
    ("timed", "asked", "serves"), [(48, 4, False), (48, 23, False), (48, 24, True), (16, 1, True), (17, 8, False)]
)
def test_few_rows_are_not_served_by_the_winner_of_many_more(timed: int, asked: int, serves: bool) -> None:
    assert (winner_of_rows(key(asked), {key(timed): SPLIT}, same) is SPLIT) is serves
