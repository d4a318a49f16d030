"""torch's profiler: kernels, copies, fills, runtime calls and a few driver calls of the whole process.

Its tracing library (kineto) records only launches and virtual-memory calls of the driver API, and omits some frequent
runtime calls (cudaGetDevice, cudaSetDevice, cudaGetLastError, cudaEventCreate, cudaEventDestroy). ``NOTE`` tells the
user.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from gemmsmith.trace.kernel_names import api_name, demangled
from gemmsmith.trace.timeline import API, COPY, KERNEL, SET, Event, Extent
from gemmsmith.trace.tools.copy_names import MEMSET, copy_name

TRACE = "torch.json"
NOTE = (
    "torch's profiler records few driver API calls (launches, cuMemCreate, cuMemMap): copies through cuMemcpy… appear "
    "as GPU work, not as calls; --tool cupti and nsys record all calls"
)
_KINDS = {"cuda_runtime": API, "cuda_driver": API, "kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": SET}


class TorchTool:
    """Records from ``start`` to ``stop``."""

    def __init__(self) -> None:
        import torch

        cuda = torch.profiler.ProfilerActivity.CUDA
        if cuda not in torch.profiler.supported_activities():
            raise RuntimeError(f"torch {torch.__version__} is built without a CUDA profiler")
        self._profiler: Any = torch.profiler.profile(activities=[cuda])

    def start(self) -> None:
        with warnings.catch_warnings():  # about schedule cycles, which are not used here
            warnings.simplefilter("ignore")
            self._profiler.start()

    def stop(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._profiler.stop()  # waits for the GPU
            self._profiler.export_chrome_trace(str(folder / TRACE))


def read_torch_trace(path: Path) -> tuple[Event, ...]:
    """The CUDA events of a trace exported by torch's profiler; its times are in microseconds."""
    # Kernel names may contain bytes that are not UTF-8.
    found = json.loads(path.read_text(encoding="utf-8", errors="replace"), strict=False)
    return tuple(
        _event(item) for item in found["traceEvents"] if item.get("ph") == "X" and item.get("cat") in _KINDS
    )  # fmt: skip


def _event(item: dict[str, Any]) -> Event:
    kind, args = _KINDS[item["cat"]], item.get("args", {})
    start, duration = round(float(item["ts"]) * 1000), round(float(item.get("dur", 0)) * 1000)
    correlation = int(args.get("correlation", 0))
    if kind == API:
        return Event(API, api_name(item["name"]), start, duration, correlation=correlation, thread=int(item["tid"]),
                     process=int(item["pid"]))  # fmt: skip
    where: dict[str, Any] = {"device": int(args.get("device", args.get("inDevice", 0))),
                             "stream": int(args.get("stream", 0)), "correlation": correlation}  # fmt: skip
    if kind == KERNEL:
        return Event(KERNEL, demangled(item["name"]), start, duration, grid=_extent(args.get("grid")),
                     block=_extent(args.get("block")), registers=int(args.get("registers per thread", 0)),
                     **where)  # fmt: skip
    # 'Memcpy HtoD (Pageable -> Device)', 'Memset (Device)'
    words = item["name"].split()
    name = MEMSET if kind == SET else copy_name(words[1] if len(words) > 1 else "unknown")
    return Event(kind, name, start, duration, int(args.get("bytes", 0)), **where)


def _extent(values: list[int] | None) -> Extent:
    x, y, z = values or (0, 0, 0)
    return int(x), int(y), int(z)
