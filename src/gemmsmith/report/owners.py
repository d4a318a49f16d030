"""Which thread of a block writes which outputs: the simulator runs one block and notes every store to C."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.binding import bind_launch
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice

_EXTENT = 512  # rows and columns of C: larger than the tile of any block
_DEPTH = 64  # of K: a k-tile or more of every rung


@dataclass(frozen=True)
class Owners:
    """The tile of C that block 0 writes. ``thread`` has the writer of each output; −1: several threads, or none."""

    row: int
    col: int
    threads: int
    thread: NDArray[np.int32] = field(compare=False)

    @property
    def rows(self) -> int:
        return int(self.thread.shape[0])

    @property
    def cols(self) -> int:
        return int(self.thread.shape[1])


def find_owners(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> Owners | None:
    """Who writes what in block 0; None if the simulator cannot run it, or few threads write for the others."""
    try:
        return _run(spec, config, problem.with_(m=_EXTENT, n=_EXTENT, k=_DEPTH), compiled)
    except GemmsmithError:  # a drawing less; the same fault is reported where the rung is verified
        return None


def _run(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> Owners | None:
    device = SimDevice(compiled.arch, hazards=True)
    loaded = device.load(compiled)
    geometry = spec.geometry(problem, config)
    given = operands(problem, "integers")
    c = device.allocate(problem.m * problem.ldc * problem.out_dtype.itemsize)
    places = Addresses(upload(device, given.a), upload(device, given.b), c)
    plan = plan_launches(spec, config, problem, places, specialized=True)
    workspace = device.allocate(plan.workspace_bytes)
    for planned in plan.prologue:
        step = bind_launch(device, planned, places, workspace)
        device.launch(step.loaded, step.launch)
    together = geometry.cluster[0] * geometry.cluster[1] * geometry.cluster[2]
    device.launch(loaded, bind_launch(device, plan.kernel, places, workspace, loaded).launch, range(together))
    assert device.first_look is not None
    found = device.first_look.writers(c)
    each = problem.out_dtype.itemsize // device.first_look.unit
    if not found.size or each < 1:
        return None
    writers = found[: problem.m * problem.ldc * each : each].reshape(problem.m, problem.ldc)[:, : problem.n]
    return tile_of(writers, geometry.threads)


def tile_of(writers: NDArray[Any], threads: int) -> Owners | None:
    """The bounding box of what block 0 wrote; None if fewer than half of its threads wrote."""
    mine = (writers > 0) & (writers <= threads)
    if not mine.any() or len(np.unique(writers[mine])) * 2 < threads:
        return None
    rows, cols = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
    box = np.where(mine, writers - 1, -1)[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    return Owners(int(rows[0]), int(cols[0]), threads, box.astype(np.int32))
