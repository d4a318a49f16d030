"""Whether a kernel has a hazard, where nothing is known yet about what it computes."""

from __future__ import annotations

from gemmsmith.call.binding import CompileFn
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

Shape = tuple[int, int, int]


# Faults of a block's own synchronisation, as the first words of a reason: no grid brings them about.
_OF_ONE_BLOCK = ("divergent barrier", "lane", "hang: mbarrier")


def block_has_hazards(device: Device, spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn) -> bool:
    """Whether the simulator finds a race or a fault of synchronisation within one block, whatever the grid is."""
    verdict = _watched(device, spec, config, shape, compile_fn)
    if verdict is None:
        return False
    inside = any(not hazard.is_global for hazard in verdict.hazards)
    return inside or any(reason.startswith(_OF_ONE_BLOCK) for reason in verdict.reasons)


def has_hazards(device: Device, spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn) -> bool:
    """Whether the simulator finds a race, or an access beyond an array: what such a kernel computes tells nothing about
    what it is meant to. All extents are the first of ``shape``, so that no layout leads out of a matrix."""
    verdict = _watched(device, spec, config, shape, compile_fn)
    return verdict is not None and (bool(verdict.hazards) or verdict.faulted)


def _watched(device: Device, spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn) -> Verdict | None:
    if not isinstance(device, SimDevice):
        return None
    watched = SimDevice(device.arch, hazards=True, timeout=device.timeout)
    try:
        problem = spec.problem(*shape[:1] * 3)
        return verify_launch(watched, spec, config, problem, fill="integers", mode="exact", c="set",
                             compile_fn=compile_fn)  # fmt: skip
    except GemmsmithError:
        return None
