"""The lanes of a warp ask for their elements one after another, and sectors move."""

from __future__ import annotations

from markupsafe import Markup

from gemmsmith.report.animation.parts import WIDTH, appears, drawing, rect, text
from gemmsmith.trace.launch_trace import Access, Kind, LaunchTrace

_SECONDS, _HOLD = 6.0, 0.7  # the last lane asks after this share of a round
_LEFT, _TOP, _ROW = 86, 30, 15
_CELL = (WIDTH - _LEFT - 4) / 32
_MOST_LINES = 20


def access_moves(trace: LaunchTrace) -> Markup:
    """Of the global load that moves most sectors for its bytes."""
    found = _costliest(trace)
    if found is None:
        return Markup("")
    access, where = found
    lanes = [None if offset < 0 else access.at + offset for offset in trace.patterns[access.pattern]]
    lines = sorted({(at + byte) // 128 for at in lanes if at is not None for byte in range(0, access.width, 4)})
    body = [text(_LEFT - 30, 14, "lane")]
    shown = {line: n for n, line in enumerate(lines[:_MOST_LINES])}
    first: dict[tuple[int, int], int] = {}
    for lane, at in enumerate(lanes):
        body.append(rect(_LEFT + lane * _CELL, 3, _CELL - 1, 15, "s1" if at is not None else "sunk",
                         appears(_when(lane), _SECONDS, low=0.3)))  # fmt: skip
        if at is not None:
            for byte in range(0, access.width, 4):
                first.setdefault(((at + byte) // 128, (at + byte) % 128 // 32), lane)
    for (line, sector), lane in first.items():
        if line in shown:
            y = _TOP + shown[line] * _ROW
            body.append(rect(_LEFT + sector * 8 * _CELL, y, 8 * _CELL - 2, _ROW - 3, "del",
                             appears(_when(lane), _SECONDS)))  # fmt: skip
    for line, n in shown.items():
        body.append(text(_LEFT - 6, _TOP + n * _ROW + 10, _name(trace, line * 128), text_anchor="end"))
        for sector in range(4):
            body.append(rect(_LEFT + sector * 8 * _CELL, _TOP + n * _ROW, 8 * _CELL - 2, _ROW - 3, "none",
                             stroke="var(--grid-strong)"))  # fmt: skip
    for lane, at in enumerate(lanes):
        if at is not None and at // 128 in shown:
            x, y = _LEFT + at % 128 // 4 * _CELL, _TOP + shown[at // 128] * _ROW
            body.append(rect(x, y + 1, max(1.0, access.width / 4) * _CELL - 1, _ROW - 5, "s1",
                             appears(_when(lane), _SECONDS)))  # fmt: skip
    more = len(lines) - len(shown)
    if more > 0:
        body.append(text(_LEFT, _TOP + len(shown) * _ROW + 10, f"and {more} more lines of 128 bytes"))
    share = 100 * min(1.0, access.used / max(1, 32 * access.sectors))
    caption = (f"One warp at {where}: {access.used} bytes asked for, {access.sectors} sectors of 32 bytes moved, "
               f"{share:.0f} % of them used.")  # fmt: skip
    return drawing("access", _TOP + (len(shown) + (more > 0)) * _ROW + 6, body, caption,
                   "The lanes of a warp ask for elements, and the sectors that hold them move")  # fmt: skip


def _when(lane: int) -> float:
    return 0.04 + (_HOLD - 0.04) * lane / 31


def _costliest(trace: LaunchTrace) -> tuple[Access, str] | None:
    best: tuple[int, Access, str] | None = None
    for warp in trace.warps[:1]:
        for event in warp.events:
            instruction = trace.instructions[event.instruction]
            access = event.access
            if instruction.kind is not Kind.LOAD_GLOBAL or access is None or access.pattern < 0:
                continue
            if best is None or access.sectors > best[0]:
                best = access.sectors, access, f"{instruction.file}:{instruction.line}"
    return None if best is None else (best[1], best[2])


def _name(trace: LaunchTrace, address: int) -> str:
    array = trace.array_at(address)
    if array is None:
        return ""
    row, column = array.place(address)
    return f"{array.name}[{row}][{column}]"
