"""Operands of a product in guarded memory: what a launch may read and write, and what it damaged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

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
from gemmsmith.verify.faults.element_names import Operand
from gemmsmith.verify.old_c import passing_old_c

UNREAD_C = "must not be read when beta = 0"

NAN_FILLS = ("unset", "nan")  # of C, if beta is 0; only the second may be read


@dataclass(frozen=True)
class _GuardedMemory:
    """Places matrices for one launch, freed with ``stack``, and tells ``seen`` of each."""

    device: Device
    spec: KernelSpec
    guard_bytes: int
    seen: Callable[[Operand], None]
    stack: ExitStack

    def matrix(self, name: str, shape: tuple[int, int], ld: int, dtype: DType, offset: int = 0) -> GuardedMatrix:
        made = self.stack.enter_context(
            GuardedMatrix.create(self.device, shape, ld, dtype, offset, name=name, guard_bytes=self.guard_bytes)
        )
        swapped = not self.spec.is_rung and self.spec.signature.column_major
        rows, columns = shape[::-1] if swapped else shape
        self.seen(Operand(name, made.address, rows, columns, ld, dtype.itemsize, swapped))
        return made

    def input(self, name: str, values: Array, ld: int, dtype: DType, offset: int = 0) -> GuardedMatrix:
        made = self.matrix(name, (values.shape[0], values.shape[1]), ld, dtype, offset)
        made.upload(values)
        return made


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
    launches: int = 1,
) -> tuple[Array, tuple[Damage, ...]]:
    """C after the launch, and all damage; the memory is always freed. Of several ``launches`` each finds the same C."""
    with ExitStack() as stack:
        memory = _GuardedMemory(device, spec, guard_bytes, seen, stack)
        named = spec.signature.named if not spec.is_rung else str
        # The matrices of a batch are stacked by rows.
        gaps = batch_gaps(problem)
        data = replace(data, a=with_gaps(data.a, problem.a_shape[0], gaps[0]),
                       b=with_gaps(data.b, problem.b_shape[0], gaps[1]),
                       c=with_gaps(data.c, problem.m, gaps[2]))  # fmt: skip
        spare = spare_bytes(spec, problem)
        a, b = (memory.input(named(role), _followed_by_zeros(values, spare.get(role, 0) // (ld * values.itemsize)), ld,
                             problem.dtype, offset)
                for role, values, ld, offset in (("A", data.a, problem.lda, offsets[0]),
                                                 ("B", data.b, problem.ldb, offsets[1])))  # fmt: skip
        output = named(spec.signature.output)
        c = memory.matrix(output, data.c.shape, problem.ldc, problem.out_dtype, offsets[2])
        has_d = spec.signature.has("D")  # D = alpha·A·B + beta·C: C is an input, and D is poisoned
        bias = old_c = None
        if has_d:
            old_c = memory.matrix(named("C"), data.c.shape, problem.ldc, problem.out_dtype)
            if c_fill == "zero":  # as host code leaves the result to a kernel that adds to it
                c.upload(np.zeros_like(data.c))
        if data.bias is not None:
            kind = spec.bias_dtype(problem)
            values = data.bias.reshape(problem.biases, problem.bias_length).astype(kind.numpy)
            bias = memory.input("bias", values, max(1, problem.bias_length), kind)
        _set_c(device, problem, data, c if old_c is None else old_c, c_fill)
        if c_fill != "set":
            _forbid_reads(device, problem, a, b)
        beside_c = next((each.address for each in (bias, old_c) if each is not None), 0)
        addresses = Addresses(a.address, b.address, c.address, beside_c)
        both = bias is not None and old_c is not None
        added = old_c.address if both and old_c is not None else 0

        def started(plan: LaunchPlan, places: Addresses, workspace: int) -> None:
            image = c.held() if launches > 1 else None
            start(plan, places, workspace)
            for _ in range(launches - 1):
                assert image is not None
                c.hold(image)
                start(plan, places, workspace)

        beside = _launched(memory, config, problem, addresses, started, added)
        inputs = tuple(
            each for matrix in (a, b, bias, old_c) if matrix is not None for each in matrix.damage(is_input=True)
        )
        after = c.read_back(is_input=False)
        result, between = without_gaps(after.values, problem.m, gaps[2])
        if between.size and not _untouched(problem, data.c, between, c_fill, has_d):
            row = problem.m  # of C as it lies in memory
            beside += (Damage(output, "padding", row * problem.ldc, between.nbytes, row, 0),)
        return result, inputs + after.damage + beside


def _launched(
    memory: _GuardedMemory, config: Config, problem: Problem, addresses: Addresses,
    start: Callable[[LaunchPlan, Addresses, int], None], old_c: int,
) -> tuple[Damage, ...]:  # fmt: skip
    """Launch what the product takes, with its workspace; damage of that."""
    if not (problem.m and problem.n and problem.batch):
        return ()
    binding.check_simulated(memory.device, memory.spec, problem)
    addresses = memory.stack.enter_context(pointer_tables(memory.device, memory.spec.signature, problem, addresses))
    plan = passing_old_c(plan_launches(memory.spec, config, problem, addresses, tables=True), old_c)
    needed = ceil_div(plan.workspace_bytes, problem.dtype.itemsize)
    if not needed:
        start(plan, addresses, 0)
        return ()
    workspace = memory.matrix("workspace", (1, needed), needed, problem.dtype)
    for each in plan.scratch:
        count = each.array.nbytes // each.array.itemsize
        memory.seen(Operand(each.array.name, workspace.address + each.offset, 0, count, count, each.array.itemsize))
    start(plan, addresses, workspace.address)
    return workspace.damage(is_input=False)


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
