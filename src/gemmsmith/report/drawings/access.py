"""A rung's costliest memory instruction, lane by lane: the sectors or the banks that one warp touches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.report.charts.frame import Canvas, Chart, Draw, Drawing, Table, chart
from gemmsmith.report.charts.svg import SERIES, join, rect, text
from gemmsmith.report.charts.words import percent
from gemmsmith.report.report_model import Rung
from gemmsmith.sim.wavefronts import BANKS, LINE, NOBODY

_SECTOR = 32
_MOST_LINES = 32


@dataclass(frozen=True)
class _Drawn:
    title: str
    caption: str
    draw: Draw


def costliest_access(rung: Rung, anchor: str) -> Chart | None:
    """The access with most wavefronts lost to bank conflicts, or with most sectors beyond the bytes used."""
    worst = costliest(rung.profile.patterns if rung.profile else ())
    if worst is None or rung.profile is None:
        return None
    made = _banks(worst) if worst.space == "shared" else _lines(worst)
    if made is None:
        return None
    where = f"{worst.where}: {worst.source}" if worst.source else worst.where
    table = Table(("lane", "bytes from the first"), _rows(worst))
    return chart(f"{anchor}-access", made.title, made.caption, table, made.draw, [rung.profile.origin], f"At {where}")


def costliest(patterns: Iterable[AccessPattern]) -> AccessPattern | None:
    """The access that loses most, in wavefronts or sectors of the whole launch.

    One sector for all lanes is a broadcast: no layout makes it cheaper.
    """
    wasteful = (p for p in patterns if p.space == "shared" or len(_sectors(p)) > 1)
    return max(wasteful, key=lambda p: p.excess, default=None)


def _active(pattern: AccessPattern) -> list[tuple[int, int]]:
    return [(lane, at) for lane, at in enumerate(pattern.lanes) if at != NOBODY]


def _sectors(pattern: AccessPattern) -> set[int]:
    return {(at + byte) // _SECTOR for _, at in _active(pattern) for byte in (0, pattern.width - 1)}


def _rows(pattern: AccessPattern) -> tuple[tuple[str, ...], ...]:
    active = _active(pattern)
    first = min(at for _, at in active)
    return tuple((str(lane), f"{at - first:,}") for lane, at in active)


def _lines(pattern: AccessPattern) -> _Drawn | None:
    """Each 128-byte line as a row of four sectors; what a lane uses is filled."""
    active = _active(pattern)
    if not active:
        return None
    lines: dict[int, list[tuple[int, int]]] = {}
    for lane, at in active:
        lines.setdefault(at // LINE, []).append((lane, at % LINE))
    sectors = _sectors(pattern)
    used = len({at + byte for _, at in active for byte in range(pattern.width)})
    moved = len(sectors) * _SECTOR
    shown = sorted(lines)[:_MOST_LINES]
    word = "store" if pattern.writes else "load"
    caption = (f"One warp's {word}: the 32 lanes touch {len(lines)} lines of 128 bytes. A row is a line, a box is a "
               f"sector of 32 bytes; filled is what a lane uses: {percent(used / moved)} of the {moved:,} bytes "
               "moved.")  # fmt: skip

    def draw(canvas: Canvas) -> Drawing:
        across = 2 if len(shown) > 8 and not canvas.narrow else 1
        per = -(-len(shown) // across)
        wide = min((canvas.width - 60 * across) / across - 10, 400.0)
        parts: list[Markup] = []
        for at, number in enumerate(shown):
            x, y = (at // per) * (wide + 70) + 58, (at % per) * 15.0 + 4
            parts.append(text(x - 8, y + 10, f"line {at}", "tick", "end"))
            for sector in range(LINE // _SECTOR):
                fetched = number * (LINE // _SECTOR) + sector in sectors
                class_ = "sector fetched" if fetched else "sector"
                parts.append(rect(x + sector * wide / 4 + 1, y, wide / 4 - 2, 12, class_))
            for lane, offset in lines[number]:
                size = max(min(pattern.width, LINE - offset) / LINE * wide - 1, 2)
                told = f"lane {lane}: bytes {offset} to {offset + pattern.width - 1}"
                parts.append(rect(x + offset / LINE * wide, y + 1, size, 10, "s1 fill mark", told))
        bottom = per * 15.0 + 10
        if len(lines) > len(shown):
            parts.append(text(58, bottom + 12, f"and {len(lines) - len(shown)} lines more", "tick"))
            bottom += 18
        return Drawing(join(*parts), bottom + 6)

    return _Drawn(f"Its costliest {word}: {len(sectors)} sectors for {used} bytes", caption, draw)


def _banks(pattern: AccessPattern) -> _Drawn | None:
    """The 32 banks side by side; the words that one bank must serve are stacked, one wavefront each."""
    group = pattern.served_together
    banks = pattern.banks(group)
    deepest = max((len(words) for words in banks.values()), default=0)
    if not deepest:
        return None
    word = "store" if pattern.writes else "load"
    name = f" of {pattern.array}" if pattern.array else ""
    title = f"Its costliest shared {word}{name}: {deepest} wavefronts instead of one"
    lanes = f"Lanes {group[0][0]} to {group[-1][0]}" if len(group) < len(pattern.lanes) else "The 32 lanes"
    caption = (f"{lanes} of one warp, {pattern.width} bytes each. A column is a bank, a box is a word that a lane "
               f"needs of it; a bank serves one word per wavefront. {len(banks)} of 32 banks are used.")  # fmt: skip

    def draw(canvas: Canvas) -> Drawing:
        left, high = (26.0, 20.0) if canvas.narrow else (92.0, 24.0)
        wide = (canvas.width - left) / BANKS
        parts: list[Markup] = []
        for level in range(deepest):
            words = str(level + 1) if canvas.narrow else f"wavefront {level + 1}"
            parts.append(text(0, level * high + high / 2 + 6, words, "tick"))
        for bank in range(BANKS):
            x = left + bank * wide
            parts.append(rect(x + 0.5, 2, wide - 1, deepest * high, "sector"))
            if bank % 4 == 0:
                parts.append(text(x, deepest * high + 18, str(bank), "tick"))
            for level, (address, lane) in enumerate(sorted(banks.get(bank, {}).items())):
                class_, y = f"s{min(level, SERIES - 1) + 1}", level * high
                parts.append(rect(x + 1.5, 3 + y, wide - 3, high - 2, f"{class_} fill mark",
                                  f"bank {bank}: word {address} for lane {lane}", 2))  # fmt: skip
                if wide > 20:
                    parts.append(text(x + wide / 2, y + high / 2 + 6, str(lane), f"on-bar {class_} lane", "middle"))
        parts.append(text(left, deepest * high + 36, "bank; the number in a box is the lane", "axis"))
        return Drawing(join(*parts), deepest * high + 46)

    return _Drawn(title, caption, draw)
