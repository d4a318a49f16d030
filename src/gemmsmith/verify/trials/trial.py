"""One trial of a check: what is launched, and which of the kernel's properties it tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from gemmsmith.problem import Problem

RANDOM = "random data"
DISTINCT = "M, N and K all different"
RAGGED = "a shape that is no multiple of the tile"
UNREAD = "C is not read when beta = 0"
UNREAD_SCALED = "C is not read when beta = 0 and alpha = 2"
EITHER_UNREAD = (UNREAD, UNREAD_SCALED)
SCALED = "alpha and beta"
BATCH = "a batch of three"
PADDED = "padded rows"
ODD = "rows not aligned to 16 bytes"
ODD_MEANT = "rows not aligned to 16 bytes, which the kernel has code for"
SQUARE = "M = N, and another K"
TILES = "orders of tiles"  # a group
EDGES = "branch boundaries"  # a group
DECISIONS = "branch outcomes"  # a group
LARGE = "more than 2³¹ elements"
LARGER = f"{LARGE} (2³²)"  # which unsigned 32-bit numbers do not count either
CAPPED = "beyond the largest grid"
MORE_TILES = "more tiles than the largest grid"
NEARLY = "fewer than 2³¹ elements, but many,"
NO_K = "K = 0"
VECTORS = "whole vectors, but no multiple of the tile"
CLEARED = "C before the launch"
EXCHANGED = "grid and block"
HEADS = "several products"
MODES = "other values of the layout flags"
STRIDES = "strides as passed"
BATCHES = "the largest batch"
TENSORS = "sizes of tensors as passed"
IGNORED = "parameters of host code that the launch ignores"
SCALED_ONLY = "empty products in host code"
GUARDED = "a ragged edge, which the kernel guards"
OTHER_SIZE = "another size"
MEANT = "a size that host code or a comment allows"
AGAIN = "a second launch"
ORDERS = {  # the trial of each schedule but lockstep
    "in_order": "warps in order",
    "reversed": "warps reversed",
    "random": "warps random",
    "starved": "one warp always last",
}


class Size(Enum):
    """How much of a product is run: all of it, some blocks, or some blocks with memory that exists only there."""

    WHOLE = "whole"
    BLOCKS = "blocks"
    SPARSE = "sparse"


@dataclass(frozen=True)
class Trial:
    """One launch: its purpose, problem, oracle, data, order of warps, what C holds before it, and whether races are
    looked for.

    size, blocks  which blocks are run; none: all
    why           the instruction that suggested it
    group         of trials that fit the kernel: what they are about; empty for those that any kernel is given
    """

    label: str
    problem: Problem
    mode: str
    fill: str
    schedule: str
    c: str = "unset"
    hazards: bool = True
    size: Size = Size.WHOLE
    blocks: tuple[int, ...] = ()
    written: int = 0
    why: str = ""
    slack: int = 0  # bytes around each matrix that may be accessed without a fault
    dry_k: int = 64  # a K that the kernel takes, for the first run of a sparse launch
    group: str = ""
    launches: int = 1  # one after another, each with the same C
    corner: bool = False  # of some blocks: the last must write the last row and column of C


def matrix_of(label: str) -> str:
    """The matrix that a label of a large product names: "C", or "C of all products"."""
    return label.rpartition(" in ")[2]


def matrices_of(labels: Iterable[str]) -> str:
    """The matrices that these labels name: "A, B and C of all products"; one alone says the same of all products."""
    named = set(map(matrix_of, labels))
    *others, last = sorted(name for name in named if name == name[0] or name[0] not in named)
    return f"{', '.join(others)} and {last}" if others else last
