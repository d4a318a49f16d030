"""Launch a few blocks of a product that is far larger than this machine's memory, and judge what they write.

Simulated memory exists where it is touched. A first run of the blocks shows which pages of C they write; then the rows
of A and the columns of B that belong to these get data, and the blocks run again. Data are small positive integers, so
every sum is exact and no output is 0: what is not 0 was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.errors import SignatureError, SimulationError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.global_memory import ALIGNMENT
from gemmsmith.verify.old_c import adds_c_and_bias, passing_old_c
from gemmsmith.verify.oracles.arithmetic import exact_limit

Array = NDArray[Any]
_LARGEST_VALUE = 3
_UNWRITTEN = 0xFF  # every byte of shared memory before a launch: NaN, which no right output depends on
_DENSE = 2**22  # elements: an operand up to this size is filled as a whole


def is_exact(spec: KernelSpec, problem: Problem) -> bool:
    """Whether the sums of this product can be judged exactly, up to one rounding to the type of C."""
    largest = problem.k * _LARGEST_VALUE**2 + (_LARGEST_VALUE if problem.bias else 0)
    return largest <= exact_limit(spec) and problem.out_dtype.name != "int8" and problem.activation in ("", "relu")


@dataclass(frozen=True)
class _Matrix:
    """A matrix in simulated memory, as op(A) or op(B): ``view[row, column]`` whatever the layout."""

    address: int
    stored: Array
    transposed: bool
    start: int = 0  # elements before it: of the other products of a batch

    @property
    def view(self) -> Array:
        return self.stored.T if self.transposed else self.stored


_ADDRESSES = Addresses(*(ALIGNMENT * place for place in range(1, 5)))


def holds_numbers(spec: KernelSpec, config: Config, problem: Problem) -> bool:
    """Whether the kernel's parameters hold the sizes and strides: an int takes no stride of 2³¹ elements."""
    try:
        plan_launches(spec, config, problem, _ADDRESSES)
    except SignatureError:
        return False
    return True


def runs_on_parts(spec: KernelSpec, config: Config, problem: Problem) -> bool:
    """Whether a launch needs nothing but its operands: a prologue copies all of them, a workspace is shared."""
    plan = plan_launches(spec, config, problem, _ADDRESSES)
    return not (plan.prologue or plan.scratch or spec.workspace is not None)


