"""Operands of a product in guarded memory: what a launch may read and write, and what it damaged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import LaunchPlan, plan_launches
from gemmsmith.call.pointer_tables import pointer_tables
from gemmsmith.fills import Array, Operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import DType, Problem, ceil_div
from gemmsmith.run.device import Device
from gemmsmith.run.memory import POISON, Damage, GuardedMatrix
from gemmsmith.verify.batch_memory import batch_gaps, gap_rows, with_gaps, without_gaps
from gemmsmith.verify.element_names import Operand

UNREAD_C = "must not be read when beta = 0"

NAN_FILLS = ("unset", "nan")  # of C, if beta is 0; only the second may be read


def run_guarded(
    device: Device,
    spec: KernelSpec,
    config: Config,
    problem: Problem,
    data: Operands,
    offsets: tuple[int, int, int],
    guard_bytes: int,
    c_fill: str,
    start: Callable[[LaunchPlan, Addresses, int], None],
    seen: Callable[[Operand], None] = lambda _: None,
) -> tuple[Array, tuple[Damage, ...]]:
    """C after the launch, and all damage; the memory is always freed."""

    def matrix(name: str, shape: tuple[int, int], ld: int, dtype: DType, offset: int) -> GuardedMatrix:
        made = stack.enter_context(
            GuardedMatrix.create(device, shape, ld, dtype, offset, name=name, guard_bytes=guard_bytes)
        )
        swapped = not spec.is_rung and spec.signature.column_major
        rows, columns = shape[::-1] if swapped else shape
        seen(Operand(name, made.address, rows, columns, ld, dtype.itemsize, swapped))
        return made

    with ExitStack() as stack:
        # The matrices of a batch are stacked by rows.
        named = spec.signature.named if not spec.is_rung else str
        spare = spare_bytes(spec, problem)
        gaps, own = batch_gaps(problem), data.c
        data = replace(data, a=with_gaps(data.a, problem.a_shape[0], gaps[0]),
                       b=with_gaps(data.b, problem.b_shape[0], gaps[1]),
                       c=with_gaps(own, problem.m, gaps[2]))  # fmt: skip
        in_a, in_b = (_followed_by_zeros(values, spare.get(role, 0) // (ld * values.itemsize))
                      for role, values, ld in (("A", data.a, problem.lda), ("B", data.b, problem.ldb)))  # fmt: skip
        a = matrix(named("A"), in_a.shape, problem.lda, problem.dtype, offsets[0])
        b = matrix(named("B"), in_b.shape, problem.ldb, problem.dtype, offsets[1])
        c = matrix(named(spec.signature.output), data.c.shape, problem.ldc, problem.out_dtype, offsets[2])
        a.upload(in_a)
        b.upload(in_b)
        bias: GuardedMatrix | None = None
        addend: GuardedMatrix | None = None
        if spec.signature.has("D"):  # D = alpha·A·B + beta·C: C is an input, and D is poisoned
            addend = matrix(named("C"), data.c.shape, problem.ldc, problem.out_dtype, 0)
        if data.bias is not None:
            kind = spec.bias_dtype(problem)
            shape = (problem.biases, problem.bias_length)
            bias = matrix("bias", shape, max(1, problem.bias_length), kind, 0)
            bias.upload(data.bias.reshape(shape).astype(kind.numpy))
        _set_c(device, problem, data, c if addend is None else addend, c_fill)
        if addend is not None:
            bias = addend
        if c_fill != "set":
            _forbid_reads(device, problem, a, b)
        addresses = Addresses(a.address, b.address, c.address, bias.address if bias is not None else 0)
        aside: tuple[Damage, ...] = ()
        if problem.m and problem.n and problem.batch:
            binding.check_simulated(device, spec, problem)
            addresses = stack.enter_context(pointer_tables(device, spec.signature, problem, addresses))
            plan = plan_launches(spec, config, problem, addresses, tables=True)
            needed = ceil_div(plan.workspace_bytes, problem.dtype.itemsize)
            workspace = matrix("workspace", (1, needed), needed, problem.dtype, 0) if needed else None
            beside = workspace.address if workspace is not None else 0
            for each in plan.scratch if workspace is not None else ():
                count = each.array.nbytes // each.array.itemsize
                seen(Operand(each.array.name, beside + each.offset, 0, count, count, each.array.itemsize))
            start(plan, addresses, beside)
            aside = workspace.damage(is_input=False) if workspace is not None else ()
        inputs = a.damage(is_input=True) + b.damage(is_input=True)
        inputs += bias.damage(is_input=True) if bias is not None else ()
        after = c.read_back(is_input=False)
        values, between = without_gaps(after.values, problem.m, gaps[2])
        if between.size and not _untouched(problem, data.c, between, c_fill, spec.signature.has("D")):
            row = problem.m  # of C as it lies in memory
            aside += (Damage(named(spec.signature.output), "padding", row * problem.ldc, between.nbytes, row, 0),)
        return values, inputs + after.damage + aside


def spare_bytes(spec: KernelSpec, problem: Problem) -> dict[str, int]:
    """How many zeros follow A and B, for a kernel whose host code pads them (``UserLaunch.padded_as_allocated``)."""
    if not getattr(spec.geometry, "padded", False):
        return {}
    found: dict[str, int] = spec.geometry.spare(problem)  # type: ignore[attr-defined]
    return found


def _untouched(problem: Problem, before: Array, between: Array, c_fill: str, poisoned: bool) -> bool:
    """Whether the rows between the matrices of a batch hold what they held before the launch."""
    word = np.dtype(f"<u{problem.out_dtype.itemsize}")
    found = np.ascontiguousarray(between).view(word)
    if poisoned or (problem.beta == 0 and c_fill in NAN_FILLS):
        return bool((found == POISON[problem.out_dtype.name]).all())
    return bool((found == np.ascontiguousarray(gap_rows(before, 1)).view(word)[0, 0]).all())


def _followed_by_zeros(values: Array, rows: int) -> Array:
    return np.concatenate([values, np.zeros((rows, values.shape[1]), values.dtype)]) if rows else values


def _set_c(device: Device, problem: Problem, data: Operands, c: GuardedMatrix, c_fill: str) -> None:
    if problem.beta != 0 or c_fill not in NAN_FILLS:
        c.upload(data.c)
    elif c_fill == "unset":
        device.forbid_reads(c.address, f"{c.name} {UNREAD_C}")


def _forbid_reads(device: Device, problem: Problem, a: GuardedMatrix, b: GuardedMatrix) -> None:
    """As in BLAS, A and B must not be read if there is no product."""
    if problem.alpha == 0 or problem.k == 0:
        why = "alpha = 0" if problem.alpha == 0 else "K = 0"
        device.forbid_reads(a.address, f"{a.name} must not be read when {why}")
        device.forbid_reads(b.address, f"{b.name} must not be read when {why}")
