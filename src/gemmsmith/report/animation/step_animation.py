"""Which animation shows a step's idea, and the launch that it is recorded from."""

from __future__ import annotations

from markupsafe import Markup

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.report.animation.access_moves import access_moves
from gemmsmith.report.animation.loop_moves import loop_moves
from gemmsmith.report.animation.tile_moves import tile_moves
from gemmsmith.report.view.data.shared_fills import shared_fills, tile_depth
from gemmsmith.trace.launch_trace import Kind, LaunchTrace
from gemmsmith.trace.recording.record import record_product

_ASYNCHRONOUS = (Kind.COPY, Kind.BULK_LOAD)
_BYTES_OF_K = 256  # of a row of A: four k-tiles of 64 bytes, which most rungs have


def record_step(spec: KernelSpec, config: Config, compiled: CompiledKernel) -> LaunchTrace:
    """A short launch of a rung, one block of it."""
    kind = spec.dtypes[0]
    k = _BYTES_OF_K * (2 if spec.arch_specific >= 90 else 1) // kind.itemsize
    side = 256 if spec.arch_specific >= 90 else 128
    problem = spec.problem(side, side, k)
    return record_product(spec, config, problem, compiled, title=spec.name, text_of=lambda _: "", outline=False)


def step_animation(trace: LaunchTrace) -> Markup:
    """Accesses where shared memory is not used, the loop where copies are asynchronous, else tiles and threads."""
    kinds = {instruction.kind for instruction in trace.instructions}
    bands = shared_fills(trace)
    if not any(fill.k >= 0 for fill in bands.fills):
        return access_moves(trace)
    depth = max(1, tile_depth(trace, bands.fills))
    several = any(len(rows) > 1 for each in trace.fed for rows, columns in each.sets if len(rows) < len(columns))
    if kinds & set(_ASYNCHRONOUS) or not several:
        return loop_moves(trace, bands, depth)
    return tile_moves(trace, depth) or loop_moves(trace, bands, depth)
