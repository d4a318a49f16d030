"""The lines of one SM's L1: which sectors of each are there, from when on, and which line goes first.

The line that was not used for longest goes when there is no more room. As long as none has gone, the order matters
later at most: each line only notes when it was used. An access of many lines that are all there, which other warps
repeat, is then looked up as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Lines = Sequence[tuple[int, int]]
"""The lines that an access touches, and the sectors of each as bits of a mask."""

_SECTORS, _READY, _USED, _PLACE = range(4)  # of a line; used: the number of an access, and the line's place in it
_MANY = 5  # lines of an access that is worth looking up


class L1Lines:
    """``room``: how many lines it has room for."""

    def __init__(self, room: int) -> None:
        self._room, self._full = room, False
        self._lines: dict[int, list[Any]] = {}  # once it was full: the one that was not used for longest first
        self._accesses = 0
        self._whole: dict[int, tuple[Lines, float, list[int]]] = {}  # by identity: lines, when ready, last use
        self._in: dict[int, list[int]] = {}  # by line: those of ``_whole`` that have it

    def ready(self, lines: Lines) -> float:
        """When the lines of an access were there; −1 if they have to be looked at one by one."""
        found = self._whole.get(id(lines))
        if found is None:
            return -1.0
        self._accesses += 1
        found[2][0] = self._accesses
        return found[1]

    def access(self, lines: Lines, fetch: Callable[[int, int], float], keep: bool) -> float:
        """The same line by line; ``fetch`` says of a line and of sectors that it lacks when they arrive.

        ``keep``: these lines live as long as this object, and may come again.
        """
        self._accesses += 1
        latest, used, full = 0.0, self._accesses, self._full
        for place, (line, mask) in enumerate(lines):
            entry = self._lines.pop(line, None) if full else self._lines.get(line)
            if entry is None:
                if len(self._lines) >= self._room:
                    if not full:
                        self._put_in_order()
                        full = True
                    del self._lines[next(iter(self._lines))]
                entry = [0, 0.0, used, place]
                self._lines[line] = entry
            elif full:
                self._lines[line] = entry
            else:
                entry[_USED], entry[_PLACE] = used, place
            missing = mask & ~entry[_SECTORS]
            if missing:
                arrival = fetch(line, missing)
                entry[_SECTORS] |= missing
                if arrival > entry[_READY]:
                    entry[_READY] = arrival
                for other in self._in.pop(line, ()):
                    self._take_apart(other)
            if entry[_READY] > latest:
                latest = entry[_READY]
        if keep and not full and len(lines) >= _MANY:
            self._whole[id(lines)] = lines, latest, [used]
            for line, _ in lines:
                self._in.setdefault(line, []).append(id(lines))
        return latest

    def _take_apart(self, number: int) -> None:
        """Note in its lines when an access was made last, and look at them one by one again."""
        found = self._whole.pop(number, None)
        if found is None:
            return
        lines, _, (used,) = found
        for place, (line, _) in enumerate(lines):
            entry = self._lines[line]
            if used > entry[_USED]:
                entry[_USED], entry[_PLACE] = used, place

    def _put_in_order(self) -> None:
        for number in list(self._whole):
            self._take_apart(number)
        self._in.clear()
        self._full = True
        self._lines = dict(sorted(self._lines.items(), key=lambda item: (item[1][_USED], item[1][_PLACE])))
