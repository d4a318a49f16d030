"""The k-loop in order of execution: warps above, shared memory below, revealed from left to right."""

from __future__ import annotations

from markupsafe import Markup

from gemmsmith.report.animation.parts import WIDTH, drawing, moves, rect, text
from gemmsmith.report.view.data.shared_fills import Bands, Fill
from gemmsmith.trace.launch_trace import Event, Kind, LaunchTrace, Warp

_SECONDS = 8.0
_LEFT = 70
_COLUMNS = 300  # in which the time is cut
_ROW, _TOP = 12, 4
_TALL = 84  # pixels that all of shared memory may take
_MOST_WARPS = 8
_COLOURS = {
    Kind.ARITHMETIC: "s3", Kind.MMA: "s3", Kind.WGMMA: "s3", Kind.LOAD_GLOBAL: "s1", Kind.COPY: "s1",
    Kind.BULK_LOAD: "s1", Kind.LOAD_SHARED: "s6", Kind.LOAD_MATRIX: "s6", Kind.STORE_SHARED: "s5",
    Kind.STORE_MATRIX: "s5", Kind.STORE_GLOBAL: "s2", Kind.BULK_STORE: "s2",
    Kind.BARRIER: "s8", Kind.WAIT: "s8", Kind.PHASE_WAIT: "s8",
}  # fmt: skip
_TELLING = ("s1", "s8", "s5", "s2", "s3", "s6")  # of several in one column, the first that is there


def loop_moves(trace: LaunchTrace, bands: Bands, depth: int) -> Markup:
    """The first few k-tiles; ``depth`` is the depth of one."""
    fills = [fill for fill in bands.fills if fill.k >= 0]
    stop = _end(trace, fills, depth)
    warps = [warp for warp in trace.warps if warp.number >= 0 and len(warp.events) > 3][:_MOST_WARPS]
    if not warps or stop < 8:
        return Markup("")
    scale = (WIDTH - _LEFT - 4) / stop
    body: list[Markup] = []
    for n, warp in enumerate(warps):
        y: float = _TOP + n * _ROW
        body += [text(0, y + 9, f"warp {warp.number}"), rect(_LEFT, y, WIDTH - _LEFT - 4, _ROW - 2, "sunk")]
        body += [rect(_LEFT + first * scale, y, max(0.8, (last - first) * scale), _ROW - 2, tint)
                 for first, last, tint in _columns(trace, warp, stop)]  # fmt: skip
    top = _TOP + len(warps) * _ROW + 8
    groups = _groups(fills)
    each = min(18.0, max(8.0, _TALL / max(1, len(groups))))
    for n, (band, same) in enumerate(groups):
        y = top + n * each
        body += [text(0, y + each / 2 + 3, f"+{band * bands.size:,} B") if each > 12 or n % 2 == 0 else Markup(""),
                 rect(_LEFT, y, WIDTH - _LEFT - 4, each - 1, "sunk")]  # fmt: skip
        for fill in same:
            body += _fill(fill, y, each - 1, scale, stop, depth)
    high = top + len(groups) * each + 4
    wide = WIDTH - _LEFT - 4
    body += [
        rect(_LEFT, 0, wide, high, "card",
             moves("x", [_LEFT, WIDTH], _SECONDS, smooth=True), moves("width", [wide, 0], _SECONDS, smooth=True),
             opacity="0.8"),
        rect(_LEFT, 0, 2, high, "accent", moves("x", [_LEFT, WIDTH - 4], _SECONDS, smooth=True)),
    ]  # fmt: skip
    return drawing("loop", high, body, _caption(fills),
                   "What the warps execute and what shared memory holds, from left to right")  # fmt: skip


def _end(trace: LaunchTrace, fills: list[Fill], depth: int) -> int:
    """The slot at which the fourth k-tile has been read, or the end."""
    reads = [fill.read for fill in fills if fill.k // max(1, depth) < 4 and fill.read >= 0]
    return min(max(reads, default=trace.slots) + 4, trace.slots)


def _columns(trace: LaunchTrace, warp: Warp, stop: int) -> list[tuple[int, int, str]]:
    """Runs of one colour, in columns of equal length."""
    each = max(1, stop // _COLUMNS)
    found: dict[int, set[str]] = {}
    for event in warp.events:
        if event.start >= stop:
            break
        tint = _tint(trace, event)
        if tint:
            for column in range(event.start // each, min(event.stop - 1, stop) // each + 1):
                found.setdefault(column, set()).add(tint)
    runs: list[tuple[int, int, str]] = []
    for column in sorted(found):
        tint = next(name for name in _TELLING if name in found[column])
        if runs and runs[-1][1] == column * each and runs[-1][2] == tint:
            runs[-1] = runs[-1][0], (column + 1) * each, tint
        else:
            runs.append((column * each, (column + 1) * each, tint))
    return runs


def _tint(trace: LaunchTrace, event: Event) -> str:
    return _COLOURS.get(trace.instructions[event.instruction].kind, "")


def _groups(fills: list[Fill]) -> list[tuple[int, list[Fill]]]:
    """Neighbouring pieces of shared memory that fill and empty at about the same time are one."""
    by_band: dict[int, list[Fill]] = {}
    for fill in fills:
        by_band.setdefault(fill.band, []).append(fill)
    found: list[tuple[int, list[Fill]]] = []
    for band in sorted(by_band):
        mine = by_band[band]
        if found and [fill.landed for fill in found[-1][1]][:3] == [fill.landed for fill in mine][:3]:
            continue
        found.append((band, mine))
    every = -(-len(found) // 14)
    return found[::every]


def _fill(fill: Fill, y: float, high: float, scale: float, stop: int, depth: int) -> list[Markup]:
    if fill.issued >= stop:
        return []
    tint = f"s{fill.k // max(1, depth) % 8 + 1}"
    end = stop if fill.end < 0 else min(stop, fill.end)
    landed, read = min(fill.landed, stop), min(max(fill.read, fill.landed), stop)
    x = [_LEFT + at * scale for at in (fill.issued, landed, read, end)]
    return [rect(x[0], y, x[1] - x[0], high, tint, opacity="0.35"),
            rect(x[1], y, max(0.5, x[2] - x[1]), high, tint),
            rect(x[2], y, max(0.0, x[3] - x[2]), high, tint, opacity="0.18")]  # fmt: skip


def _caption(fills: list[Fill]) -> str:
    if sum(1 for fill in fills if fill.landed - fill.issued > 8) > 2:
        return ("Order of execution. Below, each stage of shared memory: pale while it fills, full while it is read, "
                "faint when it is free again. The next stage fills while this one is multiplied.")  # fmt: skip
    return ("Order of execution. Below, shared memory: full while a k-tile is read, faint when it is free again. All "
            "warps meet at a barrier before it is read and before it is overwritten.")  # fmt: skip
