"""The GPU functions that timing needs: a stream, event pairs, graphs, and the host's clock.

``bench`` uses only the protocol, so everything except these driver calls is tested without a GPU.
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
    """Work captured into a graph."""

    def __call__(self) -> None:
        """Enqueue the whole graph."""

    def close(self) -> None:
        """Free the graph; its work must be complete."""


class Stopwatch(Protocol):
    """One stream of one GPU, and functions to time the work enqueued on it."""

    @property
    def stream(self) -> int:
        """The driver's stream handle, on which contenders enqueue."""

    def active(self) -> AbstractContextManager[None]:
        """Makes the GPU current in the calling thread; all other calls require it."""

    def seconds(self, work: Work, lead: Work | None = None) -> float:
        """GPU seconds from the start to the end of ``work``, between two events.

        ``lead`` is enqueued first and not timed: it keeps the GPU busy until ``work`` is enqueued, so that the host's
        launch time is not counted.
        """

    def capture(self, work: Work) -> Replay:
        """Capture what ``work`` enqueues, without running it. Raises ``LaunchError`` if it cannot be captured."""

    def host_seconds(self, work: Work) -> float:
        """Host seconds to enqueue ``work`` on an idle GPU; the work is complete on return."""

    def now(self) -> float:
        """The host's clock in seconds, for budgets."""

    def synchronize(self) -> None:
        """Wait for all work, and raise its errors."""

    def close(self) -> None:
        """Free the stream and the events."""


class CudaStopwatch:
    """A private stream on a GPU, in the context that torch and CuPy also use."""

    def __init__(self, device: CudaDevice) -> None:
        self._device, self._cu = device, driver_bindings()
        with device.current():
            # Non-blocking: do not wait for other work on the default stream.
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
        # Thread-local: another thread may allocate meanwhile without invalidating the capture.
        mode = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        checked(self._cu.cuStreamBeginCapture(self._stream, mode), "beginning a graph")
        try:
            work()
        except Exception as error:  # a library's own exceptions, such as torch's RuntimeError
            # The stream must leave capture mode in any case; the partial graph is discarded.
            status, unfinished = self._cu.cuStreamEndCapture(self._stream)
            if int(status) == 0:
                self._cu.cuGraphDestroy(unfinished)
            raise LaunchError(f"it cannot be captured into a graph: {error}") from None
        graph = checked(self._cu.cuStreamEndCapture(self._stream), "ending a graph")
        try:
            executable = checked(self._cu.cuGraphInstantiate(graph, 0), "instantiating a graph")
        finally:
            checked(self._cu.cuGraphDestroy(graph), "freeing a graph")
        # Upload now, so that the first replay costs the same as the others.
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
