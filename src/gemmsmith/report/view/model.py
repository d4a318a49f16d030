"""What a view is made from, and what it hands to its script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.explain.timing.cycles import BlockCycles
from gemmsmith.gpus import GPU
from gemmsmith.trace.launch_trace import LaunchTrace


@dataclass(frozen=True)
class ViewSubject:
    """One launch to look at: its trace, its machine code, the GPU it is meant for, and perhaps a second launch.

    ``command`` is the command line that makes the page again. ``cycles`` is when the block in full does what, by the
    time model; None where it has no time.
    """

    trace: LaunchTrace
    compiled: CompiledKernel | None = None
    gpu: GPU | None = None
    command: str = ""
    other: ViewSubject | None = None
    cycles: BlockCycles | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """What stopped the launches before their end."""
        traces = [self.trace, *([self.other.trace] if self.other is not None else [])]
        return tuple(trace.fault for trace in traces if trace.fault)


@dataclass(frozen=True)
class ViewData:
    """One tab: its title, one sentence that says what to notice, and the data that its script draws."""

    title: str
    notice: str
    data: Mapping[str, Any] = field(repr=False)
