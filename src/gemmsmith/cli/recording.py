"""The header of a run that a command is about to record."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from gemmsmith import __version__
from gemmsmith.bench.machine import machine_facts
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.store.results import Run


def new_run(command: str, device: CudaDevice | None) -> Run:
    """A run that starts now on ``device``, or on the simulator, without measurements yet."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return Run(uuid.uuid4().hex, started, command, __version__, machine_facts(device, find_toolchain().compiler))
