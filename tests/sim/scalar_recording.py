"""The recording of the second list of forms (``scalar_forms``), in the same format as the first."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from instruction_recording import Recording, load

FILE = Path(__file__).parents[1] / "data" / "scalar_instructions.npz"
# Cases of each class: the first rows of the pools.
ROWS = {"special": 200, "random": 120, "boundary": 40, "near": 60, "mixed": 40, "small": 40}


@cache
def recording() -> Recording:
    if not FILE.exists():
        pytest.fail(f"{FILE} is missing: run benchmarks/record_instructions.py --scalar on a machine with a GPU",
                    pytrace=False)  # fmt: skip
    return load(FILE)
