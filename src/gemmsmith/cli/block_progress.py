"""A simulator that says how many blocks of a launch are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice

_LANES = 1 << 15  # threads simulated between two reports: what the simulator runs at once
Listener = Callable[[int, int], None]
"""Called with the number of blocks done and the number in all."""


class ReportingSimulator(SimDevice):
    """Launches a grid in pieces of as many blocks as the simulator runs at once anyway."""

    def __init__(self, *arguments: Any, listener: Listener, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._listener = listener

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Sequence[int] | None = None) -> None:
        numbers: Sequence[int] = range(launch.geometry.blocks) if blocks is None else blocks
        step = max(1, _LANES // launch.geometry.threads)
        if len(numbers) <= step:
            super().launch(loaded, launch, blocks)
            return
        for start in range(0, len(numbers), step):
            super().launch(loaded, launch, numbers[start : start + step])
            self._listener(min(start + step, len(numbers)), len(numbers))
