"""What the integers of a kernel mean, by what it reads and writes: the sizes of its matrices.

Names of one's own say nothing, and the result of a wrong kernel fits no product. But under the right meaning of M, N
and K even a wrong kernel mostly touches M·K elements of A, K·N of B and M·N of C, and under every other meaning it does
not, as M, N and K differ. Other kernels touch as many, too (distances of points, for example), so the kernel must also
be linear in A and in B, and add up many terms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory import GlobalMemory

Array = NDArray[Any]
_SECONDS = 6
_ROOM = 2  # times the largest extent squared: an index of two extents stays inside
_ERROR = {FP16: 2.0**-8, BF16: 2.0**-5}  # of a result, relative: small numbers are added
_FP32_ERROR = 2.0**-14


class _WatchedMemory(GlobalMemory):
    """Memory that keeps which elements of some allocations were read."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[int, tuple[int, NDArray[np.bool_]]] = {}  # the size of an element; whether each was read

    def watch(self, base: int, itemsize: int, count: int) -> None:
        self.marks[base] = itemsize, np.zeros(count, np.bool_)

    def gather(self, addresses: Array, width: int) -> Array:
        found = super().gather(addresses, width)
        for base, (itemsize, read) in self.marks.items():
            offsets = addresses.astype(np.int64) - base
            inside = offsets[(offsets >= 0) & (offsets < read.size * itemsize)]
            for byte in range(0, width, itemsize):
                read[np.minimum((inside + byte) // itemsize, read.size - 1)] = True
        return found


@dataclass(frozen=True)
class _Touched:
    """How many elements of A and B a launch read, and of C it wrote."""

    a: int
    b: int
    c: int


@dataclass
class _Bench:
    """Launches of one kernel under different meanings of its parameters."""

    open_device: Callable[[], Device]
    spec: KernelSpec
    config: Config
    compile_fn: binding.CompileFn
    end: float = field(default_factory=lambda: time.process_time() + _SECONDS)

    def launched(self, meant: Signature, shape: Shape, values: tuple[Array, Array], poison: int
                 ) -> tuple[Array, _Touched] | None:  # fmt: skip
        """C after a launch on A and B, and what it touched; None where there is no result."""
        device = self.open_device()
        if not isinstance(device, SimDevice) or time.process_time() > self.end:
            return None
        memory = device.memory = _WatchedMemory()
        own = self.spec.read_as(meant, "NN")
        problem = own.problem(*shape)
        try:
            return self._run(device, memory, own, problem, values, poison)
        except GemmsmithError:
            return None

    def _run(
        self, device: SimDevice, memory: _WatchedMemory, own: KernelSpec, problem: Problem,
        values: tuple[Array, Array], poison: int,
    ) -> tuple[Array, _Touched]:  # fmt: skip
        count = room(problem)
        out = problem.out_dtype
        places = []
        for each in values:
            place = device.allocate(each.nbytes)
            device.write(place, each.view(np.uint8))
            memory.watch(place, each.itemsize, count)
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
        after = device.read(result, before.size)
        a, b = (int(memory.marks[place][1].sum()) for place in places)
        written = (after != before).reshape(count, -1).any(axis=1)
        return after.view(out.numpy), _Touched(a, b, int(written.sum()))


def room(problem: Problem) -> int:
    """Elements of each array: more than any index of two extents reaches."""
    return _ROOM * max(problem.m, problem.n, problem.k) ** 2


def roles_by_footprint(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config,
    candidates: Sequence[tuple[Signature, Shape]], compile_fn: binding.CompileFn,
) -> Signature | None:  # fmt: skip
    """The one of ``candidates``, each with its M, N and K, under which the kernel touches what a product does; None if
    there is none, or several, or the kernel computes something else."""
    bench = _Bench(open_device, spec, config, compile_fn)
    found: dict[tuple[int, bool], list[tuple[Signature, Shape]]] = {}
    for meant, shape in candidates:
        values = _filled(bench, meant, shape, 1)
        launched = bench.launched(meant, shape, values, 0xFF)
        if launched is not None and (level := likeness(launched[1], shape)):
            found.setdefault((level, tells_all(meant)), []).append((meant, shape))
    if not found:
        return None
    best = found[max(found)]
    meanings = {tuple(arg.role for arg in meant.arguments if arg.code != "P") for meant, _ in best}
    meant, shape = best[0]
    return meant if len(meanings) == 1 and is_bilinear(bench, meant, shape) else None


def tells_all(meant: Signature) -> bool:
    """Whether the parameters tell M, N and K, and not the grid alone one of them."""
    return meant.square or bool(meant.tied) or all(meant.has(role) for role in ("M", "N", "K"))


def likeness(touched: _Touched, shape: Shape) -> int:
    """How much a launch touches as a product does; 0: it does not.

    3  all three matrices are read and written whole
    2  two of them are; an index of the third is wrong
    1  one of them is, and the others lack as many rows or columns: the last step of a loop, for example
    """
    m, n, k = shape
    whole = touched.a == m * k, touched.b == k * n, touched.c == m * n
    if max(touched.a, touched.b, touched.c) > max(m * k, k * n, m * n):
        return 0
    if sum(whole) >= 2:
        return sum(whole)
    depths = divmod(touched.a, m), divmod(touched.b, n)
    columns = divmod(touched.b, k), divmod(touched.c, m)
    rows = divmod(touched.a, k), divmod(touched.c, n)
    for is_whole, (one, other), full in ((whole[2], depths, k), (whole[0], columns, n), (whole[1], rows, m)):
        if is_whole and one == other and not one[1] and full / 2 <= one[0] <= full:
            return 1
    return 0


def is_bilinear(bench: _Bench, meant: Signature, shape: Shape) -> bool:
    """Whether C is linear in A and in B, but for what is added to it, and each result adds up at least K/2 terms."""
    m, n, k = shape
    problem = bench.spec.read_as(meant, "NN").problem(*shape)
    error = _ERROR.get(problem.out_dtype, _FP32_ERROR)
    one, two = (_filled(bench, meant, shape, seed) for seed in (2, 3))
    nothing = tuple(np.zeros_like(each) for each in one)
    sums = tuple((x.astype(np.float32) + y.astype(np.float32)).astype(x.dtype) for x, y in zip(one, two, strict=True))
    ones = tuple(np.ones(each.size, np.float32).astype(each.dtype) for each in one)
    asked = [nothing, (one[0], nothing[1]), (nothing[0], one[1]), one, (two[0], one[1]), (sums[0], one[1]),
             (one[0], two[1]), (one[0], sums[1]), ones]  # fmt: skip
    results = []
    for a, b in asked:
        launched = bench.launched(meant, shape, (a, b), 0)
        if launched is None:
            return False
        results.append(launched[0].astype(np.float64))
    empty, left, right, *products = results
    if not (np.array_equal(empty, left) and np.array_equal(empty, right) and np.isfinite(results).all()):
        return False
    first, other_a, both_a, other_b, both_b, terms = (each - empty for each in products)
    scale = np.abs(results).max() * error
    linear = np.abs(first + other_a - both_a).max() <= scale and np.abs(first + other_b - both_b).max() <= scale
    summed = terms[terms != 0]
    return bool(linear and summed.size >= m * n / 2 and np.median(np.abs(summed)) >= k / 2 * abs(problem.alpha))


def _filled(bench: _Bench, meant: Signature, shape: Shape, seed: int) -> tuple[Array, Array]:
    """A and B of small whole numbers from 0 on, with room behind each: a relu changes nothing."""
    problem = bench.spec.read_as(meant, "NN").problem(*shape)
    rng = np.random.Generator(np.random.PCG64(seed))
    a, b = (rng.integers(0, 3, room(problem)).astype(np.float32).astype(problem.dtype.numpy) for _ in range(2))
    return a, b
