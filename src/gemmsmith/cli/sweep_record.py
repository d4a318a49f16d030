"""Keeping a sweep's points in the results database, each as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmsmith.run.cuda import CudaDevice
from gemmsmith.store.results import Measurement

Record = Callable[[Measurement], None]


def _forget(_: Measurement) -> None:
    pass


@contextmanager
def recording(path: Path | None, wanted: bool, command: str, device: CudaDevice | None = None) -> Iterator[Record]:
    """A function that keeps a measurement; one that keeps nothing where no record is ``wanted``.

    The run begins with its first measurement, so that a sweep without any leaves no trace.
    """
    if not wanted:
        yield _forget
        return
    from gemmsmith.cli.recording import new_run
    from gemmsmith.store.database import Results

    with Results.open(path) as results:
        run = new_run(command, device)
        begun = False

        def record(measurement: Measurement) -> None:
            nonlocal begun
            if not begun:
                results.begin(run)
                begun = True
            results.add(run.id, measurement)

        yield record
