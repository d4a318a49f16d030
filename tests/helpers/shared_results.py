"""Results that the workers of one test run share: the first worker that needs one computes it, the others read it."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

FOLDER = "SHARED_TEST_RESULTS"  # set by conftest.py, to a folder of this run
Result = TypeVar("Result")


def shared(key: object, make: Callable[[], Result]) -> Result:
    """What ``make`` gives. ``key`` says all that it depends on, apart from the source, which is one per run."""
    folder = os.environ.get(FOLDER)
    if folder is None:  # a script
        return make()
    file = Path(folder) / f"{hashlib.sha256(repr(key).encode()).hexdigest()}.pickle"
    if file.exists():
        found: Result = pickle.loads(file.read_bytes())  # noqa: S301 (written by this run, in a folder of its own)
        return found
    made = make()
    ours = file.with_suffix(f".{os.getpid()}")
    ours.write_bytes(pickle.dumps(made))
    ours.replace(file)
    return made
