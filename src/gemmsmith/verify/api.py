"""``gemmsmith.check``: one launch of a kernel on the simulator, verified; for notebooks and scripts."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.kernel.layout import layout_named
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.userfile.kernels.kernel_named import kernel_named
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.meaning.product_evidence import refuse_doubtful
from gemmsmith.verify.meaning.settle import settle
from gemmsmith.verify.oracles.arithmetic import as_compiled
from gemmsmith.verify.trials.check_shapes import check_shapes
from gemmsmith.verify.verdict import Verdict

_ARCH = "sm_90"
_SHAPE = (128, 128, 128)  # of a rung


def check(
    kernel: str | os.PathLike[str],
    m: int = 0,
    n: int = 0,
    k: int = 0,
    *,
    config: Mapping[str, int | str] | None = None,
    entry: str = "",
    layout: str = "",
    fill: str = "normal",
    seed: int = 0,
    schedule: str = "lockstep",
    timeout: float = 60.0,
) -> Verdict:
    """Run a rung or the kernel of a .cu file once on the simulator, compare the result and look for races.

    Without ``m``, ``n`` and ``k``, a small shape is taken that fits the kernel's tiles. ``config`` are a rung's
    parameters, or a file's macros. ``fill`` names the data and ``schedule`` the order of warps (docs/verification.md).
    One launch is little: ``gemmsmith check`` on the command line tries many shapes, data and orders. What may be no
    matrix product raises ``UsageError``.
    """
    spec, values = kernel_named(kernel, config, entry, layout)
    shape = (m, n, k) if m or n or k else None

    def device(hazards: bool = False) -> SimDevice:
        return SimDevice(_ARCH, schedule_named(schedule, seed), hazards=hazards, timeout=timeout)

    if spec.is_rung:
        problem = spec.problem(*(shape or _SHAPE))
        check_accepts(spec, problem)
        return verify_launch(device(hazards=True), spec, values, problem, compile_fn=compile_for, fill=fill,
                             mode="float", seed=seed)  # fmt: skip
    shapes = check_shapes(spec, values)
    compiled = compile_for(spec, *aligned_code(spec, values, spec.problem(*(shape or shapes.base))), _ARCH)
    spec = as_compiled(spec, compiled.ptx)
    wanted = layout_named(layout) if layout else None
    probes = [each for each in shapes.probes if not spec.signature.fixed or each == shapes.base]
    settled = settle(device, spec, values, probes or [shapes.base], compiled, wanted, None)
    problem = settled.spec.problem(*(shape or settled.shape or shapes.base))
    found = verify_launch(device(hazards=True), settled.spec, values, problem, compile_fn=lambda *_: compiled,
                          fill=fill, mode="float", seed=seed,
                          c="zero" if settled.spec.signature.accumulates else "set")  # fmt: skip
    if not found.trusted and settled.reading is None:
        refuse_doubtful(settled.spec, compiled.ptx, found)
    return found
