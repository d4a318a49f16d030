"""A fake GPU for timing tests: memory is an array, contenders advance the clock, graphs are lists of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith.bench.clocks import NoProbe, Probe
from gemmsmith.bench.limits import Limits
from gemmsmith.bench.rig import Rig
from gemmsmith.cli import bench_plan
from gemmsmith.cli.commands import bench as bench_command
from gemmsmith.errors import LaunchError, UnsupportedError
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Enqueue, Identity, OperandSet
from gemmsmith.run.device import Bytes

BASE = 1 << 20


@dataclass
class FakeMemory:
    """One arena; its base is not 0 and not aligned by chance."""

    size: int = 8 << 20
    live: set[int] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    used: int = 0

    def __post_init__(self) -> None:
        self.data = np.zeros(self.size, np.uint8)

    def view(self, address: int, nbytes: int) -> Bytes:
        assert address >= BASE
        assert address + nbytes <= BASE + self.size
        return self.data[address - BASE : address - BASE + nbytes]

    def allocate(self, nbytes: int) -> int:
        address = BASE + self.used + 8
        self.used += nbytes + 8
        assert self.used <= self.size
        self.live.add(address)
        return address

    def free(self, address: int) -> None:
        self.live.remove(address)
        if not self.live:
            self.used = 0

    def write(self, address: int, data: Bytes) -> None:
        self.view(address, data.nbytes)[:] = data

    def read(self, address: int, nbytes: int) -> Bytes:
        return self.view(address, nbytes).copy()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.view(target, nbytes)[:] = self.view(source, nbytes)

    def preset(self, address: int, word: int, count: int, itemsize: int) -> None:
        self.view(address, count * itemsize).view(f"<u{itemsize}")[:] = word
        self.log.append("preset")

    def free_bytes(self) -> int:
        return self.size

    def synchronize(self) -> None:
        pass


@dataclass
class FakeReplay:
    calls: list[Callable[[], None]]
    watch: FakeStopwatch
    closed: bool = False

    def __call__(self) -> None:
        assert not self.closed
        for call in self.calls:
            call()

    def close(self) -> None:
        assert not self.closed
        self.closed = True
        self.watch.open_graphs -= 1


@dataclass
class FakeStopwatch:
    """Time passes only in work that contenders enqueue."""

    clock: float = 0.0
    stream: int = 77
    capturing: list[Callable[[], None]] | None = None
    open_graphs: int = 0
    is_active: bool = False

    @contextmanager
    def active(self) -> Iterator[None]:
        self.is_active = True
        try:
            yield
        finally:
            self.is_active = False

    def run(self, call: Callable[[], None]) -> None:
        """Run a contender's work: now, or at each replay of the graph."""
        assert self.is_active
        if self.capturing is not None:
            self.capturing.append(call)
        else:
            call()

    def seconds(self, work: Callable[[], None], lead: Callable[[], None] | None = None) -> float:
        if lead is not None:
            lead()
        before = self.clock
        work()
        return self.clock - before

    def capture(self, work: Callable[[], None]) -> FakeReplay:
        self.capturing = calls = []
        try:
            work()
        finally:
            self.capturing = None
        self.open_graphs += 1
        return FakeReplay(calls, self)

    def host_seconds(self, work: Callable[[], None]) -> float:
        work()
        return 1e-5

    def now(self) -> float:
        return self.clock

    def synchronize(self) -> None:
        pass

    def close(self) -> None:
        pass


def _steady(_launch: int) -> float:
    return 1.0


Spoil = Callable[[np.ndarray[tuple[int, ...], np.dtype[np.float32]], int], None]


