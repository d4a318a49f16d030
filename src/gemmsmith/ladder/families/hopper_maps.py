"""The tensor maps of the rungs for Hopper: boxes of 64 of k, with a swizzle of 128 bytes."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW
from gemmsmith.problem import Problem

_LINE = 128
_SECTOR = 16  # 16-bit elements


def operand_map(operand: str, problem: Problem, rows: int, blocks: int = 1, fetch: int = 0) -> TensorMap:
    """``rows`` of A or columns of B by 64 of k, of which each of ``blocks`` of a cluster loads an equal part."""
    first = operand == "A"
    (height, width), ld = (problem.a_shape, problem.lda) if first else (problem.b_shape, problem.ldb)
    stride, copies = (problem.stride_a if first else problem.stride_b), problem.copies[0 if first else 1]
    k_major = not problem.trans_a if first else problem.trans_b
    size = problem.dtype.itemsize
    return TensorMap(operand, problem.dtype, (width, height, copies), (ld * size, stride * size),
                     (BOX, (rows if k_major else BOX) // blocks, 1), BOX_ROW, fetch=fetch)  # fmt: skip


def operand_maps(problem: Problem, config: Config) -> dict[str, TensorMap]:
    """The maps of A and B for tiles of BM x BN; with SWAP, BM is of columns of B and BN of rows of A."""
    shares = config.get("CLUSTER_M", 1)
    # Tail tiles load one box at a time.
    other_rows = BOX if config.get("TAIL_BN", 0) else config["BN"]
    tall, other = "BA" if config.get("SWAP", 0) else "AB"
    # Slices of K: on an H200 4 to 6 % less time at 512x512x65536 with tiles of 128x128, 3 to 6 % at 256x256x32768, and
    # within 1.6 % at two others.
    fetch = _LINE if config.get("SLICES", 1) > 1 else 0
    maps = {
        tall: operand_map(tall, problem, config["BM"], config.get("CLUSTER_N", 1), fetch),
        other: operand_map(other, problem, other_rows, shares, fetch),
    }
    return {"map_a": maps["A"], "map_b": maps["B"]}


def rest_map(problem: Problem, config: Config) -> dict[str, TensorMap]:
    """The map of the last box of wgmma's columns, where they run across k and are no multiple of 64: only the columns
    of the tile are loaded."""
    rest = config["BN"] % BOX
    if rest % _SECTOR:  # not slower as a whole box, or faster
        return {}
    operand = "A" if config.get("SWAP", 0) else "B"
    k_major = not problem.trans_a if operand == "A" else problem.trans_b
    if not rest or k_major:
        return {}
    whole = operand_maps(problem, config)[f"map_{operand.lower()}"]
    return {"map_rest": replace(whole, box=(rest, *whole.box[1:]))}
