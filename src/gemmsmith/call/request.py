"""What is asked for: operands that were looked at, the problem they make, and the kernel that shall compute it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.tensors import Matrix, matrix

_GRANULE = 16  # bytes: what kernels ask of an address is that it is a multiple of this, or not


@dataclass(frozen=True)
class Request:
    """A product as it was asked for, checked.

    source  where kernel and configuration come from: 'given', or as ``choose`` says
    c       None where beta is 0
    ranks   of the result: 2, or 3 for a batch
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
    ranks: int

    @property
    def empty(self) -> bool:
        """Nothing is to be computed; not even C is scaled."""
        return self.problem.m == 0 or self.problem.n == 0 or self.problem.batch == 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        return self.problem.c_shape if self.ranks == 2 else (self.problem.batch, *self.problem.c_shape)


@dataclass(frozen=True)
class Operands:
    """One set of operands: those that were planned with, or others like them."""

    a: Matrix
    b: Matrix
    c: Matrix | None
    bias: Matrix | None
    out: Matrix

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.a.address, self.b.address, self.out.address, self.bias.address if self.bias else 0)

    @property
    def all(self) -> dict[str, Matrix | None]:
        """By the names that callers give them."""
        return {"a": self.a, "b": self.b, "c": self.c, "bias": self.bias, "out": self.out}

    @property
    def copies_c(self) -> bool:
        """C lies elsewhere than the output, where the kernel reads it."""
        return self.c is not None and place(self.c) != place(self.out)


def bias_operand(bias: Any) -> Matrix | None:
    """A bias as a matrix of one row or one column."""
    if bias is None:
        return None
    return matrix("bias", bias.reshape(1, -1) if getattr(bias, "ndim", 0) == 1 else bias)


def check_bias(problem: Problem, found: Matrix, bias: Any) -> None:
    """Raise unless ``found``, which the caller passed as ``bias``, has a value for each row or each column."""
    if (found.rows, found.cols) not in ((1, problem.n), (problem.m, 1)) or found.batch is not None:
        shape = tuple(getattr(bias, "shape", ()))
        raise ProblemError(f"bias has shape {shape}", f"pass {problem.n} values for columns, or {problem.m}x1 for rows")
    if found.dtype != problem.out_dtype:
        raise DTypeError(f"bias is {found.dtype}; it must be {problem.out_dtype}, as the output")
    if found.leading != max(found.cols if not found.transposed else found.rows, 1):
        raise ProblemError("bias is not contiguous", "copy it first")


def addend_operand(problem: Problem, c: Any) -> Matrix | None:
    """C, where beta lets it be read."""
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
    """Raise unless all lie on one device."""
    first = operands[0]
    for other in operands[1:]:
        if other.ordinal != first.ordinal:
            raise DTypeError(
                f"{first.name} is on {where(first)} and {other.name} on {where(other)}",
                "move all operands to one device",
            )


def check_output(problem: Problem, out: Matrix, a: Matrix, b: Matrix, c: Matrix | None, bias: Matrix | None) -> None:
    """Raise unless ``out`` can hold the result, and is memory of its own (or C's own)."""
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
    """How many it is."""
    return 1 if operand.batch is None else operand.batch


def product_text(problem: Problem) -> str:
    """The extents of a product, for messages."""
    many = f"{problem.batch} of " if problem.batch != 1 else ""
    return f"{many}{problem.m}x{problem.n}"


def place(operand: Matrix) -> tuple[int, int, int]:
    """Equal for two views of the same elements, of the same extents."""
    return operand.address, operand.leading, operand.stride


def _overlap(x: Matrix, y: Matrix) -> bool:
    if not (x.nbytes and y.nbytes and x.address < y.address + y.nbytes and y.address < x.address + x.nbytes):
        return False
    pitch = x.leading * x.dtype.itemsize
    if pitch != y.leading * y.dtype.itemsize or x.batch is not None or y.batch is not None:
        return True
    # Two slices of one larger matrix: apart if neither's lines reach into the other's.
    shift = (y.address - x.address) % pitch
    return shift < _line_bytes(x) or shift + _line_bytes(y) > pitch


def _line_bytes(operand: Matrix) -> int:
    return (operand.rows if operand.transposed else operand.cols) * operand.dtype.itemsize


def named(operands: Operands) -> dict[str, Matrix]:
    """Those there are, by name."""
    return {name: each for name, each in operands.all.items() if each is not None}


def fingerprint(value: Any) -> tuple[Any, ...] | None:
    """All of a torch tensor but its address, quickly; None for others."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    return value.dtype, value.shape, value.stride(), value.device, value.requires_grad


def replaced(problem: Problem, planned: Operands, given: Mapping[str, Any],
             prints: Mapping[str, tuple[Any, ...] | None]) -> Operands:  # fmt: skip
    """The planned operands with others in their places; refuses any that differ in more than address and values."""
    found: dict[str, Matrix] = {}
    known = named(planned)
    for name, value in given.items():
        if value is None or (name == "c" and problem.beta == 0):
            continue
        if name not in known:
            raise UsageError(f"the plan has no {name}", f"make a plan with {name}")
        found[name] = _like(known[name], value, prints.get(name))
    return replace(planned, **found)


def _like(planned: Matrix, value: Any, known: tuple[Any, ...] | None) -> Matrix:
    """``value`` as an operand, if it is like the one that was planned."""
    if known is not None and fingerprint(value) == known:
        address = value.data_ptr()
    else:
        shaped = value.reshape(1, -1) if planned.name == "bias" and getattr(value, "ndim", 0) == 1 else value
        other = matrix(planned.name, shaped)
        _check_like(planned, other)
        address, value = other.address, other.owner
    if planned.on_gpu and (address - planned.address) % _GRANULE:
        raise ProblemError(
            f"{planned.name} lies {address % _GRANULE} bytes past a multiple of {_GRANULE}, and the plan is for "
            f"{planned.address % _GRANULE}", "make a plan for it, or copy it to memory that is aligned alike",
        )  # fmt: skip
    return replace(planned, owner=value, address=address)


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
