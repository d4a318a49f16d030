"""The part of torch.profiler that a timeline uses."""

from __future__ import annotations

import enum
import os
import shutil
import warnings
from pathlib import Path


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 1


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU} if os.environ.get("FAKE_TORCH_CPU") else set(ProfilerActivity)


class profile:  # noqa: N801
    def __init__(self, *, activities: list[ProfilerActivity]) -> None:
        assert activities == [ProfilerActivity.CUDA]

    def start(self) -> None:
        warnings.warn("Profiler clears events at the end of each cycle", stacklevel=1)

    def stop(self) -> None:
        warnings.warn("stopping", stacklevel=1)

    def export_chrome_trace(self, path: str) -> None:
        shutil.copy(Path(__file__).parents[3] / "timeline_torch.json", path)
