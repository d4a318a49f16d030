"""The simulator as a device that writes down what warps execute, on operands that are zero."""

from __future__ import annotations

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.sass.device import MachineDevice
from gemmsmith.sim.timing.block_steps import BlockSteps
from gemmsmith.sim.timing.events import EventRecorder
from gemmsmith.sim.timing.streams import StreamRecorder

_LONGEST_S = 120.0  # CPU seconds of one launch: on zeros a loop may never end that ends on other data


class StreamDevice(MachineDevice):
    """Its counters are ``StreamRecorder``s; ``BlockSteps`` while ``only_steps`` is set."""

    only_steps = False

    def __init__(self, arch: str) -> None:
        super().__init__(arch, count=True, moves_data=False, timeout=_LONGEST_S)
        self.garbage = 0

    def counting(self, lowered: Lowered, geometry: Geometry) -> Counters:
        if self.only_steps:
            self.recorder = None
            return BlockSteps(lowered, geometry)
        recorder = StreamRecorder(lowered, geometry)
        self.recorder = EventRecorder(recorder)
        return recorder
