"""A user's file to sweep over."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_samples import FILE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.cu"
    path.write_text(FILE)
    return path
