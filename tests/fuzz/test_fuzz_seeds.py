"""Generated kernels of the fixed list: correct ones are accepted as what they are, mutants are caught or equivalent."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import Case, listed
from generated.recipe import Recipe

from fuzz import run_case


def _names(cases: list[Case]) -> list[str]:
    return [f"{number}-{case.name}" for number, case in enumerate(cases)]


QUICK, ALL = listed("quick"), listed("all")


@pytest.mark.parametrize("case", QUICK, ids=_names(QUICK))
def test_a_few_seeds(case: Case, tmp_path: Path) -> None:
    result = run_case(case, tmp_path)
    assert not result.failed, f"{result.outcome.judged}: {result.outcome.summary}\n{case.toml()}"


@pytest.mark.parametrize("case", ALL, ids=_names(ALL))
def test_the_fixed_list(case: Case, tmp_path: Path) -> None:
    result = run_case(case, tmp_path)
    assert not result.failed, f"{result.outcome.judged}: {result.outcome.summary}\n{case.toml()}"


def test_a_wrong_kernel_that_is_called_correct_fails_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list can fail: a mutant whose fault is not told is a false accusation."""
    broken = Case(Recipe(), "the sum is overwritten").generated()
    plain = Case(Recipe())
    monkeypatch.setattr(Case, "generated", lambda _: type(broken)(**{**vars(broken), "fault": None}))
    assert run_case(plain, tmp_path).outcome.judged == "false accusation"
