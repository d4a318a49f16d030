"""The grid over SMs: which tile of C each block computes, in the order of blocks, and what a wave of them reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gemmsmith.explain.occupancy import occupancy
from gemmsmith.gpus import GPU, gpu_named
from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.trace.launch_trace import Array, Box, LaunchTrace, Outline

_DEFAULT = "H200"
_MOST_BLOCKS = 4096
_WAVES = 2.6  # that a launch of few blocks is shown in


def build(subject: ViewSubject) -> ViewData | None:
    """None if no block stored anything that has a place in a matrix."""
    trace = subject.trace
    gpu = subject.gpu or gpu_named(_DEFAULT)
    output = _output(trace)
    blocks = trace.blocks[:_MOST_BLOCKS]
    if output is None or not any(_of(block.stored, output.name) for block in blocks):
        return None
    inputs = [array for array in trace.arrays if array is not output and _read(blocks, array.name)]
    if any(array.role in ("A", "B") for array in inputs):  # flags and partial sums in a workspace are no operands
        inputs = [array for array in inputs if array.rows > 1]
    tiles, parts = tiles_and_parts(blocks, output, inputs)
    held, shown = _held(subject, gpu), len(blocks)
    launched = trace.grid[0] * trace.grid[1] * trace.grid[2]
    # So few blocks that they all run at once teach nothing about waves: then the page opens with a smaller GPU.
    few = 1 < shown <= gpu.sms * held
    start = {"sms": max(1, round(shown / _WAVES)), "held": 1} if few else {"sms": gpu.sms, "held": held}
    cluster = trace.cluster[0] * trace.cluster[1] * trace.cluster[2]
    data: dict[str, Any] = {
        "output": _matrix(output), "inputs": [_matrix(array) for array in inputs], "cluster": cluster,
        "launched": launched, "gpu": {"name": gpu.name, "sms": gpu.sms, "held": held}, "start": start,
        "blocks": [_block(block, output, inputs) for block in blocks],
        "tiles": tiles, "parts": parts, "k": _depth(parts, trace), "product": bool(trace.problem),
    }  # fmt: skip
    notice = _notice(shown, launched, gpu, held, start["sms"], inputs)
    notice += _shared_notice(parts) + _idle_notice(parts, output)
    return ViewData("The grid over SMs", notice, data)


def tiles_and_parts(
    blocks: Sequence[Outline], output: Array, inputs: Sequence[Array]
) -> tuple[list[list[int]], list[list[list[int]]]]:
    """The distinct tiles of the output, and for each block its parts: number of the tile, first and last k.

    A block whose parts are not known has the tile that it stores, with the k that it read (0 and −1 if unknown). A copy
    may bring more columns than a tile has: what the blocks of a tile stored together bounds it.
    """
    stored: dict[tuple[int, ...], list[list[int]]] = {}
    for block in blocks:
        box = _of(block.stored, output.name)
        for part in block.parts:
            stored.setdefault(part[:4], []).extend([box] if box and _within(box, part) else [])
    numbers: dict[tuple[int, ...], int] = {}
    tiles: list[list[int]] = []

    def number(tile: tuple[int, ...], bounds: Sequence[Sequence[int]]) -> int:
        if tile not in numbers:
            numbers[tile] = len(tiles)
            around = np.array(bounds or [tile])
            low, high = around.min(axis=0).tolist(), around.max(axis=0).tolist()
            tiles.append([low[0], high[1], low[2], high[3]])
        return numbers[tile]

    found = []
    for block in blocks:
        box = _of(block.stored, output.name)
        mine = [[number(part[:4], stored[part[:4]]), part[4], part[5]] for part in block.parts]
        found.append(mine or ([[number(tuple(box), [box]), *_k_read(block, inputs)]] if box else []))
    return tiles, found


def _k_read(block: Outline, inputs: Sequence[Array]) -> tuple[int, int]:
    """First and last k of what the block loaded of A and B; 0 and −1 if they differ, or one is not known."""
    names = {array.role: array.name for array in inputs}
    a, b = _of(block.loaded, names.get("A", "")), _of(block.loaded, names.get("B", ""))
    return (a[2], a[3]) if a and b and a[2:] == b[:2] else (0, -1)


def _within(box: Sequence[int], part: Sequence[int]) -> bool:
    return part[0] <= box[0] and box[1] <= part[1] and part[2] <= box[2] and box[3] <= part[3]


def _depth(parts: Sequence[Sequence[Sequence[int]]], trace: LaunchTrace) -> int:
    deepest = max((last + 1 for mine in parts for _, _, last in mine), default=0)
    return max(deepest, int(trace.problem.get("k", 0)) if deepest else 0)


def _shared_notice(parts: Sequence[Sequence[Sequence[int]]]) -> str:
    """Split-K and Stream-K in words: tiles that several blocks share, blocks with parts of several tiles."""
    workers: dict[int, int] = {}
    for mine in parts:
        for tile, *_ in mine:
            workers[tile] = workers.get(tile, 0) + 1
    along_k = any(last >= first for mine in parts for _, first, last in mine)
    shared, several = sum(n > 1 for n in workers.values()), sum(len(mine) > 1 for mine in parts)
    text = ""
    if shared:
        most = max(workers.values())
        of = f"{shared} of {len(workers)} tiles are" if len(workers) > 1 else "The one tile is"
        text = f" {of} shared by up to {most} blocks, which "
        text += "divide K: a strip is one block's part." if along_k else "store to the same elements."
    if several:
        text += f" {several} of {len(parts)} blocks work on more than one tile, one after the other."
    return text


def _idle_notice(parts: Sequence[Sequence[Sequence[int]]], output: Array) -> str:
    idle = sum(not mine for mine in parts)
    if not idle:
        return ""
    return f" {idle} of {len(parts)} blocks store nothing of {output.name}: they were launched in vain."


def _held(subject: ViewSubject, gpu: GPU) -> int:
    """Blocks that an SM holds at once; at least 1, also where the block does not fit on this GPU."""
    trace = subject.trace
    used = subject.compiled.resources if subject.compiled is not None else None
    found = occupancy(gpu, threads=trace.threads, registers=used.registers if used is not None else trace.registers,
                      static_smem=trace.static_smem, dynamic_smem=trace.dynamic_smem,
                      barriers=used.barriers if used is not None else 0)  # fmt: skip
    return max(1, found.blocks_per_sm)


def _notice(shown: int, launched: int, gpu: GPU, held: int, sms: int, inputs: Sequence[Array]) -> str:
    room = gpu.sms * held
    names = {array.role: array.name for array in inputs}
    operands = "A" in names and "B" in names
    share = f"rows of {names['A']} and columns of {names['B']}" if operands else "what both of them read"
    if shown < launched:
        return (f"{shown} of {launched} blocks were simulated and are shown. A smaller problem, such as --m 2048 --n "
                "2048 --k 64, has them all.")  # fmt: skip
    if launched <= room:
        fits = f"{launched} block{'s fit' if launched > 1 else ' fits'} on {gpu.name} at once ({gpu.sms} SMs × {held})"
        if launched == 1:
            return f"{fits}: the other SMs have nothing to do."
        empty = " the last wave leaves places empty, and" if launched % sms else ""
        return (f"{fits}, in one wave. So that waves can be seen, this opens with {sms} SM{'s' * (sms > 1)}:{empty} "
                f"blocks in flight together share {share}.")  # fmt: skip
    full, tail = divmod(launched, room)
    last = f", and the last one fills {tail} of {room} places" if tail else ", all of them full"
    return (f"{launched} blocks on {gpu.name} are {full + bool(tail)} waves of {room}{last}. Blocks that are in flight "
            f"together share {share}: it comes from L2.")  # fmt: skip


def _output(trace: LaunchTrace) -> Array | None:
    """The array C, or else the one that most blocks store to."""
    output = trace.problem.get("output")
    named = next((array for array in trace.arrays if array.role == "C" or array.name == output), None)
    if named is not None:
        return named
    counts = {array.name: sum(bool(_of(b.stored, array.name)) for b in trace.blocks) for array in trace.arrays}
    best = max(trace.arrays, key=lambda array: counts[array.name], default=None)
    return best if best is not None and counts[best.name] else None


def _read(blocks: Sequence[Outline], name: str) -> bool:
    return any(_of(block.loaded, name) for block in blocks)


def _of(boxes: Iterable[Box], name: str) -> list[int]:
    """First row, last row, first column, last column; [] if the block does not touch the array."""
    box = next((box for box in boxes if box.array == name), None)
    return [] if box is None else [box.first_row, box.last_row, box.first_column, box.last_column]


def _matrix(array: Array) -> dict[str, Any]:
    return {"name": array.name, "rows": array.rows, "columns": array.columns, "bytes": array.itemsize,
            "role": array.role}  # fmt: skip


def _block(block: Outline, output: Array, inputs: Sequence[Array]) -> list[Any]:
    return [list(block.block), _of(block.stored, output.name), [_of(block.loaded, array.name) for array in inputs]]


def union_area(boxes: Sequence[Sequence[int]]) -> int:
    """Elements that at least one of the boxes covers: as ``GS.unionArea`` counts them."""
    boxes = [box for box in boxes if box]
    if not boxes:
        return 0
    rows = np.unique([edge for box in boxes for edge in (box[0], box[1] + 1)])
    columns = np.unique([edge for box in boxes for edge in (box[2], box[3] + 1)])
    covered = np.zeros((len(rows), len(columns)), bool)
    for first, last, left, right in boxes:
        down, along = np.searchsorted(rows, (first, last + 1)), np.searchsorted(columns, (left, right + 1))
        covered[down[0] : down[1], along[0] : along[1]] = True
    areas = np.outer(np.diff(rows, append=rows[-1]), np.diff(columns, append=columns[-1]))
    return int((areas * covered).sum())
