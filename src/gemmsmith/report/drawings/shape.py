"""What the drawings need to know of a rung: the extents of its tiles, from its configuration and what was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.report.report_model import Rung

_ITEMSIZES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
_WGMMA_ROW = 128  # bytes of k in a k-tile of the rungs that use TMA, which have no parameter for it


@dataclass(frozen=True)
class Shape:
    """The tiles of a rung; 0 where it has none.

    bm, bn, bk  what a block computes, and the depth of a k-tile
    wm, wn      a warp's part
    consumers   warpgroups that multiply, of a rung with a producer
    """

    bm: int
    bn: int
    bk: int
    wm: int = 0
    wn: int = 0
    stages: int = 1
    consumers: int = 0
    cluster_m: int = 1
    cluster_n: int = 1
    split: int = 1


def shape_of(rung: Rung) -> Shape | None:
    """The tiles of ``rung``; None if neither its configuration nor a recorded block tells them."""
    given = values_of(rung.config)
    bm = given.get("BM", given.get("TILE", rung.owners.rows if rung.owners else 0))
    bn = given.get("BN", given.get("TILE", rung.owners.cols if rung.owners else 0))
    if not bm or not bn:
        return None
    return Shape(
        bm, bn, _depth(rung, given), given.get("WM", 0), given.get("WN", 0), given.get("STAGES", 1),
        given.get("CONSUMERS", 0), given.get("CLUSTER_M", 1), given.get("CLUSTER_N", 1), given.get("SPLIT", 1),
    )  # fmt: skip


def values_of(config: str) -> dict[str, int]:
    """'BM=128,BN=64' as numbers; what is not a number is left out."""
    pairs = (part.partition("=") for part in config.split(","))
    return {name: int(value) for name, _, value in pairs if value.isdecimal()}


def _depth(rung: Rung, given: dict[str, int]) -> int:
    """The depth of a k-tile in elements; 0 if there is no k-tile: each thread reads global memory for itself."""
    if "BK" in given:
        return given["BK"]
    # Split fp32 inputs are stored as 16-bit terms.
    itemsize = 2 if rung.arithmetic and rung.wgmma else _ITEMSIZES.get(rung.dtype, 4)
    if "BK_BYTES" in given:
        return given["BK_BYTES"] // itemsize
    if rung.wgmma:
        return _WGMMA_ROW // itemsize
    used = rung.resources.static_smem if rung.resources else 0
    return given.get("TILE", 0) if used else 0
