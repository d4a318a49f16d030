"""Whether a guessed launch fits a kernel, though the result is no product.

A kernel may be wrong, or its launch guessed wrong. Where blocks store as many elements as C has, the launch fits, and
the kernel is to blame. Elsewhere nothing can be said against the kernel.
"""

from __future__ import annotations

import time

import numpy as np

from gemmsmith.call.binding import CompileFn
from gemmsmith.errors import GemmsmithError, SimulationError, TimeLimitError, UnknownInstructionError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.meaning.launch_search import elements_written, run_block
from gemmsmith.verify.trials.check_shapes import check_shapes

_SECONDS = 4
_MOST_BLOCKS, _LEAST_BLOCKS = 64, 2


def fits(device: Device, spec: KernelSpec, config: Config, compile_fn: CompileFn) -> bool:
    """Whether the blocks of ``spec``, run one by one, store as many elements as C has. Where there is no time for all,
    the others are taken to store as many as those that ran: the shape has whole tiles.

    Which elements does not matter: an index of C may be the fault of the kernel. There is room behind every matrix, so
    that accesses past its end are no fault here.
    """
    try:
        problem = spec.problem(*check_shapes(spec, config).base)
        geometry = spec.geometry(problem, config)
    except GemmsmithError:
        return False
    if not isinstance(device, SimDevice) or geometry.blocks > _MOST_BLOCKS:
        return False
    stored, ran, end = 0, 0, time.process_time() + _SECONDS
    while ran < geometry.blocks and (ran < _LEAST_BLOCKS or time.process_time() < end):
        written = elements_written(device, spec, config, problem, geometry, ran, compile_fn)
        if written is None:
            return False
        stored, ran = stored + int(np.count_nonzero(written)), ran + 1
    return stored * geometry.blocks == problem.m * problem.n * problem.batch * ran


def fits_or_faults(device: Device, spec: KernelSpec, config: Config, compile_fn: CompileFn) -> bool:
    """Whether a launch that is known fits, or its first block faults, though there is room behind every matrix. One
    that a GPU refuses, or that takes too long, says nothing of the kernel."""
    if not isinstance(device, SimDevice):
        return False
    try:
        problem = spec.problem(*check_shapes(spec, config).base)
        geometry = spec.geometry(problem, config)
    except GemmsmithError:
        return False
    try:
        run_block(device, spec, config, problem, geometry, 0, compile_fn)
    except (TimeLimitError, UnknownInstructionError):
        return False
    except SimulationError:
        return True
    except GemmsmithError:
        return False
    return fits(device, spec, config, compile_fn)
