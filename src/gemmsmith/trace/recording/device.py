"""A simulated device that records the launch it is asked to."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemmsmith.errors import SimulationError, TimeLimitError, UnknownInstructionError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.races.memory_order import shared_between_threads
from gemmsmith.sim.wave import linear
from gemmsmith.trace.launch_trace import Array, Size
from gemmsmith.trace.recording.recorder import LaunchRecorder

# All blocks are simulated while they have no more threads than this; else only the block in full and its cluster.
_MOST_THREADS = 1 << 16
_GRANULE = 4
_BLOCK = re.compile(r"\bblock \((\d+),(\d+),(\d+)\)")  # as the simulator names the place of a fault


@dataclass(frozen=True)
class Shape:
    """What is known of an array before it has an address; strides in elements."""

    name: str
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    itemsize: int
    dtype: str
    role: str = ""
    offset: int = 0  # bytes from the address that is labelled
    nbytes: int = 0

    def at(self, address: int) -> Array:
        extent = max(0, self.rows - 1) * self.row_stride + max(0, self.columns - 1) * self.column_stride + 1
        return Array(self.name, address + self.offset, self.nbytes or extent * self.itemsize, self.itemsize, self.dtype,
                     self.rows, self.columns, self.row_stride, self.column_stride, self.role)  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """A recorder that has seen a launch, and that launch. ``fault``: what stopped it; empty if it ended."""

    recorder: LaunchRecorder
    loaded: LoadedPtx
    geometry: Geometry
    arrays: tuple[Array, ...]
    granule: int
    seconds: float
    widths: Mapping[int, int] = field(default_factory=dict)
    counters: Counters | None = None
    fault: str = ""


class TracingDevice(SimDevice):
    """Records the next launch after ``trace_next``. Arrays are known by the names that they are labelled with."""

    def __init__(self, arch: str, shapes: Sequence[Shape], block: Size, timeout: float) -> None:
        super().__init__(arch, count=True, timeout=timeout)
        self.shapes = {shape.name: shape for shape in shapes}
        self.block = block
        self.recorded: Recorded | None = None
        self.trace_next = True
        self._labelled: dict[str, int] = {}

    def label(self, address: int, name: str, itemsize: int = 0) -> None:
        super().label(address, name, itemsize)
        self._labelled[name] = address

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Sequence[int] | None = None) -> None:
        if not self.trace_next:
            super().launch(loaded, launch, blocks)
            return
        geometry = launch.geometry
        arrays = tuple(self.shapes[name].at(address) for name, address in self._labelled.items() if name in self.shapes)
        granule = min([_GRANULE, *(array.itemsize for array in arrays), *_matrix_elements(loaded.lowered)])
        number = int(linear(self.block, geometry.grid))
        shared = loaded.lowered.static_shared + geometry.smem + 16
        self.recorder = LaunchRecorder(loaded.lowered, geometry.grid, geometry.threads, number, arrays, shared, granule)
        start = time.perf_counter()
        fault = ""
        try:
            super().launch(loaded, launch, self._chosen(loaded, geometry, number) if blocks is None else blocks)
        except (TimeLimitError, UnknownInstructionError):
            raise
        except SimulationError as error:  # what the kernel did until then is drawn
            if not self.recorder.began:
                raise
            fault = str(error) + self._elsewhere(str(error))
        self.recorded = Recorded(self.recorder, loaded, geometry, arrays, granule, time.perf_counter() - start,
                                 dict(self.counters.widths) if self.counters is not None else {},
                                 self.counters, fault)  # fmt: skip
        self.recorder = None
        self.trace_next = False

    def _elsewhere(self, fault: str) -> str:
        """A hint where the fault is another block's than the one in full."""
        named = _BLOCK.search(fault)
        if named is None or tuple(map(int, named.groups())) == self.block:
            return ""
        return f"\nThat is another block than the one in full: --trace-block {','.join(named.groups())} draws it."

    def _chosen(self, loaded: LoadedPtx, geometry: Geometry, number: int) -> list[int] | None:
        """The blocks to simulate; None for all."""
        together = geometry.cooperative or loaded.lowered.fact(shared_between_threads).polls_global
        return None if together or geometry.blocks * geometry.threads <= self.most_threads else [number]

    most_threads = _MOST_THREADS


def flat(name: str, count: int, itemsize: int, dtype: str, **more: Any) -> Shape:
    """A one-dimensional array."""
    return Shape(name, 1, count, max(1, count), 1, itemsize, dtype, **more)


def _matrix_elements(lowered: Lowered) -> set[int]:
    """Bytes of the elements of the program's matrix instructions: an fp32 array may be multiplied in bf16 parts."""
    forms = {operation.detail for operation in lowered.operations if operation.instruction.opcode == "mma"}
    return {form.unit for form in forms if hasattr(form, "unit")}
