"""Where the matrices of several products lie, of a kernel that makes one for each ``blockIdx.z``, seldom y or x.

The products of a batch mostly follow one another. Those of attention's heads may be interleaved, each row of a
matrix being followed by the same row of the next head's: ``(B, T, H, D)``. Which of these a kernel expects is seen by
what each product reads and writes. Wrong offsets are seen, too: two products then share a part of a matrix, for some
order of the sizes at least. Heads of attention may share whole matrices, in groups of as many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.reference import exact_reference
from gemmsmith.verify.watched_memory import WatchedMemory

Indices = NDArray[np.int64]
# Every order of the sizes, and of each with the number of heads, which is half of the products.
_SMALL: tuple[Shape, ...] = ((2, 5, 4), (5, 4, 2), (4, 2, 5))
_PRODUCTS = 6
_ROOM = 4  # times as many elements as the products have: wrong offsets stay inside
_POISON = 0xA5
_LARGEST = 3  # of the operands' numbers


@dataclass(frozen=True)
class ProductPlaces:
    """What launches of several products showed.

    wrong    why it is not right, for ``problem``; empty: it is
    beside   names of the matrices that lie beside those of other products; none: all follow one another
    apart    names of the matrices with elements between them that no product touches
    groups   names of the matrices that products share, and how many share one
    """

    problem: Problem
    wrong: str = ""
    beside: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class _Touched:
    """The elements that one product read of A and of B and wrote of C, and whether C is right."""

    a: Indices
    b: Indices
    c: Indices
    right: bool

    def of(self, role: str) -> Indices:
        return {"A": self.a, "B": self.b, "C": self.c}[role]


def product_places(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, shapes: Sequence[Shape],
    compile_fn: binding.CompileFn,
) -> ProductPlaces | None:  # fmt: skip
    """Where the matrices of ``spec``'s products lie, by launches of small products or else of ``shapes``; None where
    they do not tell."""
    for tried in (_SMALL, shapes):
        found = [_places(open_device, spec, config, shape, compile_fn) for shape in tried]
        wrong = next((each for each in found if each is not None and each.wrong), None)
        known = [each for each in found if each is not None]
        if wrong is not None:
            return wrong
        if known and len(known) == len(found):
            return known[0]
    return None


def _places(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, shape: Shape, compile_fn: binding.CompileFn
) -> ProductPlaces | None:  # fmt: skip
    problem = spec.problem(*shape).with_(batch=_PRODUCTS)
    device = open_device()
    if not isinstance(device, SimDevice) or problem.alpha != 1 or problem.beta != 0 or problem.activation:
        return None
    try:
        touched = _touched(device, spec, config, problem, compile_fn)
    except GemmsmithError:
        return None
    sizes = {"A": problem.m * problem.k, "B": problem.k * problem.n, "C": problem.m * problem.n}
    beside, apart, groups = [], [], []
    for role, size in sizes.items():
        each = [found.of(role) for found in touched]
        if any(one.size != size for one in each):
            return None
        name = spec.signature.named(spec.signature.output if role == "C" else role)
        count = _group(each) if role != "C" else 1
        if wrong := _shared_part(name, each) or ("" if count > 1 else _shared_by_some(name, each, role == "C")):
            return ProductPlaces(problem, wrong)
        own = np.unique(np.concatenate(each))
        if not np.array_equal(own, np.arange(size * len({one.tobytes() for one in each}))):
            if wrong := _lost(name, each):
                return ProductPlaces(problem, wrong)
            apart.append(name)
        groups += [(name, count)] if 1 < count < len(each) else []
        beside += [name] if any(one[-1] - one[0] >= size for one in each) else []
    orders = {tuple(np.argsort([found.of(role)[0] for found in touched])) for role in sizes}
    if len(orders) > 1:
        return None  # the products of one matrix are in another order than those of another
    if apart and not all(found.right for found in touched):
        return None
    if not all(found.right for found in touched):
        number = next(i for i, found in enumerate(touched) if not found.right)
        return ProductPlaces(problem, f"product {number} of {len(touched)} is not the product of its own matrices")
    return ProductPlaces(problem, beside=tuple(beside), apart=tuple(apart), groups=tuple(groups))


def _group(each: Sequence[Indices]) -> int:
    """How many products in a row share a matrix, the last of them perhaps fewer; 1: each has its own, or another order
    is theirs."""
    different = list(dict.fromkeys(one.tobytes() for one in each))
    numbers = [different.index(one.tobytes()) for one in each]
    count = numbers.count(0)
    return count if numbers == [place // count for place in range(len(each))] else 1


def _shared_part(name: str, each: Sequence[Indices]) -> str:
    """Two products that share a part of a matrix, and not all of it."""
    for i, one in enumerate(each):
        for j, other in enumerate(each[:i]):
            common = np.intersect1d(one, other, assume_unique=True).size
            if 0 < common < one.size:
                return f"products {j} and {i} share {common} of the {one.size} elements of {name}"
    return ""


def _shared_by_some(name: str, each: Sequence[Indices], is_output: bool) -> str:
    """Two products that share a matrix, where others have one of their own, or that write it both."""
    numbers: dict[bytes, list[int]] = {}
    for number, one in enumerate(each):
        numbers.setdefault(one.tobytes(), []).append(number)
    fewest, most = min(len(each) for each in numbers.values()), max(numbers.values(), key=len)
    if len(most) == fewest and not (is_output and fewest > 1):
        return ""
    return f"products {most[0]} and {most[1]} {'write' if is_output else 'use'} the same matrix of {name}"


def _lost(name: str, each: Sequence[Indices]) -> str:
    """Products that share a whole matrix, where there is room for one each that none of them touches."""
    different = {one.tobytes() for one in each}
    reached = max(int(one[-1]) for one in each) + 1
    size = each[0].size
    if len(different) == len(each) or not size * len(different) < reached <= size * len(each):
        return ""
    return f"{len(each)} products use {len(different)} matrices of {name}; those between them are never used"


def _touched(
    device: SimDevice, spec: KernelSpec, config: Config, problem: Problem, compile_fn: binding.CompileFn
) -> list[_Touched]:
    """What each product touches. Sorted indices are rows of a matrix as it is stored, wherever these begin."""
    memory = device.memory = WatchedMemory()
    rng = np.random.Generator(np.random.PCG64(1))
    count = _ROOM * problem.batch * max(problem.m, problem.n, problem.k, problem.batch) ** 2
    operands, places = [], []
    for _ in range(2):
        values = rng.integers(-_LARGEST, _LARGEST + 1, count).astype(np.float32).astype(problem.dtype.numpy)
        place = device.allocate(values.nbytes)
        device.write(place, values.view(np.uint8))
        operands.append(values)
        places.append(place)
    poison = np.full(count * problem.out_dtype.itemsize, _POISON, np.uint8)
    result = device.allocate(poison.size)
    plan = plan_launches(spec, config, problem, Addresses(places[0], places[1], result, 0))
    (step,) = binding.load_plan(device, plan, compile_fn).steps(Addresses(places[0], places[1], result, 0), 0)
    blocks = step.launch.geometry.blocks // problem.batch
    found = []
    for number in range(problem.batch):
        device.write(result, poison)
        for place, values in zip(places, operands, strict=True):
            memory.watch(place, values.itemsize, count)
        device.launch(step.loaded, step.launch, range(number * blocks, (number + 1) * blocks))
        after = device.read(result, poison.size)
        written = np.flatnonzero((after != poison).reshape(count, -1).any(axis=1))
        read = [np.flatnonzero(memory.marks[place][1]) for place in places]
        found.append(_Touched(read[0], read[1], written, _is_right(problem, operands, read, after, written)))
    return found


def _is_right(
    problem: Problem, operands: Sequence[NDArray[np.generic]], read: Sequence[Indices], after: NDArray[np.uint8],
    written: Indices,
) -> bool:  # fmt: skip
    """Whether what was written is the product of what was read."""
    shapes = (problem.a_shape, problem.b_shape)
    if any(one.size != rows * columns for one, (rows, columns) in zip(read, shapes, strict=True)):
        return False
    a, b = (values[one].reshape(shape) for values, one, shape in zip(operands, read, shapes, strict=True))
    expected = exact_reference(problem, a, b, np.zeros(problem.c_shape))
    got = after.view(problem.out_dtype.numpy)[written]
    return got.size == expected.size and np.array_equal(got.astype(np.float64), expected.ravel().astype(np.float64))
