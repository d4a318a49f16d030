"""Parameters that several families have."""

from __future__ import annotations

from gemmsmith.kernel.config import Parameter

ALIGNED = Parameter(
    "ALIGNED", 1, (0, 1), "1: rows of A and B start on 16 bytes; set to 0 for operands where they do not"
)


def stages(default: int, legal: tuple[int, ...]) -> Parameter:
    return Parameter("STAGES", default, legal, "k-tiles in shared memory: one is multiplied while others are loaded")


def group(legal: tuple[int, ...] = (1, 2, 4, 8, 16)) -> Parameter:
    return Parameter("GROUP", 8, legal, "rows of tiles that neighbouring blocks share, for reuse in L2")


def min_blocks(default: int, legal: tuple[int, ...]) -> Parameter:
    return Parameter("MIN_BLOCKS", default, legal, "blocks whose registers must fit on one SM: caps registers")


def block_tile(bm: int, bn: int, rows: tuple[int, ...], cols: tuple[int, ...]) -> tuple[Parameter, ...]:
    return Parameter("BM", bm, rows, "rows of C per block"), Parameter("BN", bn, cols, "columns of C per block")


def k_tile(default: int, legal: tuple[int, ...]) -> Parameter:
    return Parameter("BK", default, legal, "depth of a k-tile")


def k_tile_bytes(default: int, legal: tuple[int, ...]) -> Parameter:
    return Parameter("BK_BYTES", default, legal, "depth of a k-tile in bytes")


def warp_tile(wm: int, wn: int, legal: tuple[int, ...] = (16, 32, 64, 128)) -> tuple[Parameter, ...]:
    return Parameter("WM", wm, legal, "rows of C per warp"), Parameter("WN", wn, legal, "columns of C per warp")


def thread_tile(tm: int, tn: int, rows: tuple[int, ...], cols: tuple[int, ...]) -> tuple[Parameter, ...]:
    return (
        Parameter("TM", tm, rows, "rows of C per thread tile"),
        Parameter("TN", tn, cols, "columns of C per thread tile"),
    )


def unroll(steps: int, legal: tuple[int, ...] = (1, 2, 4, 8, 16)) -> Parameter:
    return Parameter("UNROLL", steps, legal, "steps of k per iteration of the inner loop")
