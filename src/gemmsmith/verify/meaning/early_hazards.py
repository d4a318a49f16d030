"""Whether a kernel has a hazard, where nothing is known yet about what it computes."""

from __future__ import annotations

from gemmsmith.call.binding import CompileFn
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import verify_launch

Shape = tuple[int, int, int]


def has_hazards(device: Device, spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn) -> bool:
    """Whether the simulator finds a race, or an access beyond an array: what such a kernel computes tells nothing about
    what it is meant to. All extents are the first of ``shape``, so that no layout leads out of a matrix."""
    if not isinstance(device, SimDevice):
        return False
    watched = SimDevice(device.arch, hazards=True, timeout=device.timeout)
    try:
        problem = spec.problem(*shape[:1] * 3)
        verdict = verify_launch(watched, spec, config, problem, fill="integers", mode="exact", c="set",
                                compile_fn=compile_fn)  # fmt: skip
    except GemmsmithError:
        return False
    return bool(verdict.hazards) or verdict.faulted
