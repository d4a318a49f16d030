"""The fake GPU of the tests of tuning."""

from __future__ import annotations

from pathlib import Path

import pytest
from tuning_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "deep" / "tuning.jsonl")
