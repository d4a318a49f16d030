"""What a user's kernel computes, for commands that look at one launch of it without judging it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gemmsmith.call.binding import CompileFn, aligned_code
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import layout_named
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.meaning.settle import settle
from gemmsmith.verify.oracles.arithmetic import as_compiled
from gemmsmith.verify.trials.check_shapes import check_shapes, sampled_blocks

_SECONDS = 30.0  # of simulation; then the kernel is taken as its parameters' names say


@dataclass(frozen=True)
class Recognised:
    """A kernel as it was found to compute a product.

    confirmed  a launch gave that product, or the user said so
    lines      what was found that the file does not say
    """

    spec: KernelSpec
    confirmed: bool = True
    lines: tuple[str, ...] = ()


def recognised(spec: KernelSpec, config: Config, compile_fn: CompileFn, arch: str, layout: str = "") -> Recognised:
    """The kernel with the layout, roles and launch that ``gemmsmith check`` finds; a rung as it is.

    Raises where roles or the launch stay open. A kernel that is no product, or too slow to try, stays as it was read.
    """
    if spec.is_rung:
        return Recognised(spec)
    end = time.thread_time() + _SECONDS
    try:
        shapes = check_shapes(spec, config)
        compiled = compile_fn(spec, *aligned_code(spec, config, spec.problem(*shapes.base)), arch)
        blocks = sampled_blocks(spec, config, shapes.base)
        probes = [shape for shape in shapes.probes if not spec.signature.fixed or shape == shapes.base]
        settled = settle(lambda: SimDevice(arch, timeout=max(0.1, end - time.thread_time())),
                      as_compiled(spec, compiled.ptx), config, probes or [shapes.base], compiled,
                      layout_named(layout) if layout else None, blocks)  # fmt: skip
        confirmed = settled.reading is not None or bool(layout or spec.declared_signature)
        return Recognised(settled.spec, confirmed, settled.lines)
    except UsageError:
        raise
    except GemmsmithError:
        if spec.signature.unknown:
            raise
        return Recognised(spec, bool(layout or spec.declared_signature))