@dataclass
class FakeContender:
    """Computes the product in fp32 on fake memory; a launch takes ``seconds``, with a given jitter.

    spoil      changes C after the launch of that number (from 0)
    capturable whether it can be captured into a graph
    """

    watch: FakeStopwatch
    memory: FakeMemory
    name: str = "ours"
    seconds: float = 1e-3
    kind: str = "rung"
    precision: str = "fp32"
    jitter: Callable[[int], float] = _steady
    spoil: Spoil | None = None
    reads_c: bool = False
    capturable: bool = True
    refuses: str = ""
    faults: str = ""
    changes_input: bool = False
    sets_seen: list[int] = field(default_factory=list)
    launches: int = 0
    closed: int = 0
    resources: tuple[tuple[str, float], ...] = ()

    @property
    def identity(self) -> Identity:
        return Identity(self.name, self.kind, precision=self.precision)

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        assert stream == self.watch.stream
        if self.refuses:
            raise UnsupportedError(self.refuses, "ask another")

        def enqueue(index: int) -> None:
            if self.faults:
                raise LaunchError(self.faults)
            if self.watch.capturing is not None and not self.capturable:
                raise LaunchError("it allocates")
            self.watch.run(lambda: self._launch(problem, sets, index))

        return enqueue

    def close(self) -> None:
        self.closed += 1

    def _launch(self, problem: Problem, sets: Sequence[OperandSet], index: int) -> None:
        a = self._matrix(sets[index].a, problem.a_shape, problem.dtype.numpy)
        b = self._matrix(sets[index].b, problem.b_shape, problem.dtype.numpy)
        c = self._matrix(sets[index].c, problem.c_shape, problem.out_dtype.numpy)
        left, right = (a.T if problem.trans_a else a), (b.T if problem.trans_b else b)
        c[...] = left.astype(np.float32) @ right.astype(np.float32) + (0 * c if self.reads_c else 0)
        if self.spoil is not None:
            self.spoil(c, self.launches)
        if self.changes_input:
            a[0, 0] += 1
        self.watch.clock += self.seconds * self.jitter(self.launches)
        self.launches += 1
        self.sets_seen.append(index)

    def _matrix(self, address: int, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:  # type: ignore[type-arg]
        return self.memory.view(address, shape[0] * shape[1] * dtype.itemsize).view(dtype).reshape(shape)


@dataclass
class Messages:
    """Messages from the rig's callbacks."""

    steps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class FakeGpu:
    """A rig without a GPU; its L2 is small, so that a few sets rotate."""

    memory: FakeMemory = field(default_factory=FakeMemory)
    watch: FakeStopwatch = field(default_factory=FakeStopwatch)
    messages: Messages = field(default_factory=Messages)
    l2_bytes: int = 20_000
    probe: Probe = field(default_factory=NoProbe)

    def rig(self, limits: Limits | None = None) -> Rig:
        known = limits or Limits(gpu_named("H200"), 1980.0, self.l2_bytes)
        return Rig(self.memory, self.watch, known, self.l2_bytes, self.probe, self.messages.steps.append,
                   self.messages.notes.append)  # fmt: skip

    def contender(self, name: str = "ours", seconds: float = 1e-3, **facts: object) -> FakeContender:
        return FakeContender(self.watch, self.memory, name, seconds, **facts)  # type: ignore[arg-type]


def put_in_command(fake: FakeGpu, patch: pytest.MonkeyPatch, folder: Path, kernel: Callable[..., object]) -> None:
    """Make `gemmsmith bench` use this GPU, ``kernel(spec, config, …)`` as rungs, and a database in ``folder``."""

    class Device:
        name, arch, driver_version, sms = "NVIDIA H200", "sm_90", "13.0", 132

    @contextmanager
    def rig(_device: object, step: Any, note: Any) -> Iterator[Rig]:
        base = fake.rig()
        yield Rig(base.memory, base.stopwatch, base.limits, base.l2_bytes, base.probe, step, note)

    patch.setattr(bench_command, "cuda_device", Device)
    patch.setattr(bench_command, "cuda_rig", rig)
    patch.setattr(bench_plan, "KernelContender", kernel)
    patch.setenv("GEMMSMITH_DB", str(folder / "results.sqlite"))
