"""Count a launch by simulating some of its blocks, or some of its depth, and scaling up.

Blocks at the last row and column of tiles do other work than those inside, so each of these kinds is sampled for
itself; a kind with few blocks is simulated whole. The sample is drawn at random (seeded) in four groups, and the
error is what the spread of four independent estimates says of their mean, at 95 % confidence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.explain.metrics import simulated
from gemmsmith.fills import operands
from gemmsmith.kernels.spec import Config, Geometry, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.counters import Counters, Counts
from gemmsmith.sim.device import LoadedPtx, SimDevice

GROUPS = 4
STUDENT_T = 3.182  # 95 %, two-sided, GROUPS − 1 = 3 degrees of freedom
_WARPS = "smsp__warps_launched.sum"
_PERIOD = 64  # K is shortened by multiples of this, so that slices and alignment stay as they are


@dataclass(frozen=True)
class Counted:
    """A launch's counters; ``blocks`` were simulated (0: all of them). ``errors`` are relative, by metric."""

    counters: Counters
    blocks: int = 0
    errors: tuple[tuple[str, float], ...] = ()
    depth: int = 0


class Bench:
    """One kernel loaded once, so that the counts of several launches can be added instruction by instruction."""

    def __init__(self, spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> None:
        self.spec, self.config, self.problem = spec, config, problem
        self.geometry = spec.geometry(problem, config)
        self.device = SimDevice(compiled.arch, count=True)
        self.loaded: LoadedPtx = self.device.load(compiled)

    def count(self, blocks: Sequence[int] | None = None, problem: Problem | None = None) -> Counters:
        """Run all blocks, or those numbered in ``blocks``."""
        shape = problem or self.problem
        # What C holds changes no count, so only A and B are filled; C is what an allocation holds.
        data = operands(shape.with_(m=0) if shape.m * shape.k == 0 else shape.with_(), "normal") if shape.beta else None
        addresses = [self._place(matrix) for matrix in _inputs(shape)]
        addresses.append(self._place(data.c) if data else self.device.allocate(4 * shape.m * shape.ldc))
        launch = Launch(self.geometry, self.spec.signature.pack(shape, *addresses))
        self.device.launch(self.loaded, launch, blocks)
        for address in addresses:
            self.device.free(address)
        assert self.device.counters is not None
        return self.device.counters

    def _place(self, matrix: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
        raw = np.ascontiguousarray(matrix).reshape(-1).view(np.uint8)
        address = self.device.allocate(raw.nbytes)
        self.device.write(address, raw)
        return address
