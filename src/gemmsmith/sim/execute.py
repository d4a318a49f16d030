"""What each operation does to a set of lanes: arithmetic, moves, loads, stores, atomics, shuffles."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.async_copy import AsyncCopies
from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.hazards import HazardLog, Shadow
from gemmsmith.sim.lanes import Array, Lanes, Wave, WaveState
from gemmsmith.sim.lower import Lowered
from gemmsmith.sim.matrix_unit import MatrixUnit
from gemmsmith.sim.memory import (
    LOCAL_WINDOW,
    RAW,
    SHARED_WINDOW,
    AccessFault,
    GlobalMemory,
    LaneFault,
    WindowMemory,
    window_of,
)
from gemmsmith.sim.wavefronts import WARP


class Execution(WaveState):
    """A wave's lanes with the memories they reach, and those who watch: race detector and counters."""

    def __init__(
        self,
        lowered: Lowered,
        wave: Wave,
        memory: GlobalMemory,
        late_copies: bool,
        log: HazardLog | None,
        counters: Counters | None,
    ) -> None:
        super().__init__(lowered, wave)
        self.memory = memory
        self.shared = WindowMemory("shared", len(wave.blocks), wave.shared_size)
        self.shared_base = self.block * self.shared.stride
        self.local = WindowMemory("local", wave.lanes if lowered.local_size else 0, lowered.local_size)
        self.local_base = np.arange(wave.lanes) * self.local.stride
        self.copies = AsyncCopies(self, wave.lanes, late_copies)
        self.counters = counters
        self.shadow = Shadow(self, log) if log is not None and wave.shared_size else None
        matrices = MatrixUnit(self)
        self.execute = {
            "ldmatrix": matrices.load, "stmatrix": matrices.store, "movmatrix": matrices.transpose,
            "mma": matrices.multiply,
            "compute": self._compute, "load": self._load, "store": self._store, "copy": self.copies.issue,
            "pack": self._pack, "unpack": self._unpack, "atomic": self._atomic, "assert": self._assert,
        }  # fmt: skip

    def _compute(self, step: Bundle, lanes: Lanes) -> None:
        function = step.first.function
        assert function is not None
        self.put(step.targets[0], lanes, function(*[self.fetch(s, lanes) for s in step.sources]))

    def _pack(self, step: Bundle, lanes: Lanes) -> None:
        width, target = step.first.width, step.targets[0]
        wide = np.dtype(f"u{width * len(step.sources)}")
        total: Any = wide.type(0)
        for i, source in enumerate(step.sources):
            total = total | (np.asarray(self.fetch(source, lanes)).astype(wide) << wide.type(8 * width * i))
        self.put(target, lanes, total)

    def _unpack(self, step: Bundle, lanes: Lanes) -> None:
        width = step.first.width
        value = np.asarray(self.fetch(step.sources[0], lanes))
        for target, part in zip(step.targets, step.first.offsets, strict=True):
            shifted = value >> value.dtype.type(8 * width * part)
            self.put(target, lanes, shifted.astype(f"u{width}").view(target.dtype))

    # -- memory -----------------------------------------------------------------------------------

    def addresses(self, base: Operand, offset: Any, lanes: Lanes, count: int) -> Array:
        """Byte addresses of every lane (and every operation of the bundle)."""
        values = self.fetch(base, lanes)
        shape = (np.arange(self.wave.lanes)[lanes] if isinstance(lanes, slice) else lanes).shape
        full = shape if count == 1 else (count, *shape)
        kind = values.dtype.type
        if isinstance(offset, int):
            values = values + kind(offset % (1 << (8 * values.dtype.itemsize))) if offset else values
        else:
            values = values + offset.astype(np.int64).astype(kind)
        return np.broadcast_to(values, full)

    def space(self, step: Bundle, addresses: Array) -> tuple[str, Array]:
        """The space an access goes to, with addresses inside it."""
        name = step.first.space
        if name != "generic":
            return name, addresses
        name = window_of(addresses)
        if name == "mixed":
            raise AccessFault("mixed-space", 0, int(addresses.reshape(-1)[0]),
                              "one instruction reaches several memories through generic pointers")  # fmt: skip
        start = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0}[name]
        return name, addresses - np.uint64(start)

    def window(self, name: str, lanes: Lanes) -> tuple[WindowMemory, Array]:
        return (self.shared, self.shared_base[lanes]) if name == "shared" else (self.local, self.local_base[lanes])

    def _count_access(self, step: Bundle, space: str, lanes: Lanes, addresses: Array) -> None:
        if self.counters is not None and space != "local":
            count = self.counters.global_access if space == "global" else self.counters.shared_access
            for operation, row in zip(step.operations, addresses.reshape(step.count, -1), strict=True):
                count(self, operation, lanes, row)

    def _load(self, step: Bundle, lanes: Lanes) -> None:
        width, parts = step.first.width, len(step.targets)
        if step.first.space == "param":
            raw = self._parameter(step, width)
        else:
            name, addresses = self.space(step, self.addresses(step.sources[0], step.offsets[0], lanes, step.count))
            self._count_access(step, name, lanes, addresses)
            if name == "global":
                raw = self.memory.gather(addresses, width)
            else:
                memory, bases = self.window(name, lanes)
                index = memory.index(addresses, bases, width)
                raw = memory.gather(index, width)
                if self.shadow is not None and name == "shared":
                    for operation, row in zip(step.operations, index.reshape(step.count, -1), strict=True):
                        self.shadow.read(operation, self.indices(lanes), row)
        if parts == 1:
            self.put(step.targets[0], lanes, raw.view(step.targets[0].dtype))
            return
        pieces = raw.view(RAW[width // parts]).reshape(*raw.shape, parts)
        for i, target in enumerate(step.targets):
            self.put(target, lanes, np.ascontiguousarray(pieces[..., i]).view(target.dtype))

    def _parameter(self, step: Bundle, width: int) -> Array:
        values = []
        for operation in step.operations:
            (source,) = operation.sources
            if not isinstance(source, np.generic):
                raise SimulationError(f"a parameter is read through a register ({operation.instruction.text})")
            at = int(source)
            values.append(np.frombuffer(self.wave.parameters[at : at + width], RAW[width])[0])
        return np.array(values, RAW[width]).reshape((-1, 1) if step.count > 1 else (1,))

    def _store(self, step: Bundle, lanes: Lanes) -> None:
        width, parts = step.first.width, len(step.sources) - 1
        name, addresses = self.space(step, self.addresses(step.sources[0], step.offsets[0], lanes, step.count))
        columns = [np.broadcast_to(self.fetch(s, lanes), addresses.shape) for s in step.sources[1:]]
        if parts == 1:
            values = np.ascontiguousarray(columns[0]).view(RAW[width])
        else:
            values = np.ascontiguousarray(np.stack(columns, axis=-1)).view(RAW[width]).reshape(addresses.shape)
        self._count_access(step, name, lanes, addresses)
        if name == "global":
            self.memory.scatter(addresses, width, values)
        else:
            memory, bases = self.window(name, lanes)
            index = memory.index(addresses, bases, width)
            memory.scatter(index, width, values)
            if self.shadow is not None and name == "shared":
                rows = zip(step.operations, index.reshape(step.count, -1), values.reshape(step.count, -1), strict=True)
                for operation, row, written in rows:
                    self.shadow.write(operation, self.indices(lanes), row, written)

    def _atomic(self, step: Bundle, lanes: Lanes) -> None:
        """Additions, or the larger of two, one lane after another in lane order."""
        width, update = step.first.width, {"add": np.add, "max": np.maximum}[step.first.label]
        name, addresses = self.space(step, self.addresses(step.sources[0], step.offsets[0], lanes, 1))
        values = np.broadcast_to(self.fetch(step.sources[1], lanes), addresses.shape)
        old = np.zeros(addresses.shape, values.dtype)
        if self.shadow is not None and name == "shared":
            self.shadow.atomic(
                step.first, self.indices(lanes), self.shared.index(addresses, self.shared_base[lanes], width)
            )
        for i in range(addresses.size):
            one = slice(i, i + 1)
            if name == "global":
                old[one] = self.memory.gather(addresses[one], width).view(values.dtype)
                self.memory.scatter(addresses[one], width, update(old[one], values[one]).view(RAW[width]))
            else:
                memory, bases = self.window(name, lanes)
                index = memory.index(addresses[one], bases[one], width)
                old[one] = memory.gather(index, width).view(values.dtype)
                memory.scatter(index, width, update(old[one], values[one]).view(RAW[width]))
        if step.targets:
            self.put(step.targets[0], lanes, old)

    def _assert(self, step: Bundle, lanes: Lanes) -> None:
        """Every lane that gets here has failed."""
        address = np.broadcast_to(self.fetch(step.sources[0], lanes), self.indices(lanes).shape)[0]
        raise LaneFault(0, ": ".join(filter(None, ("assertion failed", self.memory.text(int(address))))))

    def _shuffle(self, step: Bundle, lanes: Lanes) -> None:
        """shfl.sync: each lane reads another lane of its warp, by PTX's segment and clamp rules."""
        mine = self.indices(lanes)
        value, b, c = (np.broadcast_to(self.fetch(s, lanes), mine.shape).astype(np.int64) for s in step.sources[:3])
        lane = self.thread[mine] % WARP
        clamp, segment = c & 31, (c >> 8) & 31
        most = (lane & segment) | (clamp & ~segment & 31)
        least = lane & segment
        mode = step.first.label
        wanted = {
            "up": lane - (b & 31), "down": lane + (b & 31), "bfly": lane ^ (b & 31),
            "idx": least | (b & 31 & ~segment),
        }[mode]  # fmt: skip
        valid = wanted >= most if mode == "up" else wanted <= most
        source = np.where(valid, wanted, lane) + (mine - lane)
        table = np.zeros(self.wave.lanes, np.uint32)
        table[mine] = value.astype(np.uint32)
        present = np.zeros(self.wave.lanes, bool)
        present[mine] = True
        inside = (source - mine + self.thread[mine]) < self.wave.threads  # the last warp of a block may be short
        absent = ~(inside & present[np.where(inside, source, mine)])
        if absent.any():
            first = int(np.flatnonzero(absent)[0])
            raise LaneFault(first, f"shfl.sync of lane {lane[first]} reads lane {(source - mine + lane)[first]}, "
                            "a lane that does not take part")  # fmt: skip
        self.put(step.targets[0], lanes, table[source])
        if len(step.targets) == 2:
            self.put(step.targets[1], lanes, valid)
