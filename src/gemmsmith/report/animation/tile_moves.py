"""A thread's outputs, and the k-tiles of A and B that pass by them."""

from __future__ import annotations

from markupsafe import Markup

from gemmsmith.report.animation.parts import WIDTH, drawing, moves, rect, text
from gemmsmith.report.view.packing import ranges
from gemmsmith.trace.launch_trace import Fed, LaunchTrace

_SECONDS = 5.0
_GAP, _TOP = 16, 16
_SIDE = 170  # pixels of the block's tile at most
_THREAD = 37  # one inside a warp, so that its place is not a corner


def tile_moves(trace: LaunchTrace, depth: int) -> Markup:
    """``depth`` is the depth of a k-tile."""
    roles = {array.role: array for array in trace.arrays if array.role}
    fed = {each.array: each for each in trace.fed}
    if not {"A", "B"} <= roles.keys() or roles["A"].name not in fed or roles["B"].name not in fed:
        return Markup("")
    a, b, k = fed[roles["A"].name], fed[roles["B"].name], roles["A"].columns
    rows = sorted({row for some, _ in a.sets for row in some})
    columns = sorted({column for _, some in b.sets for column in some})
    if not rows or not columns or not k:
        return Markup("")
    high, wide = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
    scale = min(_SIDE / high, (WIDTH - 40) * 0.55 / wide, 8.0)
    along = min(WIDTH - 60 - wide * scale, 230.0)
    left, top = 24 + along + _GAP, _TOP + min(along, 120.0) + _GAP
    thread = min(_THREAD, len(a.by_thread) - 1)
    own_rows, own_columns = ranges(a.sets[a.by_thread[thread]][0]), ranges(b.sets[b.by_thread[thread]][1])
    steps = max(1, k // max(1, depth))
    slab, drop = along / steps, min(along, 120.0) / steps
    body = [
        text(24, top - 5, f"{roles['A'].name}: the block's rows"),
        text(left + wide * scale + 6, _TOP + 10, f"{roles['B'].name}"),
        rect(24, top, along, high * scale, "sunk"), rect(left, _TOP, wide * scale, min(along, 120.0), "sunk"),
        rect(left, top, wide * scale, high * scale, "h1"),
        rect(24, top, slab, high * scale, "h3", moves("x", [24 + slab * n for n in range(steps)], _SECONDS)),
        rect(left, _TOP, wide * scale, drop, "h3", moves("y", [_TOP + drop * n for n in range(steps)], _SECONDS)),
    ]  # fmt: skip
    for first, last in own_rows:
        body.append(rect(24, top + (first - rows[0]) * scale, slab, max(1.2, (last - first + 1) * scale), "s1",
                         moves("x", [24 + slab * n for n in range(steps)], _SECONDS)))  # fmt: skip
    for first, last in own_columns:
        x = left + (first - columns[0]) * scale
        body.append(rect(x, _TOP, max(1.2, (last - first + 1) * scale), drop, "s2",
                         moves("y", [_TOP + drop * n for n in range(steps)], _SECONDS)))  # fmt: skip
    filling = moves("opacity", [0.35 + 0.65 * (n + 1) / steps for n in range(steps)], _SECONDS)
    for first, last in own_rows[:32]:
        for start, stop in own_columns[:32]:
            body.append(rect(left + (start - columns[0]) * scale, top + (first - rows[0]) * scale,
                             max(1.4, (stop - start + 1) * scale), max(1.4, (last - first + 1) * scale), "s3",
                             filling))  # fmt: skip
    return drawing("tile", top + high * scale + 6, body, _caption(trace, a, b, thread),
                   "A thread's outputs, and the k-tiles of A and B that pass by them")  # fmt: skip


def _caption(trace: LaunchTrace, a: Fed, b: Fed, thread: int) -> str:
    rows, columns = len(a.sets[a.by_thread[thread]][0]), len(b.sets[b.by_thread[thread]][1])
    return (f"Thread {thread} of {trace.threads}: {rows} × {columns} outputs stay in its registers while the k-tiles "
            f"pass. Each step of k takes {rows + columns} elements for {rows * columns} multiply-adds.")  # fmt: skip
