"""Everything that timing asks of a GPU: a stream, pairs of events, graphs, and the host's own clock.

``bench`` knows only the protocol, so that all of it except these driver calls is tested without a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from gemmsmith.errors import LaunchError
from gemmsmith.run.cuda import CudaDevice, checked, driver_bindings

Work = Callable[[], None]


class Replay(Protocol):
    """Work that was captured into a graph."""

    def __call__(self) -> None:
        """Enqueue the whole graph."""

    def close(self) -> None:
        """Free it; its work must have ended."""


class Stopwatch(Protocol):
    """One stream of one GPU, and the means to time what is enqueued on it."""

    @property
    def stream(self) -> int:
        """The driver's handle, for contenders to enqueue on."""

    def active(self) -> AbstractContextManager[None]:
        """Within it the GPU is the calling thread's; all other calls happen within it."""

    def seconds(self, work: Work, lead: Work | None = None) -> float:
        """Seconds on the GPU from the start of ``work`` to its end, between two events.

        ``lead`` is enqueued first and not timed: it keeps the GPU busy until ``work`` is there, so that the time
        the host takes to launch it is not counted.
        """

    def capture(self, work: Work) -> Replay:
        """What ``work`` enqueues, as a graph; it does not run. Raises ``LaunchError`` where it cannot be captured."""

    def host_seconds(self, work: Work) -> float:
        """Seconds the host takes to enqueue ``work`` on an idle GPU; the work has ended on return."""

    def now(self) -> float:
        """The host's clock, in seconds: for budgets."""

    def synchronize(self) -> None:
        """Wait for all work, and raise what went wrong in it."""

    def close(self) -> None:
        """Give the stream and the events back."""


class CudaStopwatch:
    """A stream of its own on a GPU, in the context that torch and CuPy use as well."""

    def __init__(self, device: CudaDevice) -> None:
        self._device, self._cu = device, driver_bindings()
        with device.current():
            # Non-blocking: work of others on the default stream must not be waited for.
            flags = int(self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
            self._stream = checked(self._cu.cuStreamCreate(flags), "creating a stream")
            timed = int(self._cu.CUevent_flags.CU_EVENT_DEFAULT)
            self._start, self._stop = (checked(self._cu.cuEventCreate(timed), "creating an event") for _ in range(2))

    @property
    def stream(self) -> int:
        return int(self._stream)

    @contextmanager
    def active(self) -> Iterator[None]:
        with self._device.current():
            yield

    def seconds(self, work: Work, lead: Work | None = None) -> float:
        if lead is not None:
            lead()
        checked(self._cu.cuEventRecord(self._start, self._stream), "recording an event")
        work()
        checked(self._cu.cuEventRecord(self._stop, self._stream), "recording an event")
        checked(self._cu.cuEventSynchronize(self._stop), "running the kernel")
        return float(checked(self._cu.cuEventElapsedTime(self._start, self._stop), "reading the timer")) / 1e3

    def capture(self, work: Work) -> Replay:
        # Thread-local: another thread may allocate meanwhile without spoiling the capture.
        mode = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        checked(self._cu.cuStreamBeginCapture(self._stream, mode), "beginning a graph")
        try:
            work()
        except Exception as error:  # a library's own exceptions, such as torch's RuntimeError
            # The stream must leave capture mode whatever happened; what was captured so far is of no use.
            status, unfinished = self._cu.cuStreamEndCapture(self._stream)
            if int(status) == 0:
                self._cu.cuGraphDestroy(unfinished)
            raise LaunchError(f"it cannot be captured into a graph: {error}") from None
        graph = checked(self._cu.cuStreamEndCapture(self._stream), "ending a graph")
        try:
            executable = checked(self._cu.cuGraphInstantiate(graph, 0), "instantiating a graph")
        finally:
            checked(self._cu.cuGraphDestroy(graph), "freeing a graph")
        # Uploaded now, so that the first replay is like every other.
        checked(self._cu.cuGraphUpload(executable, self._stream), "uploading a graph")
        return _CudaReplay(self._cu, executable, self._stream)

    def host_seconds(self, work: Work) -> float:
        self.synchronize()
        started = time.perf_counter()
        work()
        taken = time.perf_counter() - started
        self.synchronize()
        return taken

    def now(self) -> float:
        return time.perf_counter()

    def synchronize(self) -> None:
        self._device.synchronize()

    def close(self) -> None:
        with self._device.current():
            for event in (self._start, self._stop):
                checked(self._cu.cuEventDestroy(event), "freeing an event")
            checked(self._cu.cuStreamDestroy(self._stream), "freeing a stream")


class _CudaReplay:
    def __init__(self, bindings: Any, executable: Any, stream: Any) -> None:
        self._cu, self._executable, self._stream = bindings, executable, stream

    def __call__(self) -> None:
        checked(self._cu.cuGraphLaunch(self._executable, self._stream), "replaying a graph")

    def close(self) -> None:
        checked(self._cu.cuGraphExecDestroy(self._executable), "freeing a graph")
