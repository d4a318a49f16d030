"""How long single lines take from DRAM: some come soon, a few much later, and a k-tile waits for the last of its lines.

Which line is slow cannot be known. Each gets its place in the measured distribution from its number, so that a
prediction is the same every time.
"""

from __future__ import annotations

from functools import cache

# Shares of all lines, and how long these take at most, of what the median takes beyond L2. Up to 0.9 from single lines
# (h200_fetch_bursts.json: 240, 250, 270, 390, 425 and 477 cycles), above from the last of 48, 192 and 384 lines (the
# same record and h200_shared_panels.json: 470, 570 and 650 cycles).
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 0.995, 1.0)
_TIMES = (0.62, 0.64, 0.69, 1.0, 1.09, 1.15, 1.2, 1.46, 1.67)
_PLACES = 1024
LAST = 1.46  # of some 200 lines


def spread(line: int) -> float:
    """How long a line takes, of what the median takes."""
    return _table()[(line * 2654435761 >> 7) % _PLACES]


@cache
def _table() -> tuple[float, ...]:
    found = []
    for place in range(_PLACES):
        share = place / _PLACES
        n = next(n for n, upper in enumerate(_SHARES[1:]) if share < upper)
        part = (share - _SHARES[n]) / (_SHARES[n + 1] - _SHARES[n])
        found.append(_TIMES[n] + part * (_TIMES[n + 1] - _TIMES[n]))
    return tuple(found)
