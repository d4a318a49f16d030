"""What a user's kernel computes, found by running it: which extent is which, and how its matrices are stored.

One launch on integers with M, N and K all different. Leading dimensions are as large as the largest extent, so that A,
B and C can be read row by row and column by column from the same memory: the result is compared, bit for bit, with the
product of each of the eight layouts. Only equality of all outputs counts, so a wrong kernel is not taken for another
layout; every other trial then uses what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.call.pointer_tables import pointer_tables
from gemmsmith.errors import GemmsmithError, TimeLimitError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import LAYOUTS, Layout
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import BF16, FP16, UINT8, DType, Problem, ceil_div
from gemmsmith.run.device import Device
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError
from gemmsmith.verify.guarded_run import spare_bytes
from gemmsmith.verify.harness import GARBAGE, in_rounds, no_launch, reads_unwritten_shared
from gemmsmith.verify.old_c import passing_old_c
from gemmsmith.verify.oracles.arithmetic import exact_limit
from gemmsmith.verify.oracles.epilogue import SMOOTH, activated

Array = NDArray[Any]
_LEADING = 32  # a leading dimension is a multiple of this: vector loads work
_ADDEND = 7
_FEW_ROWS = 2  # of the results, which are compared first
_ACTIVATIONS = ("", "relu")  # that integers go through bit for bit
_SMOOTH_SPREAD = 1.5  # of the results that tell smooth activations from relu
_SMOOTH_ERROR = {FP16: 2.0**-9, BF16: 2.0**-6}  # of one result, relative; the type's rounding and an evaluation
_SMOOTH_FP32 = 2.0**-14  # tanh.approx is off by more, and is not judged
_SMOOTH_ROUGHLY = 2.0**-6  # any approximation that is in use


@dataclass(frozen=True)
class Reading:
    """What a kernel was found to compute; ``signature`` has the roles of the user's own M, N, A and B.

    bias    '', 'row' or 'column': what the bias belongs to, of the user's own C
    scaled  whether alpha and beta are applied. A kernel that ignores one of them is wrong, but its layout is known
    """

    signature: Signature
    layout: Layout
    bias: str = ""
    scaled: bool = True

    def applied(self, spec: KernelSpec) -> KernelSpec:
        """The kernel, read so."""
        return spec.read_as(*self.layout.applied(self.signature))


@dataclass(frozen=True)
class _Memory:
    """Flat arrays before a launch, their leading dimensions, and C after it."""

    problem: Problem
    a: Array
    b: Array
    c: Array
    bias: Array | None
    padded: tuple[bool, bool, bool]
    after: Array
    partial: bool = False

    def matrices(self, layout: Layout) -> tuple[Array, Array, Array, Array]:
        """A, B, C before and C after, as M×K, K×N and M×N matrices of ``layout``."""
        p, (a_by_column, b_by_column, c_by_column) = self.problem, layout.stored
        return (
            _matrix(self.a, p.m, p.k, a_by_column, p.lda if self.padded[0] else 0),
            _matrix(self.b, p.k, p.n, b_by_column, p.ldb if self.padded[1] else 0),
            _matrix(self.c, p.m, p.n, c_by_column, p.ldc if self.padded[2] else 0),
            _matrix(self.after, p.m, p.n, c_by_column, p.ldc if self.padded[2] else 0),
        )


def _matrix(flat: Array, rows: int, columns: int, by_column: bool, ld: int) -> Array:
    lines, length = (columns, rows) if by_column else (rows, columns)
    found = flat[: lines * (ld or length)].reshape(lines, ld or length)[:, :length]
    return found.T if by_column else found


def find_readings(
    device: Device,
    spec: KernelSpec,
    config: Config,
    signature: Signature,
    shape: tuple[int, int, int],
    compile_fn: binding.CompileFn,
    blocks: Sequence[int] | None = None,
    failed: Callable[[GemmsmithError], None] = lambda _: None,
    smooth: bool = False,
    roughly: bool = False,
    negated: bool = False,
) -> list[Reading]:
    """All readings of one launch with the roles of ``signature`` (the user's own) that give a product.

    ``blocks``: only these are run, on the simulator, and only what they write is compared. ``failed`` is told why there
    was no result. ``smooth``: small fractions instead of integers, for a kernel that applies gelu or silu, or
    ``roughly`` so. ``negated``: readings under which it subtracts the product, from C or from 0.
    """
    probed = spec.read_as(signature, "NN")
    launched = partial(_launched, device, probed, config, _problem(probed, shape), compile_fn, blocks, smooth)
    try:
        # Under a guessed launch such a read tells that the block may be too large.
        guessed = getattr(probed.geometry, "guessed", False)
        memory = launched() if guessed else _with_unwritten_shared(device, launched)
    except TimeLimitError:  # other meanings would take as long
        raise
    except GemmsmithError as error:
        failed(error)
        return []
    if negated:
        memory = replace(memory, c=-memory.c, after=-memory.after)
    return _smooth(signature, memory, roughly) if smooth else list(_matching(signature, memory))


def _with_unwritten_shared(device: Device, launched: Callable[[], _Memory]) -> _Memory:
    """What a launch leaves in memory. One that reads shared memory which no thread wrote, as blocks at an edge do for
    outputs that they do not store, runs again with NaN there: outputs that depend on it equal no product."""
    try:
        return launched()
    except GemmsmithError as error:
        if not isinstance(device, SimDevice) or not reads_unwritten_shared(error):
            raise
    device.garbage = GARBAGE[0]
    try:
        return launched()
    finally:
        device.garbage = None


def _problem(spec: KernelSpec, shape: tuple[int, int, int]) -> Problem:
    signature, dtype, out = spec.signature, spec.dtypes[0], spec.out_dtypes[0]
    alpha = 2.0 if signature.has("alpha") else 1.0
    whole = any(arg.code in tuple("iIqQhH") for arg in signature.arguments if arg.role in ("alpha", "beta"))
    # A multiple of alpha where both are integers: a kernel may compute alpha·(A·B + (beta/alpha)·C).
    beta = (4.0 if whole else 3.0) if signature.has("beta") else 0.0
    leading = ceil_div(max(shape), _LEADING) * _LEADING
    padded = {name: leading for name, has in zip(("lda", "ldb", "ldc"), _takes_leading(signature), strict=True) if has}
    plain = Problem(*shape, dtype=dtype, out_dtype=out, alpha=alpha, beta=beta, own_scalars=True)
    wide = plain.with_(**padded)
    return plain if in_rounds(spec) and no_launch(spec, spec.config(), wide) else wide


def _takes_leading(signature: Signature) -> tuple[bool, bool, bool]:
    return signature.has("lda"), signature.has("ldb"), signature.has("ldc") or signature.has("ldd")


def _launched(
    device: Device, spec: KernelSpec, config: Config, problem: Problem, compile_fn: binding.CompileFn,
    blocks: Sequence[int] | None = None, smooth: bool = False,
) -> _Memory:  # fmt: skip
    rng = np.random.Generator(np.random.PCG64(18))
    padded, signature = _takes_leading(spec.signature), spec.signature
    padded = (False, False, False) if in_rounds(spec) and problem == problem.with_() else padded
    room = (exact_limit(spec) - 5 * _ADDEND) / (problem.alpha * problem.k)
    bound = max(1, min(127, math.isqrt(max(0, int(room)))))
    if (
        problem.out_dtype == BF16
    ):  # alpha·A·B may be rounded before beta·C is added: sums below 256 are exact either way
        bound = 1
    sizes = [
        ld * max(problem.m, problem.n, problem.k) if has else rows * columns
        for (rows, columns), ld, has in zip(((problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)),
                                            (problem.lda, problem.ldb, problem.ldc), padded, strict=True)
    ]  # fmt: skip
    a, b = (_integers(rng, size, bound, problem.dtype) for size in sizes[:2])
    spare = spare_bytes(spec, problem)
    a, b = (np.concatenate([values, np.zeros(ceil_div(spare.get(role, 0), values.itemsize), values.dtype)])
            for role, values in (("A", a), ("B", b)))  # fmt: skip
    c = _integers(rng, sizes[2], _ADDEND, problem.out_dtype)
    bias = None
    if signature.has("bias"):
        bias = _integers(rng, max(problem.m, problem.n), _ADDEND, spec.bias_dtype(problem))
    if smooth:  # sums of small fractions are exact in every type, like those of integers
        a, b, c, bias = _fractions(rng, problem, (a, b, c, bias))
    addresses = [_upload(device, values) for values in (a, b, c)]
    addends = [*([bias] if bias is not None else []), *([c] if signature.has("D") else [])]
    extra = [_upload(device, values) for values in addends]
    try:
        matrices = Addresses(addresses[0], addresses[1], addresses[2], extra[0] if extra else 0)
        with pointer_tables(device, signature, problem, matrices) as given:
            plan = plan_launches(spec, config, problem, given, tables=True)
            plan = passing_old_c(plan, extra[1] if len(extra) > 1 else 0)
            workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else 0
            for step in binding.load_plan(device, plan, compile_fn).steps(given, workspace):
                if blocks is None or not isinstance(device, SimDevice):
                    device.launch(step.loaded, step.launch)
                else:
                    device.launch(step.loaded, step.launch, blocks)
            with suppress(HazardError):  # the trials report races
                device.synchronize()
        after = device.read(addresses[2], c.nbytes).view(c.dtype)
    finally:
        for address in (*addresses, *extra):
            device.free(address)
    return _Memory(problem, a, b, c, bias, padded, after, blocks is not None)


def _upload(device: Device, values: Array | None) -> int:
    assert values is not None
    address = device.allocate(max(1, values.nbytes))
    device.write(address, np.ascontiguousarray(values).view(np.uint8))
    return address


def _integers(rng: np.random.Generator, size: int, bound: int, dtype: DType) -> Array:
    magnitude = rng.integers(1, bound + 1, size)
    sign = 1 if dtype == UINT8 else rng.integers(0, 2, size) * 2 - 1
    return (magnitude * sign).astype(np.float32).astype(dtype.numpy)


def _fractions(
    rng: np.random.Generator, problem: Problem, arrays: tuple[Array, Array, Array, Array | None]
) -> tuple[Array, Array, Array, Array | None]:
    """Arrays like these with ±1 times a power of two, so that results spread over a few units."""
    spread = math.sqrt(problem.k) * abs(problem.alpha)
    step = 2.0 ** round(math.log2(_SMOOTH_SPREAD / spread) / 2)
    a, b, c, bias = arrays
    signs = [(rng.integers(0, 2, x.size) * 2 - 1).astype(np.float32) * (x != 0) for x in (a, b)]
    left, right = (sign * np.float32(step) for sign in signs)
    few = [None if x is None else (rng.integers(-4, 5, x.size) / 8).astype(np.float32) for x in (c, bias)]
    assert few[0] is not None
    addend = None if bias is None or few[1] is None else few[1].astype(bias.dtype)
    return left.astype(a.dtype), right.astype(b.dtype), few[0].astype(c.dtype), addend


def _smooth(signature: Signature, memory: _Memory, roughly: bool) -> list[Reading]:
    """The reading under which a smooth activation of the product is nearest to what the kernel wrote, if any is near;
    forms of gelu differ by less than some types round."""
    problem, nearest, found = memory.problem, 1.0, list[Reading]()
    relative = _SMOOTH_ROUGHLY if roughly else _SMOOTH_ERROR.get(problem.out_dtype, _SMOOTH_FP32)
    for layout in LAYOUTS:
        a, b, before, after = memory.matrices(layout)
        product = problem.alpha * (a.astype(np.float64) @ b.astype(np.float64))
        product = product + (problem.beta * before.astype(np.float64) if signature.has("beta") else 0.0)
        for bias in ("row", "column") if memory.bias is not None else ("",):
            total = product + _spread(memory.bias, bias, np.arange(problem.m), problem)
            for name in SMOOTH:
                error = np.abs(activated(name, total) - after.astype(np.float64)) / (relative * (np.abs(total) + 1))
                if float(error.max(initial=0.0)) < nearest:
                    nearest, found = float(error.max()), [Reading(replace(signature, activation=name), layout, bias)]
    return found


def _matching(signature: Signature, memory: _Memory) -> Iterator[Reading]:
    for layout in LAYOUTS:
        _, _, before, after = memory.matrices(layout)
        rows = np.flatnonzero((after != before).any(axis=1)) if memory.partial else np.arange(memory.problem.m)
        # Most layouts differ in any row: few rows tell that, and the product of all is not needed.
        if any(True for _ in _matching_rows(signature, memory, layout, rows[:_FEW_ROWS])):
            yield from _matching_rows(signature, memory, layout, rows)


def _matching_rows(
    signature: Signature, memory: _Memory, layout: Layout, rows: NDArray[np.int64]
) -> Iterator[Reading]:  # fmt: skip
    """The readings with this layout that give what the kernel wrote in these rows."""
    problem = memory.problem
    biases = ("row", "column") if memory.bias is not None else ("",)
    a, b, before, after = memory.matrices(layout)
    a, before, after = a[rows], before[rows], after[rows]
    judged = after != before if memory.partial else np.ones(after.shape, np.bool_)
    product = problem.alpha * (a.astype(np.float64) @ b.astype(np.float64))
    addend = before.astype(np.float64)
    for bias in biases:
        spread = _spread(memory.bias, bias, rows, problem)
        total = product + spread

        def gives(expected: Array) -> str | None:
            """The activation after which this is what the kernel wrote; None: under none."""
            known = ((name, activated(name, expected)) for name in _ACTIVATIONS)
            return next((name for name, each in known if _equal(each, after, problem, judged)), None)

        if signature.has("beta"):
            if (activation := gives(total + problem.beta * addend)) is not None:
                yield Reading(replace(signature, activation=activation), layout, bias)
                continue
            plain = product / problem.alpha + spread
            without = (total, plain, plain + problem.beta * addend)
            if any(_equal(each, after, problem, judged) for each in without):
                yield Reading(signature, layout, bias, scaled=False)
        elif (activation := gives(total)) is not None:
            yield Reading(replace(signature, activation=activation), layout, bias)
        elif _equal(total + addend, after, problem, judged):
            yield Reading(replace(signature, accumulates=True), layout, bias)


def _spread(bias: Array | None, kind: str, rows: NDArray[np.int64], problem: Problem) -> Array | float:
    if bias is None:
        return 0.0
    wide = bias.astype(np.float64)
    return wide[: problem.m, None][rows] if kind == "row" else wide[None, : problem.n]


def _equal(expected: Array, got: Array, problem: Problem, judged: NDArray[np.bool_]) -> bool:
    between = np.int64 if problem.out_dtype.numpy.kind == "i" else np.float32
    right = expected.astype(between).astype(problem.out_dtype.numpy) == got
    return bool(judged.any() and right[judged].all())
