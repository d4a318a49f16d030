"""What a configuration of a CUDA-core rung costs: threads of a block, outputs of a thread, bytes of shared memory."""

from __future__ import annotations

from collections.abc import Callable

from gemmsmith.kernel.config import Config

Count = Callable[[Config], int]


def square_threads(c: Config) -> int:
    return c["TILE"] ** 2


def register_block_threads(c: Config) -> int:
    return (c["TILE"] // c["SIDE"]) ** 2


def column_threads(c: Config) -> int:
    return c["BM"] * c["BN"] // c["TM"]


def thread_tile_threads(c: Config) -> int:
    return c["BM"] * c["BN"] // (c["TM"] * c["TN"])


def warp_tile_threads(c: Config) -> int:
    return 32 * (c["BM"] // c["WM"]) * (c["BN"] // c["WN"])


def thread_outputs(c: Config) -> int:
    return c["TM"] * c["TN"]


def lane_outputs(c: Config) -> int:
    return c["WM"] * c["WN"] // 32


def no_smem(_: Config) -> int:
    return 0


def slice_bytes(c: Config) -> int:
    return 4 * (c["BM"] + c["BN"]) * c["BK"]


def padded_slice_bytes(c: Config) -> int:
    """A transposed: BK rows of BM + PAD."""
    return 4 * (c["BM"] + c["PAD"] + c["BN"]) * c["BK"]


def padded_slice_bytes_16_bit(c: Config) -> int:
    return padded_slice_bytes(c) // 2


def row_slice_bytes(c: Config) -> int:
    """A as stored: BM rows of BK + PAD."""
    return 4 * (c["BM"] * (c["BK"] + c["PAD"]) + c["BK"] * c["BN"])


def pipeline_bytes(c: Config) -> int:
    return c["STAGES"] * row_slice_bytes(c)
