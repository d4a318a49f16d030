"""Which parts of a product each block computes: from what it loads, tile after tile."""

from __future__ import annotations

from itertools import pairwise

from recorded_launches import traced

from gemmsmith.trace.recording.work_parts import Extent, copied_parts, paired


def test_blocks_of_split_k_have_parts_of_k_that_make_up_the_whole() -> None:
    trace = traced("wgmma_split_k", 128, 64, 256)
    by_tile: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for block in trace.blocks:
        (part,) = block.parts
        by_tile.setdefault(part[:4], []).append((part[4], part[5]))
    for parts in by_tile.values():
        edges = sorted(parts)
        assert len(edges) > 1
        assert (edges[0][0], edges[-1][1]) == (0, 255)
        assert all(after[0] == before[1] + 1 for before, after in pairwise(edges))


def test_a_block_without_split_k_has_one_part_with_all_of_k() -> None:
    trace = traced("shared_tile")
    stored = [(box.first_row, box.last_row, box.first_column, box.last_column)
              for block in trace.blocks for box in block.stored]  # fmt: skip
    assert [block.parts[0][:4] for block in trace.blocks] == stored
    assert {block.parts[0][4] for block in trace.blocks} == {0}
    assert all(len(block.parts) == 1 for block in trace.blocks)


def test_the_next_tile_begins_where_k_goes_back() -> None:
    first = [Extent(0, 63, k, k + 15) for k in (32, 48)]
    second = [Extent(64, 127, k, k + 15) for k in (0, 16)]
    assert copied_parts([first + second], 1) == [Extent(0, 63, 32, 63), Extent(64, 127, 0, 31)]
    # Two blocks of a cluster copy half of each tile, one far ahead of the other.
    halves = [
        [Extent(e.first_row + low, e.first_row + low + 31, *e.along(1)) for e in first + second] for low in (0, 32)
    ]
    assert copied_parts(halves, 1) == [Extent(0, 63, 32, 63), Extent(64, 127, 0, 31)]
    assert copied_parts([first, first + second], 1) == [], "they do not have the same parts"


def test_parts_of_a_and_b_are_paired_in_their_order() -> None:
    of_a = [Extent(0, 63, 32, 63), Extent(64, 127, 0, 31)]
    of_b = [Extent(32, 63, 0, 31), Extent(0, 31, 32, 63)]
    assert paired(of_a, of_b) == ((0, 63, 0, 31, 32, 63), (64, 127, 32, 63, 0, 31))
    assert paired(of_a, of_b[:1]) == ()
    assert paired(of_a[:1], of_b[1:]) == (), "other k: an array is not what it is taken for"
    assert paired(of_a[:1], [], [Extent(0, 63, 8, 15)]) == ((0, 63, 8, 15, 32, 63),), "a copy of B is read"
    rows = [Extent(r, r, 0, 31) for r in range(4)]
    assert paired(rows, [Extent(0, 31, 0, 7)] * 4) == ((0, 3, 0, 7, 0, 31),), "neighbours are one part"
