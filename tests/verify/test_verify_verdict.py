"""The verdict: ok is derived, JSON is strict, and the repeat line is complete."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
from test_verify_fakes import make_spec

from gemmsmith.kernel.config import Parameter
from gemmsmith.problem import BF16, FP32, Problem
from gemmsmith.run.memory import Damage
from gemmsmith.verify.verdict import Verdict, repeat_command

GOOD = Verdict(
    kernel="k", config="BM=8", problem=Problem(2, 2, 2), device="d", mode="float", fill="normal", seed=1, rho=1.0,
    gate=16.0, theory=4.0, where=(0, 1), got=1.0, expected=1.0, unwritten=0, wrong=0, total=4, mistrusted=False,
    reasons=(), damage=(), repeat="gemmsmith run k",
)  # fmt: skip
DAMAGE = Damage("C", "after", 16, 4, -1, -1)


def test_a_good_verdict() -> None:
    assert GOOD.ok
    assert GOOD.trusted
    assert "rho 1.00 of 16 (theory 4)" in str(GOOD)


@pytest.mark.parametrize(
    "changes",
    [{"rho": math.nan}, {"rho": 16.1}, {"rho": math.inf}, {"gate": math.nan}, {"reasons": ("bad",)},
     {"damage": (DAMAGE,)}, {"unwritten": 1}, {"wrong": 1}],
    ids=str,
)  # fmt: skip
def test_anything_wrong_is_not_ok(changes: dict[str, Any]) -> None:
    verdict = dataclasses.replace(GOOD, **changes)
    assert not verdict.ok
    assert str(verdict).startswith("WRONG")
    assert str(verdict).endswith("repeat: gemmsmith run k")


def test_ok_is_derived_and_the_verdict_is_frozen() -> None:
    for name in ("ok", "rho", "reasons"):
        with pytest.raises(AttributeError):
            setattr(GOOD, name, True)
    with pytest.raises(TypeError):
        dataclasses.replace(GOOD, ok=True)  # type: ignore[call-arg]


def test_mistrusted_is_ok_but_not_trusted() -> None:
    verdict = dataclasses.replace(GOOD, mistrusted=True)
    assert verdict.ok
    assert not verdict.trusted
    assert str(verdict).startswith("MISTRUSTED")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5])
def test_json_is_strict(value: float) -> None:
    verdict = dataclasses.replace(
        GOOD, rho=value, got=value, expected=None, where=None, damage=(DAMAGE,), problem=Problem(1, 1, 1, alpha=value)
    )  # fmt: skip
    text = json.dumps(verdict.to_json(), allow_nan=False)
    back = json.loads(text)
    assert back["rho"] == (value if math.isfinite(value) else str(value))
    assert back["problem"]["alpha"] == back["rho"]
    assert back["where"] is back["expected"] is None
    assert back["damage"][0]["text"] == str(DAMAGE)
    assert back["ok"] is False


@pytest.mark.parametrize(
    ("problem", "options", "tail"),
    [
        (Problem(65, 63, 17, alpha=0.7), {"seed": 3}, "--m 65 --n 63 --k 17 --seed 3 --alpha=0.7"),
        (Problem(1, 2, 3), {}, "--m 1 --n 2 --k 3 --seed 0"),
        (Problem(1, 2, 3, beta=-0.0), {}, "--m 1 --n 2 --k 3 --seed 0 --beta=-0.0"),
        (Problem(1, 2, 3, alpha=-math.inf, beta=math.nan), {}, "--alpha=-inf --beta=nan"),
        (Problem(1, 2, 3, alpha=2.0**-130), {}, "--alpha=7.34684e-40"),
        (Problem(1, 2, 3, lda=9, ldb=8, ldc=7), {}, "--lda 9 --ldb 8 --ldc 7"),
        (Problem(1, 2, 3, BF16, trans_a=True, trans_b=True), {}, "--dtype bf16 --trans-a --trans-b"),
        (Problem(1, 2, 3), {"offsets": (1, 0, 2)}, "--offsets 1,0,2"),
        (Problem(1, 2, 3), {"fill": "wide"}, "--fill wide"),
        (Problem(1, 2, 3), {"mode": "exact", "fill": "integers"}, "--fill integers --mode exact"),
    ],
)
def test_the_repeat_line(tmp_path: Path, problem: Problem, options: dict[str, Any], tail: str) -> None:
    spec = make_spec(tmp_path)
    settings: dict[str, Any] = {"fill": "normal", "seed": 0, "offsets": (0, 0, 0), "mode": "float"} | options
    line = repeat_command(spec, spec.config(), problem, **settings)
    assert line.startswith("gemmsmith run fake --m ")
    assert line.endswith(tail)


def test_the_repeat_line_names_changed_parameters(tmp_path: Path) -> None:
    parameters = (Parameter("BM", 64, (32, 64), ""), Parameter("BK", 8, (8, 16), ""))
    spec = make_spec(tmp_path, parameters=parameters, dtypes=(BF16, FP32))
    line = repeat_command(spec, spec.config({"BM": 32}), Problem(1, 1, 1), "normal", 0, (0, 0, 0), "float")
    assert line == "gemmsmith run fake -DBM=32 --m 1 --n 1 --k 1 --seed 0 --dtype fp32"


ROLES = ("M", "N", "K", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc")


def test_the_repeat_line_of_a_file_quotes_its_path_and_has_the_declared_signature(tmp_path: Path) -> None:
    folder = tmp_path / "my kernels"
    folder.mkdir()
    spec = make_spec(folder, rung=0, extra_defines=(("TILE", "16"),), declared_signature=",".join(ROLES))
    line = repeat_command(spec, spec.config(), Problem(1, 1, 1), "normal", 0, (0, 0, 0), "float")
    assert shlex.split(line)[2:8] == [
        str(folder / "fake.cu"), "--entry", "gemm", "-DTILE=16", "--signature", ",".join(ROLES),
    ]  # fmt: skip


def test_the_scalar_in_the_repeat_line_gives_the_same_problem(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    for alpha in (0.1, 1 / 3, 1e-45, 3.4e38, 16777217.0):
        problem = Problem(1, 1, 1, alpha=alpha)
        line = repeat_command(spec, spec.config(), problem, "normal", 0, (0, 0, 0), "float")
        assert Problem(1, 1, 1, alpha=float(line.split("--alpha=")[1])) == problem


def test_the_repeat_line_ends_with_the_launch_options(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, rung=0)
    words = ("--grid", "ceil(N/8), 1", "--c", "zero")
    line = repeat_command(spec, spec.config(), Problem(1, 1, 1), "wide", 0, (0, 0, 0), "float", words)
    assert shlex.split(line)[-6:] == ["--fill", "wide", *words]
