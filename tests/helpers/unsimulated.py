"""Rungs as if the simulator did not know their instructions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gemmsmith.ladder.registry import rung_named, simulated_rungs


@contextmanager
def unsimulated(*names: str) -> Iterator[None]:
    """These rungs are not simulated meanwhile."""
    specs = [rung_named(name) for name in names]
    try:
        for spec in specs:
            object.__setattr__(spec, "simulated", False)
        simulated_rungs.cache_clear()
        yield
    finally:
        for spec in specs:
            object.__setattr__(spec, "simulated", True)
        simulated_rungs.cache_clear()
