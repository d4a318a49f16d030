"""Launches of a user's kernel on chosen numbers, under different meanings of its parameters: what it computes, and
which elements it touches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.call.pointer_tables import pointer_tables
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.global_memory import GlobalMemory
from gemmsmith.verify.old_c import adds_c_and_bias, passing_old_c
from gemmsmith.verify.watched_memory import WatchedMemory

Array = NDArray[Any]
Operands = tuple[Array, Array]
_SECONDS = 6
_ROOM = 2  # times the largest extent squared: an index of two extents stays inside


@dataclass(frozen=True)
class Touched:
    """How many elements of A and B a launch read, and of C it wrote."""

    a: int
    b: int
    c: int


@dataclass
class LaunchProbe:
    """Launches of one kernel under different meanings of its parameters."""

    open_device: Callable[[], Device]
    spec: KernelSpec
    config: Config
    compile_fn: binding.CompileFn
    end: float = field(default_factory=lambda: time.process_time() + _SECONDS)
    known: dict[tuple[Signature, Shape], str | None] = field(default_factory=dict)

    def launched(self, meant: Signature, shape: Shape, values: Operands, poison: int
                 ) -> tuple[Array, Touched] | None:  # fmt: skip
        """C after a launch on A and B, and what it touched; None where there is no result."""
        memory = WatchedMemory()
        ran = self._run(memory, meant, shape, values, poison)
        if ran is None:
            return None
        a, b = (int(read.sum()) for _, read in memory.marks.values())
        before = np.full(ran.itemsize, poison, np.uint8)
        written = (ran.view(np.uint8).reshape(ran.size, -1) != before).any(axis=1)
        return ran, Touched(a, b, int(written.sum()))

    def computed(self, meant: Signature, shape: Shape, values: Operands, batch: int = 1) -> Array | None:
        """C after a launch on A and B, zeros where nothing is written; None where there is no result."""
        return self._run(GlobalMemory(), meant, shape, values, 0, batch)

    def _run(
        self, memory: GlobalMemory, meant: Signature, shape: Shape, values: Operands, poison: int, batch: int = 1
    ) -> Array | None:
        device = self.open_device()
        if not isinstance(device, SimDevice) or time.process_time() > self.end:
            return None
        device.memory = memory
        own = self.spec.read_as(meant, "NN")
        try:
            return self._launch(device, own, _problem(own, shape, batch), values, poison)
        except GemmsmithError:
            return None

    def _launch(
        self, device: SimDevice, own: KernelSpec, problem: Problem, values: Operands, poison: int
    ) -> Array:  # fmt: skip
        count = max(_room(problem), *(each.size for each in values))
        out = problem.out_dtype
        places = []
        for each in values:
            place = device.allocate(each.nbytes)
            device.write(place, each.view(np.uint8))
            if isinstance(device.memory, WatchedMemory):
                device.memory.watch(place, each.itemsize, each.size)
            places.append(place)
        before = np.full(count * out.itemsize, poison, np.uint8)
        result, extra = device.allocate(before.size), device.allocate(count * 8)
        device.write(result, before)
        given = Addresses(places[0], places[1], result, extra)
        old_c = device.allocate(count * 8) if adds_c_and_bias(own.signature) else 0  # zeros, as the bias
        with pointer_tables(device, own.signature, problem, given) as tables:
            plan = passing_old_c(plan_launches(own, self.config, problem, tables, tables=True), old_c)
            workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else 0
            for step in binding.load_plan(device, plan, self.compile_fn).steps(tables, workspace):
                device.launch(step.loaded, step.launch)
        return device.read(result, before.size).view(out.numpy)


def _problem(own: KernelSpec, shape: Shape, batch: int) -> Problem:
    problem: Problem = own.problem(*shape)
    return own.signature.batch_of(problem, batch) if batch > 1 else problem


def _room(problem: Problem) -> int:
    """Elements of each array: more than any index of two extents reaches."""
    return _ROOM * problem.batch * max(problem.m, problem.n, problem.k) ** 2


def operands(spec: KernelSpec, meant: Signature, shape: Shape, seed: int, batch: int = 1) -> Operands:
    """A and B of small whole numbers from 0 on, with room behind each: a relu changes nothing."""
    problem = _problem(spec.read_as(meant, "NN"), shape, batch)
    rng = np.random.Generator(np.random.PCG64(seed))
    a, b = (rng.integers(0, 3, _room(problem)).astype(np.float32).astype(problem.dtype.numpy) for _ in range(2))
    return a, b
