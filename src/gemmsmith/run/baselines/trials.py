"""Trial runs while a baseline is prepared: they warm it up and time its variants, and write to no operand's C."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from gemmsmith.errors import LaunchError
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Enqueue, OperandSet
from gemmsmith.run.cuda import CudaDevice, cuda_device, pointer_ordinal

# Libraries and compilers choose code by the alignment of addresses, up to this many bytes.
ALIGNMENT = 256
# The length of a round: long against the half microsecond that events resolve.
ROUND_SECONDS = 0.002
ROUNDS = 5
MOST_LAUNCHES = 64
# A variant is dropped if its first run takes this many times the best. That run includes the host's time to launch it,
# which is allowed for.
HOPELESS = 1.5
HOST_SECONDS = 0.0002


def device_of(sets: Sequence[OperandSet]) -> CudaDevice:
    """The GPU that holds the operands."""
    return cuda_device(pointer_ordinal(sets[0].a))


@contextmanager
def trial_sets(device: CudaDevice, problem: Problem, sets: Sequence[OperandSet]) -> Iterator[list[OperandSet]]:
    """The sets with a temporary output in place of C, aligned like each set's C."""
    output = device.allocate(problem.m * problem.n * problem.out_dtype.itemsize + ALIGNMENT)
    try:
        yield [OperandSet(s.a, s.b, output + s.c % ALIGNMENT) for s in sets]
    finally:
        device.free(output)


def run_all(enqueue: Enqueue, sets: int, device: CudaDevice) -> None:
    """Run every set once and wait, since libraries load, allocate and compile at the first use of an alignment."""
    for index in range(sets):
        enqueue(index)
    device.synchronize()


def seconds(enqueue: Enqueue, sets: int, stream: int, best: float = float("inf")) -> float:
    """The median seconds of a launch on ``stream``, over all sets in turn; ``enqueue`` must have run before.

    Launches are replayed from a CUDA graph, so that the host's time does not hide the difference between short kernels.
    The legacy default stream cannot be captured, so launches on it are made one by one. Infinity if the first run is
    far slower than ``best``.
    """
    with ExitStack() as stack:
        timer = _Timer(stream, stack)
        once = timer.elapsed(lambda: enqueue(0))
        if once > HOPELESS * best + HOST_SECONDS:
            return float("inf")
        launches = min(MOST_LAUNCHES, max(1, round(ROUND_SECONDS / max(once, 1e-6))))

        def round_() -> None:
            for launch in range(launches):
                enqueue(launch % sets)

        replay = timer.captured(round_) if stream else round_
        timer.elapsed(replay)
        return statistics.median(timer.elapsed(replay) for _ in range(ROUNDS)) / launches


class _Timer:
    """Two events on a stream; ``stack`` frees what is made here."""

    def __init__(self, stream: int, stack: ExitStack) -> None:
        from cuda.bindings import driver

        self._cu, self._stream, self._stack = driver, stream, stack
        self._events = [self._event() for _ in range(2)]

    def _event(self) -> Any:
        event = self._done(self._cu.cuEventCreate(0))
        self._stack.callback(self._cu.cuEventDestroy, event)
        return event

    def elapsed(self, work: Any) -> float:
        """Seconds that ``work`` takes on the stream."""
        start, end = self._events
        self._done(self._cu.cuEventRecord(start, self._stream))
        work()
        self._done(self._cu.cuEventRecord(end, self._stream))
        self._done(self._cu.cuEventSynchronize(end))
        return float(self._done(self._cu.cuEventElapsedTime(start, end))) / 1000

    def captured(self, work: Any) -> Any:
        """A function that replays what ``work`` enqueues."""
        mode = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._done(self._cu.cuStreamBeginCapture(self._stream, mode))
        try:
            work()
        finally:
            # A capture must be ended even if the work failed, or the stream stays unusable.
            result = self._cu.cuStreamEndCapture(self._stream)
        graph = self._done(result)
        self._stack.callback(self._cu.cuGraphDestroy, graph)
        ready = self._done(self._cu.cuGraphInstantiate(graph, 0))
        self._stack.callback(self._cu.cuGraphExecDestroy, ready)
        return lambda: self._done(self._cu.cuGraphLaunch(ready, self._stream))

    def _done(self, result: tuple[Any, ...]) -> Any:
        status, *values = result
        if int(status) != 0:
            raise LaunchError(f"a trial run failed: {status.name}")
        return values[0] if values else None
