"""A request: the operands of a call, described and checked, the problem they make, and the kernel that computes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.tensors import Matrix, matrix

_GRANULE = 16  # bytes: kernels distinguish addresses by their remainder by this
Place = tuple[int, int, int]
"""Address, leading dimension and batch stride."""


@dataclass(frozen=True)
class Request:
    """A call of ``gemm`` or ``plan``, checked.

    source  where kernel and configuration come from: 'given', or the source of the ``Choice``
    c       None where beta is 0
    rank    of the result: 2, or 3 for a batch
    """

    problem: Problem
    spec: KernelSpec
    config: Config
    source: str
    a: Matrix
    b: Matrix
    c: Matrix | None
    bias: Matrix | None
    out: Matrix | None
    rank: int

    @property
    def empty(self) -> bool:
        """There is nothing to compute; C is not even scaled."""
        return self.problem.m == 0 or self.problem.n == 0 or self.problem.batch == 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.problem.c_shape if self.rank == 2 else (self.problem.batch, *self.problem.c_shape)


@dataclass(frozen=True)
class Operands:
    """One set of operands: those of the request, or others in their place."""

    a: Matrix
    b: Matrix
    c: Matrix | None
    bias: Matrix | None
    out: Matrix

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.a.address, self.b.address, self.out.address, self.bias.address if self.bias else 0)

    @property
    def copied_c(self) -> Place | None:
        """C, where it must be copied into the output: the kernel reads it there."""
        return None if self.c is None or place(self.c) == place(self.out) else place(self.c)


def bias_operand(bias: Any) -> Matrix | None:
    """A bias as a matrix of one row or one column; None where there is none."""
    if bias is None:
        return None
    return matrix("bias", bias.reshape(1, -1) if getattr(bias, "ndim", 0) == 1 else bias)


def check_bias(problem: Problem, found: Matrix, bias: Any) -> None:
    """Raise unless ``found``, the caller's ``bias``, has one value per row or per column of C."""
    if (found.rows, found.cols) not in ((1, problem.n), (problem.m, 1)) or found.batch is not None:
        shape = tuple(getattr(bias, "shape", ()))
        raise ProblemError(f"bias has shape {shape}", f"pass {problem.n} values for columns, or {problem.m}x1 for rows")
    if found.dtype != problem.out_dtype:
        raise DTypeError(f"bias is {found.dtype}; it must be {problem.out_dtype}, like the output")
    if found.leading != max(found.cols if not found.transposed else found.rows, 1):
        raise ProblemError("bias is not contiguous", "copy it first")


def addend_operand(problem: Problem, c: Any) -> Matrix | None:
    """C, where it is read; None where beta is 0."""
    if problem.beta == 0:
        return None
    if c is None:
        raise UsageError(f"beta={problem.beta:g} needs a matrix c", "pass c, or leave beta at 0")
    addend = matrix("c", c)
    if (addend.rows, addend.cols) != problem.c_shape or matrices(addend) != problem.batch:
        many = f"{addend.batch} of " if addend.batch is not None else ""
        raise ProblemError(f"c is {many}{addend.rows}x{addend.cols}, but the product is {product_text(problem)}")
    if addend.dtype != problem.out_dtype:
        raise DTypeError(f"c is {addend.dtype}; it must be {problem.out_dtype}")
    if addend.transposed:
        raise ProblemError("c is stored column by column", "pass a row-major matrix")
    return addend


def check_one_device(operands: list[Matrix]) -> None:
    """Raise unless all are on one device."""
    first = operands[0]
    for other in operands[1:]:
        if other.ordinal != first.ordinal:
            raise DTypeError(
                f"{first.name} is on {where(first)} and {other.name} on {where(other)}",
                "move all operands to one device",
            )


def check_output(problem: Problem, out: Matrix, a: Matrix, b: Matrix, c: Matrix | None, bias: Matrix | None) -> None:
    """Raise unless ``out`` can hold the result and overlaps no operand; it may be C itself."""
    if (out.rows, out.cols) != problem.c_shape or matrices(out) != problem.batch:
        raise ProblemError(f"out is {_extents(out)}, but the product is {product_text(problem)}")
    if out.dtype != problem.out_dtype:
        raise DTypeError(f"out is {out.dtype}; the result is {problem.out_dtype}")
    if out.transposed:
        raise ProblemError("out is stored column by column", "pass a row-major matrix")
    if isinstance(out.owner, np.ndarray) and not out.owner.flags.writeable:
        raise ProblemError("out is read-only", "pass a writeable matrix")
    for other in (a, b, c, bias):
        same = other is c and c is not None and place(c) == place(out)
        if other is not None and not same and _overlap(out, other):
            raise ProblemError(f"out overlaps {other.name}", "write to a matrix of its own")