def sparse_reasons(
    device: SimDevice, spec: KernelSpec, config: Config, problem: Problem, blocks: Sequence[int], written: int,
    compile_fn: binding.CompileFn, dry_k: int, corner: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Why the result of these blocks is wrong; empty if it is right. They must write ``written`` outputs, of the last
    product of a batch.

    ``dry_k``: a small K for the first run; it writes the same outputs. ``corner``: the last row and column of C must
    be among these.
    """
    others = problem.batch - 1
    a = _matrix(device, problem.a_shape, problem.lda, problem.dtype.numpy, problem.trans_a, others * problem.stride_a)
    b = _matrix(device, problem.b_shape, problem.ldb, problem.dtype.numpy, problem.trans_b, others * problem.stride_b)
    c = _output(device, problem)
    named = spec.signature.named if not spec.is_rung else str
    for each, role in ((a, "A"), (b, "B"), (c, spec.signature.output)):
        device.label(each.address, named(role), each.stored.itemsize)
    addend = _addend(device, spec, problem)
    addresses = Addresses(a.address, b.address, c.address, addend.address if addend is not None else 0)
    both = adds_c_and_bias(spec.signature)  # C holds zeros then
    old_c = _output(device, problem).address if both else 0

    def run(product: Problem) -> None:
        plan = passing_old_c(plan_launches(spec, config, product, addresses), old_c)
        if not runs_on_parts(spec, config, product):
            raise SimulationError("a kernel with a prologue is not run on parts of its operands")
        room = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else 0  # of tensor maps
        for step in binding.load_plan(device, plan, compile_fn).steps(addresses, room):
            device.launch(step.loaded, step.launch, blocks)

    try:
        device.memory.keep_changes(True)
        device.garbage = _UNWRITTEN
        run(problem.with_(k=min(dry_k, problem.k)))
        rows, columns = _touched(device, problem, c)
        rng = np.random.Generator(np.random.PCG64(problem.k))
        _fill(a.view, rows, rng)
        _fill(b.view.T, columns, rng)
        bias = addend.stored[0] if problem.bias and addend is not None else None
        if bias is not None:
            bias[:] = rng.integers(1, _LARGEST_VALUE + 1, bias.shape).astype(bias.dtype)
        run(problem)
        found = _written(device, problem, c)
        return _judged(problem, a, b, bias, found, written) or (_far_from_corner(problem, found) if corner else ())
    except SimulationError as error:
        return (error.message, *(_without_instruction(line) for line in error.hint.split("\n") if line))
    finally:
        device.memory.keep_changes(False)
        device.garbage = None


def _without_instruction(line: str) -> str:
    """`kernel.cu:8: ld.global.f32 …; block (0,65534,0), …` without the PTX."""
    return re.sub(r"^(\S+:\d+): [^;]*;;? (?=block )", r"at \1, ", line)


def _matrix(
    device: SimDevice, shape: tuple[int, int], ld: int, dtype: Any, transposed: bool, start: int = 0
) -> _Matrix:
    itemsize = np.dtype(dtype).itemsize
    nbytes = max(1, (start + (shape[0] - 1) * ld + shape[1]) * itemsize)
    address = device.allocate(nbytes)
    found = device.memory.locate(address, 1)
    assert found is not None
    flat = found[1].view(dtype)[start:]
    stored = np.lib.stride_tricks.as_strided(flat, shape, (ld * itemsize, itemsize))
    return _Matrix(address, stored, transposed, start)


def _output(device: SimDevice, problem: Problem) -> _Matrix:
    start = (problem.batch - 1) * problem.stride_c
    return _matrix(device, problem.c_shape, problem.ldc, problem.out_dtype.numpy, False, start)


def _addend(device: SimDevice, spec: KernelSpec, problem: Problem) -> _Matrix | None:
    """What is added to the product: C of a kernel that writes D (zeros), or a bias; None where there is neither."""
    length = problem.bias_length if problem.bias else 0
    if length:
        return _matrix(device, (1, length), length, spec.bias_dtype(problem).numpy, False)
    return _output(device, problem) if spec.signature.has("D") else None


def _fill(lines: Array, chosen: Array, rng: np.random.Generator) -> None:
    """Small integers in the chosen lines (rows of A, columns of B), or in all of a small operand."""
    chosen = np.arange(lines.shape[0]) if lines.size <= _DENSE else chosen
    lines[chosen] = rng.integers(1, _LARGEST_VALUE + 1, (len(chosen), lines.shape[1])).astype(lines.dtype)


def _touched(device: SimDevice, problem: Problem, c: _Matrix) -> tuple[Array, Array]:
    """Rows and columns of C on the pages that were written."""
    rows: set[int] = set()
    columns: set[int] = set()
    size = c.stored.itemsize
    for start, end in device.memory.written_ranges(c.address):
        first, last = start // size - c.start, min(-(-end // size) - c.start, problem.m * problem.ldc) - 1
        rows.update(range(first // problem.ldc, last // problem.ldc + 1))
        if last - first >= problem.ldc:
            columns.update(range(problem.n))
        else:
            columns.update((i % problem.ldc) for i in range(first, last + 1))
    return np.array(sorted(r for r in rows if 0 <= r < problem.m), np.int64), np.array(
        sorted(j for j in columns if j < problem.n), np.int64)  # fmt: skip


def _written(device: SimDevice, problem: Problem, c: _Matrix) -> tuple[Array, Array, Array]:
    """Row, column and value of every output that is not 0."""
    parts = []
    size = c.stored.itemsize
    flat = device.memory.data(c.address).view(c.stored.dtype)
    for start, end in device.memory.written_ranges(c.address):
        part = flat[start // size : end // size]
        place = np.flatnonzero(part) + start // size
        index = place - c.start
        parts.append((index // problem.ldc, index % problem.ldc, flat[place]))
    if not parts:
        none = np.zeros(0, np.int64)
        return none, none, none
    rows, columns, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, columns, values


def _far_from_corner(problem: Problem, found: tuple[Array, Array, Array]) -> tuple[str, ...]:
    last = int(found[0].max()), int(found[1].max())
    if last == (problem.m - 1, problem.n - 1):
        return ()
    return (
        f"the last block wrote nothing in the last row and column of C ({problem.m - 1}, {problem.n - 1}): "
        f"the blocks wrote up to ({last[0]}, {last[1]}), as if an index had too few bits",
    )


def _judged(
    problem: Problem, a: _Matrix, b: _Matrix, bias: Array | None, found: tuple[Array, Array, Array], written: int
) -> tuple[str, ...]:
    rows, columns, values = found
    outside = (rows < 0) | (rows >= problem.m) | (columns >= problem.n)
    if outside.any():
        where = "outside C" if problem.batch == 1 else f"outside C of product {problem.batch - 1}"
        return (f"{int(np.count_nonzero(outside))} values were written {where}",)
    if rows.size < written:  # more is no fault: tiles may overlap
        return (f"the blocks wrote {rows.size} outputs, and should have written {written}",)
    own_rows, at_row = np.unique(rows, return_inverse=True)
    own_columns, at_column = np.unique(columns, return_inverse=True)
    left, right = a.view[own_rows].astype(np.float64), b.view[:, own_columns].astype(np.float64)
    expected = (left @ right)[at_row, at_column]
    if bias is not None:
        expected = expected + bias[rows if problem.bias == "row" else columns].astype(np.float64)
    expected = expected.astype(np.float32).astype(values.dtype).astype(np.float64)  # exact sums, rounded as C is
    wrong = np.asarray(values, np.float64) != expected
    if not wrong.any():
        return ()
    n = int(np.flatnonzero(wrong)[0])
    place, got = f"({int(rows[n])}, {int(columns[n])})", float(values[n])
    return (
        f"{int(np.count_nonzero(wrong))} of {rows.size} outputs that were looked at are wrong: the first at {place}, "
        f"got {got!r}, expected {float(expected[n])!r}",
    )
