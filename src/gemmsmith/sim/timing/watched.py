"""The cycle model with a log of every instruction that issues: when, after which wait, and when its result is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.outcome import NEVER, WAIT
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Row


class Issued(NamedTuple):
    """An instruction of a warp, in cycles of the SM.

    ``since``: when the warp could look at it, the cycle after the instruction before; ``at``: when it issued;
    ``done``: when its result is there, 0 where only its stall count says so. ``reason``: what it waited for longest,
    an index of ``REASONS``.
    """

    warp: int
    row: Row
    since: float
    at: float
    done: float
    reason: int


class WatchedSm(Sm):
    """``log`` has what issued, in order of time; ``warp`` is the number of the stream."""

    watched = True

    def __init__(
        self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters, memory: Memory,
        sm_of: dict[int, int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows, streams, model, memory, sm_of)
        self.log: list[Issued] = []
        self._before = {id(op): list(op[8]) for ops in self.ops for op in ops}

    def _issue(self, w: int, part: int, now: float) -> tuple[Sequence[int], bool]:
        op = self.ops[w][self.at[w]]
        waited = [b - a for a, b in zip(self._before[id(op)], op[8], strict=True)]
        self._before[id(op)] = list(op[8])
        longest = waited.index(max(waited)) if max(waited) > 0 else WAIT
        since = self.last[w] + 1 if self.at[w] else 0.0
        self.log.append(Issued(w, self.code[w][self.at[w]], since, now, 0.0, longest))
        return super()._issue(w, part, now)

    def _effect(self, w: int, part: int, row: Row, payload: Any, now: float) -> float:
        done = super()._effect(w, part, row, payload, now)
        self.log[-1] = self.log[-1]._replace(done=done if done < NEVER else 0.0)
        return done
