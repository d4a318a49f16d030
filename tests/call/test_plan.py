"""Plans: gemm prepared once, and other operands in place of the planned ones, on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.errors import DTypeError, GemmsmithError, ProblemError, UsageError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem

F16 = np.float16


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng([seed, *shape])
    return (rng.integers(1, 9, shape) * rng.choice([-1, 1], shape)).astype(dtype)


# --- on the simulator


def test_a_plan_computes_gemm_with_the_current_values() -> None:
    a, b = values(9, 12), values(12, 7, seed=1)
    plan = gemmsmith.plan(a, b, kernel="naive")
    first = plan()
    assert np.array_equal(first, a @ b)
    a *= 2
    b[3] = 5
    assert plan() is first
    assert np.array_equal(first, a @ b)


def test_launches_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Problem] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        planned.append(arguments[2])
        return plan_launches(*arguments, **named)

    monkeypatch.setattr("gemmsmith.call.sim_executor.plan_launches", counted)
    a, b = values(9, 12), values(12, 7, seed=1)
    plan = gemmsmith.plan(a, b, kernel="naive")
    for _ in range(3):
        plan(a, b)
        plan()
    assert len(planned) == 1


@pytest.mark.parametrize(("layout", "activation", "batch"), [("TT", "relu", 0), ("NN", "", 3)])
def test_every_argument_of_gemm(layout: str, activation: str, batch: int) -> None:
    many = (batch,) if batch else ()
    a = values(*many, 9, 16, dtype=F16) if layout[0] == "N" else values(*many, 16, 9, dtype=F16).swapaxes(-1, -2)
    b = values(16, 24, seed=1, dtype=F16) if layout[1] == "N" else values(24, 16, seed=1, dtype=F16).T
    c, bias = values(*many, 9, 24, seed=2, dtype=F16), values(24, seed=3, dtype=F16)
    out = np.full((*many, 9, 30), 77, F16)[..., 2:26]
    sums = 0.5 * (a.astype(np.float32) @ b.astype(np.float32)) - c + bias
    expected = (np.maximum(sums, 0) if activation else sums).astype(F16)
    before = c.copy()
    plan = gemmsmith.plan(a, b, c, out=out, alpha=0.5, beta=-1, bias=bias, activation=activation, out_dtype="fp16")
    for _ in range(2):
        assert plan() is out
        assert np.array_equal(out, expected)
        out[:] = 0
    assert np.array_equal(c, before)


def test_c_in_place_accumulates() -> None:
    a, b, c = values(5, 6), values(6, 4, seed=1), values(5, 4, seed=2)
    expected = c + 2 * (a @ b)
    plan = gemmsmith.plan(a, b, c, beta=1, out=c, kernel="naive")
    plan()
    assert plan() is c
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 5, 0)])
def test_empty_extents(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    plan = gemmsmith.plan(values(m, k), values(k, n), kernel="naive")
    assert plan().shape == (m, n)
    assert not plan().any()


def test_operands_are_replaced_for_one_call() -> None:
    a, b, c, bias = values(9, 12), values(12, 7, seed=1), values(9, 7, seed=2), values(7, seed=3)
    plan = gemmsmith.plan(a, b, c, beta=1, bias=bias, kernel="warp_tile")
    own = plan()
    expected = a @ b + c + bias
    assert np.array_equal(own, expected)
    a2, b2, c2, bias2, out2 = (
        values(9, 12, seed=4),
        values(12, 7, seed=5),
        values(9, 7, seed=6),
        values(7, seed=7),
        own + 1,
    )
    assert plan(a2, b2, c2, bias=bias2, out=out2) is out2
    assert np.array_equal(out2, a2 @ b2 + c2 + bias2)
    assert np.array_equal(own, expected)
    assert plan(b=b2) is own
    assert np.array_equal(own, a @ b2 + c + bias)
    assert np.array_equal(plan(), expected)


def test_attributes_and_repr() -> None:
    a, b = values(5, 3, dtype=F16), values(3, 9, seed=1, dtype=F16)
    spec = replace(rung_named("mma_swizzled"), align_copies=True)
    plan = gemmsmith.plan(a, b, kernel=spec)
    assert (plan.kernel, plan.config, plan.source) == ("mma_swizzled", spec.config(), "given")
    assert plan.launches == 2  # one copies both operands to rows that start on 16 bytes
    assert plan.workspace_bytes == 512
    assert (
        repr(plan)
        == f"<gemmsmith.Plan 5x9x3 fp16: mma_swizzled {spec.config()} (given), 2 launches, workspace of 512 bytes>"
    )
    assert np.array_equal(plan(), a.astype(np.float32) @ b.astype(np.float32))
    chosen = gemmsmith.plan(a, b)
    assert (chosen.source, chosen.workspace_bytes, chosen.launches) == ("default", 0, 1)
    assert isinstance(chosen, gemmsmith.Plan)


def test_config_changes_the_chosen_configuration() -> None:
    a, b = values(5, 3), values(3, 9, seed=1)
    name = gemmsmith.plan(a, b).kernel
    parameter = rung_named(name).presets[-1].config
    plan = gemmsmith.plan(a, b, config=parameter)
    assert (plan.kernel, plan.config) == (name, parameter)
    assert np.array_equal(plan(), a @ b)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


MISMATCHES: dict[str, tuple[Callable[[], dict[str, Any]], type[GemmsmithError], str]] = {
    "shape": (lambda: {"a": values(9, 13)}, ProblemError, "a is 9x13, and the plan is for 9x12"),
    "batch": (lambda: {"a": values(2, 9, 12)}, ProblemError, "a is 2 of 9x12, and the plan is for 9x12"),
    "type": (lambda: {"b": values(12, 7, dtype=F16)}, DTypeError, "b is fp16, and the plan is for fp32"),
    "layout": (lambda: {"b": values(7, 12).T}, ProblemError, "columns 12 elements apart, and the plan is for rows 7"),
    "leading": (lambda: {"out": values(9, 8)[:, :7]}, ProblemError, "out has rows 8 elements apart"),
    "no matrix": (lambda: {"a": [[1.0]]}, DTypeError, "a is a list"),
    "no bias": (lambda: {"bias": values(7)}, UsageError, "the plan has no bias"),
    "read-only": (lambda: {"out": read_only(values(9, 7))}, ProblemError, "out is read-only"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISMATCHES)
def test_an_operand_that_does_not_match_is_refused_and_nothing_changes(case: str) -> None:
    make, kind, message = MISMATCHES[case]
    a, b, out = values(9, 12), values(12, 7, seed=1), np.full((9, 7), 3, np.float32)
    plan = gemmsmith.plan(a, b, out=out, kernel="naive")
    given = make()
    before = {name: np.array(value) for name, value in given.items()}
    with pytest.raises(kind, match=message):
        plan(**given)
    assert (out == 3).all()
    assert all(np.array_equal(given[name], before[name]) for name in given)
    assert np.array_equal(plan(), a @ b)


def test_an_output_that_overlaps_a_planned_operand_is_refused() -> None:
    square = values(8, 8)
    plan = gemmsmith.plan(square, values(8, 8, seed=1), kernel="naive")
    with pytest.raises(ProblemError, match="out overlaps a"):
        plan(out=square)


def test_a_plan_refuses_what_gemm_refuses() -> None:
    with pytest.raises(ProblemError, match="differ"):
        gemmsmith.plan(values(3, 4), values(5, 3))
    with pytest.raises(UsageError, match="needs a matrix c"):
        gemmsmith.plan(values(3, 4), values(4, 3), beta=1)
    gemmsmith.plan(values(3, 4), values(4, 3), alpha=1)
    with pytest.raises(ProblemError, match="alpha must be a real number"):
        gemmsmith.plan(values(3, 4), values(4, 3), alpha=True)  # equal to what was accepted just before
    with pytest.raises(ProblemError, match="alpha"):
        gemmsmith.plan(values(3, 4), values(4, 3), alpha=[1])  # type: ignore[arg-type]
