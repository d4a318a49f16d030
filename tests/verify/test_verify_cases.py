"""The edge matrix: its coverage, a correct kernel that passes it, and bugs at edges that it finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from test_verify_fakes import GEMM, WORKLOG, FakeCall, FakeDevice, compile_nothing, correct, make_spec

from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div
from gemmsmith.shapes import edge_values
from gemmsmith.verify.cases import SCALARS, Case, edge_cases, tile_of
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

TILE = (Parameter("BM", 8, (8,), ""), Parameter("BN", 16, (16,), ""), Parameter("BK", 4, (4,), ""))


def tiled(tmp_path: Path, source: str = GEMM, **changes: object) -> tuple[KernelSpec, Config]:
    spec = make_spec(tmp_path, source, parameters=TILE, **changes)
    return spec, spec.config()


def verify(spec: KernelSpec, config: Config, case: Case, kernel: Callable[[FakeCall], None]) -> Verdict:
    return verify_launch(
        FakeDevice(kernel, spec), spec, config, case.problem, compile_fn=compile_nothing,
        fill=case.fill, seed=case.seed, offsets=case.offsets, mode=case.mode,
    )  # fmt: skip


@pytest.mark.parametrize("size", ["quick", "full"])
def test_a_correct_kernel_passes_every_case(tmp_path: Path, size: str) -> None:
    spec, config = tiled(tmp_path)
    for case in edge_cases(spec, config, size):
        assert not case.skip
        verdict = verify(spec, config, case, correct)
        assert verdict.trusted, f"{case.label}: {verdict}"


@pytest.mark.parametrize(("size", "fewest", "most"), [("quick", 40, 60), ("full", 180, 240)])
def test_the_number_of_cases(tmp_path: Path, size: str, fewest: int, most: int) -> None:
    cases = list(edge_cases(*tiled(tmp_path), size))
    assert fewest <= len(cases) <= most
    assert [case.seed for case in cases] == list(range(len(cases)))


@pytest.mark.parametrize("size", ["quick", "full"])
def test_what_is_covered(tmp_path: Path, size: str) -> None:
    cases = list(edge_cases(*tiled(tmp_path), size))
    problems = [case.problem for case in cases]
    for name, block in (("m", 8), ("n", 16), ("k", 4)):
        assert set(edge_values(block)) <= {getattr(problem, name) for problem in problems}
    assert 0 in {problem.k for problem in problems}
    for name in ("alpha", "beta"):
        assert {str(getattr(problem, name)) for problem in problems} >= {"0.0", "1.0", "nan", "0.699999988079071"}
    assert any(math.isinf(problem.alpha) for problem in problems)
    assert any(math.isinf(problem.beta) for problem in problems)
    assert {case.fill for case in cases} == {"normal", "integers", "uniform", "wide", "subnormal", "specials"}
    for place in range(3):
        assert any(case.offsets[place] for case in cases)
    for name in ("lda", "ldb", "ldc"):
        assert any(getattr(problem, name) != getattr(problem.with_(), name) for problem in problems)


def test_full_has_every_pair_of_scalars_twice(tmp_path: Path) -> None:
    labels = [case.label for case in edge_cases(*tiled(tmp_path), "full") if case.label.startswith("alpha")]
    assert len(labels) == 2 * len(SCALARS) ** 2
    assert len(set(labels)) == len(SCALARS) ** 2


def test_every_type_and_layout_is_covered(tmp_path: Path) -> None:
    spec, config = tiled(tmp_path, dtypes=(FP32, FP16, BF16), layouts=("NN", "TN"))
    seen = {(case.problem.dtype.name, case.problem.layout) for case in edge_cases(spec, config)}
    assert seen == {(d, layout) for d in ("fp32", "fp16", "bf16") for layout in ("NN", "TN")}


def test_a_kernel_without_scalars_gets_every_shape_and_skips_the_rest(tmp_path: Path) -> None:
    spec, config = tiled(tmp_path, WORKLOG)
    cases = list(edge_cases(spec, config))
    ran, skipped = [c for c in cases if not c.skip], [c for c in cases if c.skip]
    assert set(edge_values(8)) <= {case.problem.m for case in ran}
    assert any("takes no alpha" in case.skip for case in skipped)
    assert any("takes no beta" in case.skip for case in skipped)
    for case in ran:
        assert verify(spec, config, case, correct).trusted


def misses_the_last_row(call: FakeCall) -> None:
    m, n, _ = call.shape
    if m % 8 == 1:
        old = call.view("C", m, n)[-1].copy()
        correct(call)
        call.view("C", m, n)[-1] = old
    else:
        correct(call)


def misses_an_odd_tail_of_k(call: FakeCall) -> None:
    call.values["K"] -= call.values["K"] % 4 == 3
    correct(call)


def needs_alignment(call: FakeCall) -> None:
    correct(call)
    if call.values["B"] % 16:
        call.operands()[2][0, 0] += 1


def reads_c_when_beta_is_minus_zero(call: FakeCall) -> None:
    c = call.operands()[2]
    old = c.copy()
    correct(call)
    if call.values["beta"] == 0 and math.copysign(1, call.values["beta"]) < 0:
        c *= old * 0 + 1


def multiplies_when_alpha_is_zero(call: FakeCall) -> None:
    correct(call)
    if call.values["alpha"] == 0 and call.values["K"]:
        call.operands()[2][:] += 0 * call.operands()[0][0, 0]


def skips_zero_rows_of_b(call: FakeCall) -> None:
    """Zero times infinity must be NaN; skipping zeros loses it."""
    a, _, c = call.operands()
    correct(call)
    c[~(abs(a) < math.inf).all(axis=1)] = 0


def flushes_subnormals(call: FakeCall) -> None:
    correct(call)
    c = call.operands()[2]
    c[abs(c) < 2.0**-126] = 0


def ignores_ldb(call: FakeCall) -> None:
    call.values["ldb"] = call.values["N"]
    correct(call)


EDGE_BUGS = [
    misses_the_last_row, misses_an_odd_tail_of_k, needs_alignment, reads_c_when_beta_is_minus_zero,
    multiplies_when_alpha_is_zero, skips_zero_rows_of_b, flushes_subnormals, ignores_ldb,
]  # fmt: skip


@pytest.mark.parametrize("kernel", EDGE_BUGS, ids=lambda k: k.__name__)
def test_the_quick_matrix_finds_bugs_at_edges(tmp_path: Path, kernel: Callable[[FakeCall], None]) -> None:
    spec, config = tiled(tmp_path)
    verdicts = [verify(spec, config, case, kernel) for case in edge_cases(spec, config)]
    assert any(not verdict.ok for verdict in verdicts)
    assert any(verdict.ok for verdict in verdicts)


def test_the_tile_comes_from_parameters_or_from_the_grid(tmp_path: Path) -> None:
    assert tile_of(*tiled(tmp_path)) == (8, 16, 4)
    assert tile_of(make_spec(tmp_path), Config()) == (16, 32, 8)

    def persistent(_problem: Problem, _config: object) -> Geometry:
        return Geometry((132, 1, 1), (128, 1, 1))

    assert tile_of(make_spec(tmp_path, geometry=persistent), Config())[0] == ceil_div(2**14, 132)


def test_an_unknown_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown size 'huge'"):
        next(edge_cases(*tiled(tmp_path), "huge"))
