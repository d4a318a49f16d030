"""One run on a GPU, as the recorded samples of timeline tools describe it."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.trace.timeline import API, COPY, KERNEL, SET, Event

DATA = Path(__file__).parents[1] / "data"
FAKES = DATA / "timeline_fakes"
FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, "
    "at::native::FillFunctor<float>)"
)
# The run described by both recorded samples and by the script for the fake CUPTI.
RUN = (
    Event(API, "cudaMemcpyAsync", 1_000_000, 8_500, correlation=11, thread=4242, process=4242),
    Event(API, "cudaMemsetAsync", 1_010_000, 4_000, correlation=12, thread=4242, process=4242),
    Event(API, "cuLaunchKernel", 1_020_000, 5_250, correlation=13, thread=4242, process=4242),
    Event(API, "cuLaunchKernel", 1_030_000, 2_750, correlation=14, thread=4242, process=4242),
    Event(COPY, "[CUDA memcpy Host-to-Device]", 1_004_000, 3_125, 4_194_304, stream=7, correlation=11),
    Event(SET, "[CUDA memset]", 1_012_000, 1_000, 1024, stream=7, correlation=12),
    Event(KERNEL, "gemm", 1_024_000, 35_250, grid=(8, 8, 1), block=(256, 1, 1), registers=128, stream=7,
          correlation=13),
    Event(KERNEL, FILL, 1_030_500, 2_500, grid=(64, 1, 1), block=(128, 1, 1), registers=18, stream=9, correlation=14),
)  # fmt: skip


def ordered(events: tuple[Event, ...]) -> list[Event]:
    return sorted(events, key=lambda e: (e.kind, e.start))
