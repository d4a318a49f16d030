"""Each point of a sweep is stored in the results database as soon as it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement, Run

Record = Callable[[Measurement], None]


def discard(_: Measurement) -> None:
    """Stores nothing."""


@contextmanager
def recording(path: Path | None, new_run: Callable[[], Run]) -> Iterator[Record]:
    """A function that stores a measurement. The run begins with the first one, so an empty sweep leaves no run."""
    with Results.open(path) as results:
        run = new_run()
        begun = False

        def record(measurement: Measurement) -> None:
            nonlocal begun
            if not begun:
                results.begin(run)
                begun = True
            results.add(run.id, measurement)

        yield record
