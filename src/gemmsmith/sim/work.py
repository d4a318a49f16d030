"""What the simulator did in this process, as the seconds that a usual core takes for it.

A budget that counts these ends at the same launch whatever else the machine does, and on any machine.
"""

from __future__ import annotations

# Fitted to 5,858 trials of 115 kernels, several at a time on a server: of four checks in five, 0.7 to 1.6 times the CPU
# seconds of their trials, 1.16 times in the middle.
_OPERATION, _LANE = 1.5e-5, 1.4e-8  # one operation of a group, and for each of its lanes
_TURN, _WATCHED_TURN = 4e-5, 1.5e-4  # of a group, until it waits; where races are looked for
_PAIR, _MOMENT = 1e-6, 1e-3  # two accesses of which one may come first, and what all lanes know at some time
_ACQUIRED = 7e-4  # what lanes learn from those that they waited for
_WAVE = 0.0055  # with the operands and the judgement of its launch


class Work:
    """What was done since the process began."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add_wave(self) -> None:
        self.seconds += _WAVE

    def add_turn(self, operations: int, lanes: int, watched: bool) -> None:
        """Count a group's turn: so many operations, each of so many lanes."""
        self.seconds += operations * (_OPERATION + _LANE * lanes) + (_WATCHED_TURN if watched else _TURN)

    def add_search(self, pairs: int, moments: int) -> None:
        """Count a search for races: so many pairs of accesses, at so many moments."""
        self.seconds += pairs * _PAIR + moments * _MOMENT

    def add_acquire(self) -> None:
        self.seconds += _ACQUIRED


WORK = Work()
