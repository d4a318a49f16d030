"""How many steps each block of a launch takes: enough to see which ones end at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Lowered


class BlockSteps(Counters):
    """Stands where counters stand, and counts the steps of each block, whichever of its warps takes them."""

    def __init__(self, lowered: Lowered, geometry: Geometry) -> None:
        super().__init__(lowered, geometry)
        self.of = np.zeros(geometry.blocks, np.int64)
        self._state: WaveState | None = None
        self._blocks = np.zeros(0, np.int64)  # of the wave

    def issued(self, state: WaveState, step: Bundle[Any], lanes: Lanes, active: Lanes | None) -> None:  # noqa: ARG002
        if state is not self._state:
            self._state, self._blocks = state, np.asarray(state.wave.blocks)
        seen = np.bincount(state.block[lanes], minlength=len(self._blocks)) > 0
        self.of[self._blocks[seen]] += 1

    def executed(self, state: WaveState, step: Bundle[Any], lanes: Lanes) -> None:
        """Nothing: machine code is counted when it is issued."""

    def diverged(self, state: WaveState, step: Bundle[Any], one: Lanes, other: Lanes) -> None:
        """Nothing: both sides are issued."""
