"""What a user's kernel does with A and B, by launches on chosen numbers: which elements it touches, and whether C is
linear in A and in B.

A product with a wrong index is still a sum of products of an element of A and one of B. Distances of points, a minimum
of sums and the like are not, though they may take A, B, C, M, N and K as a product does: they are not judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.call.pointer_tables import pointer_tables
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import LAYOUTS
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory import GlobalMemory
from gemmsmith.verify.watched_memory import WatchedMemory

Array = NDArray[Any]
Operands = tuple[Array, Array]
_SECONDS = 6
_ROOM = 2  # times the largest extent squared: an index of two extents stays inside
_ERROR = {FP16: 2.0**-8, BF16: 2.0**-5}  # of a result, relative: small numbers are added
_FP32_ERROR = 2.0**-14
_ROUNDED = {FP16: 2.0**-9, BF16: 2.0**-7}  # of one result: its type's rounding, and that of the factor
NOT_LINEAR = "what it computes is not linear in A and in B"
PLAIN = 3  # the first of the probes that has both operands
FEW_TERMS = "its results add up few products"


@dataclass(frozen=True)
class Touched:
    """How many elements of A and B a launch read, and of C it wrote."""

    a: int
    b: int
    c: int


@dataclass
class LinearProbe:
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

    def computed(self, meant: Signature, shape: Shape, values: Operands) -> Array | None:
        """C after a launch on A and B, zeros where nothing is written; None where there is no result."""
        return self._run(GlobalMemory(), meant, shape, values, 0)

    def _run(self, memory: GlobalMemory, meant: Signature, shape: Shape, values: Operands, poison: int) -> Array | None:
        device = self.open_device()
        if not isinstance(device, SimDevice) or time.process_time() > self.end:
            return None
        device.memory = memory
        own = self.spec.read_as(meant, "NN")
        try:
            return self._launch(device, own, own.problem(*shape), values, poison)
        except GemmsmithError:
            return None

    def _launch(
        self, device: SimDevice, own: KernelSpec, problem: Problem, values: Operands, poison: int
    ) -> Array:  # fmt: skip
        count = _room(problem)
        out = problem.out_dtype
        places = []
        for each in values:
            place = device.allocate(each.nbytes)
            device.write(place, each.view(np.uint8))
            if isinstance(device.memory, WatchedMemory):
                device.memory.watch(place, each.itemsize, count)
            places.append(place)
        before = np.full(count * out.itemsize, poison, np.uint8)
        result, extra = device.allocate(before.size), device.allocate(count * 8)
        device.write(result, before)
        given = Addresses(places[0], places[1], result, extra)
        with pointer_tables(device, own.signature, problem, given) as tables:
            plan = plan_launches(own, self.config, problem, tables, tables=True)
            workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else 0
            for step in binding.load_plan(device, plan, self.compile_fn).steps(tables, workspace):
                device.launch(step.loaded, step.launch)
        return device.read(result, before.size).view(out.numpy)


def _room(problem: Problem) -> int:
    """Elements of each array: more than any index of two extents reaches."""
    return _ROOM * max(problem.m, problem.n, problem.k) ** 2


def operands(spec: KernelSpec, meant: Signature, shape: Shape, seed: int) -> Operands:
    """A and B of small whole numbers from 0 on, with room behind each: a relu changes nothing."""
    problem = spec.read_as(meant, "NN").problem(*shape)
    rng = np.random.Generator(np.random.PCG64(seed))
    a, b = (rng.integers(0, 3, _room(problem)).astype(np.float32).astype(problem.dtype.numpy) for _ in range(2))
    return a, b


def not_a_sum_of_products(probe: LinearProbe, meant: Signature, shape: Shape) -> str | None:
    """Why a kernel that gives no product may not be meant to: it is not linear in A and in B, adds up too few terms, or
    gives a multiple of a product. Empty if nothing says so; None if a launch gave no result, or there was no time."""
    if (meant, shape) not in probe.known:
        probe.known[meant, shape] = _not_a_sum_of_products(probe, meant, shape)
    return probe.known[meant, shape]


def _not_a_sum_of_products(probe: LinearProbe, meant: Signature, shape: Shape) -> str | None:
    m, n, k = shape
    problem = probe.spec.read_as(meant, "NN").problem(*shape)
    one, two = (operands(probe.spec, meant, shape, seed) for seed in (2, 3))
    results = []
    for a, b in probes(one, two):
        computed = probe.computed(meant, shape, (a, b))
        if computed is None:
            return None
        results.append(computed.astype(np.float64))
    least = k / 2 * min(1.0, abs(problem.alpha))
    error = _ERROR.get(problem.out_dtype, _FP32_ERROR)
    why = not_linear(results, error, m * n, least)
    if why != NOT_LINEAR:  # no number so far is below 0, where a function of the sums may begin
        below = probe.computed(meant, shape, (-one[0], one[1]))
        if below is None:
            return None
        if _bends(results[0], results[PLAIN], below.astype(np.float64), error):
            why = NOT_LINEAR
    factor = _factor(results[PLAIN] - results[0], one, problem) if why != NOT_LINEAR else 0.0
    return f"it gives {factor:.6g} times A·B" if factor else why


def probes(one: Operands, two: Operands) -> list[Operands]:
    """Operands whose results tell whether a kernel is linear in A and in B: nothing, one of them alone, sums."""
    zeros, ones = ([np.full(x.size, value, np.float32).astype(x.dtype) for x in one] for value in (0, 1))
    sums = [(x.astype(np.float32) + y.astype(np.float32)).astype(x.dtype) for x, y in zip(one, two, strict=True)]
    return [(zeros[0], zeros[1]), (one[0], zeros[1]), (zeros[0], one[1]), one, (two[0], one[1]), (sums[0], one[1]),
            (one[0], two[1]), (one[0], sums[1]), (ones[0], ones[1])]  # fmt: skip


def not_linear(results: list[Array], error: float, outputs: int, least: float) -> str:
    """Why the results of ``probes`` are no sums of products of an element of A and one of B; empty if they are.

    error    relative, of the largest result
    outputs  how many there are; most must add up terms, ``least`` where all elements are 1
    """
    empty, left, right, *products = results
    if not (np.array_equal(empty, left) and np.array_equal(empty, right) and np.isfinite(results).all()):
        return NOT_LINEAR
    first, other_a, both_a, other_b, both_b, terms = (each - empty for each in products)
    apart = max(np.abs(first + other_a - both_a).max(), np.abs(first + other_b - both_b).max())
    if apart > np.abs(results).max() * error:
        return NOT_LINEAR
    summed = terms[terms != 0]
    return FEW_TERMS if summed.size < outputs / 2 or np.median(np.abs(summed)) < least else ""


def _bends(empty: Array, above: Array, below: Array, error: float) -> bool:
    """Whether sums below 0 are given otherwise than those above 0, as by a leaky relu or as absolute values; a relu,
    which is judged, gives 0."""
    near = np.abs(above + below - 2 * empty) <= np.abs(above).max() * error
    return not bool((near | (below == 0)).all())


def _factor(got: Array, values: Operands, problem: Problem) -> float:
    """By which number below 1 every result differs from the product of one layout: 1/sqrt(K), the mean of K terms. 0
    if by none; two or minus one times a product is a mistake."""
    for product, c in _products(got, values, problem):
        filled = product != 0
        factor = float(np.median(c[filled] / product[filled])) if filled.any() else 0.0
        near = np.abs(c - factor * product) <= _ROUNDED.get(problem.out_dtype, _FP32_ERROR) * np.abs(factor * product)
        if 0 < factor < problem.alpha and near.all():
            return factor
    return 0.0


def _products(got: Array, values: Operands, problem: Problem) -> Iterator[tuple[Array, Array]]:
    """The product of each layout, with C as that layout has it."""
    m, n, k = problem.m, problem.n, problem.k
    for layout in LAYOUTS:
        sides = ((m, k), (k, n), (m, n))
        a, b, c = (
            flat[: rows * columns].reshape(columns, rows).T
            if by_column
            else flat[: rows * columns].reshape(rows, columns)
            for flat, (rows, columns), by_column in zip((*values, got), sides, layout.stored, strict=True)
        )
        yield a.astype(np.float64) @ b.astype(np.float64), c