def matrices(operand: Matrix) -> int:
    """How many matrices an operand is."""
    return 1 if operand.batch is None else operand.batch


def product_text(problem: Problem) -> str:
    """The extents of a product, for messages."""
    many = f"{problem.batch} of " if problem.batch != 1 else ""
    return f"{many}{problem.m}x{problem.n}"


def place(operand: Matrix) -> Place:
    """Equal for two views of the same elements, if their extents are equal."""
    return operand.address, operand.leading, operand.stride


def _overlap(x: Matrix, y: Matrix) -> bool:
    if not (x.nbytes and y.nbytes and x.address < y.address + y.nbytes and y.address < x.address + x.nbytes):
        return False
    pitch = x.leading * x.dtype.itemsize
    if pitch != y.leading * y.dtype.itemsize or x.batch is not None or y.batch is not None:
        return True
    # Two views of one larger matrix: disjoint if neither's rows reach into the other's.
    shift = (y.address - x.address) % pitch
    return shift < _line_bytes(x) or shift + _line_bytes(y) > pitch


def _line_bytes(operand: Matrix) -> int:
    return (operand.rows if operand.transposed else operand.cols) * operand.dtype.itemsize


def replaced(problem: Problem, planned: Operands, given: tuple[Any, ...]) -> Operands:
    """``planned`` with the ``given`` a, b, c, bias and out in place of its own; None keeps its own.

    Refuses any that differs from the planned one in more than values and address.
    """
    found: dict[str, Matrix] = {}
    for name, value in zip(("a", "b", "c", "bias", "out"), given, strict=True):
        if value is None or (name == "c" and problem.beta == 0):
            continue
        own: Matrix | None = getattr(planned, name)
        if own is None:
            raise UsageError(f"the plan has no {name}", f"make a plan with {name}")
        found[name] = _like(own, value)
    return replace(planned, **found)


def _like(planned: Matrix, value: Any) -> Matrix:
    """``value`` as an operand, if it is like the planned one."""
    is_vector = planned.name == "bias" and getattr(value, "ndim", 0) == 1
    other = matrix(planned.name, value.reshape(1, -1) if is_vector else value)
    _check_like(planned, other)
    if planned.on_gpu and (other.address - planned.address) % _GRANULE:
        raise ProblemError(
            f"{planned.name} starts {other.address % _GRANULE} bytes past a multiple of {_GRANULE}, and the plan is "
            f"for {planned.address % _GRANULE}", "make a plan for it, or copy it to memory aligned like the plan's",
        )  # fmt: skip
    return other


def _check_like(planned: Matrix, other: Matrix) -> None:
    name, hint = planned.name, "make a plan for it"
    if other.ordinal != planned.ordinal:
        raise DTypeError(f"{name} is on {where(other)}, and the plan is for {where(planned)}", hint)
    if other.dtype != planned.dtype:
        raise DTypeError(f"{name} is {other.dtype}, and the plan is for {planned.dtype}", hint)
    if (other.batch, other.rows, other.cols) != (planned.batch, planned.rows, planned.cols):
        raise ProblemError(f"{name} is {_extents(other)}, and the plan is for {_extents(planned)}", hint)
    if _layout(other) != _layout(planned):
        raise ProblemError(f"{name} has {_layout(other)}, and the plan is for {_layout(planned)}", hint)


def _extents(operand: Matrix) -> str:
    many = f"{operand.batch} of " if operand.batch is not None else ""
    return f"{many}{operand.rows}x{operand.cols}"


def _layout(operand: Matrix) -> str:
    text = f"{'columns' if operand.transposed else 'rows'} {operand.leading} elements apart"
    return text + (f" and matrices {operand.stride} apart" if operand.batch is not None else "")


def where(operand: Matrix) -> str:
    """The device of an operand, for messages."""
    return f"GPU {operand.ordinal}" if operand.on_gpu else "the host"
