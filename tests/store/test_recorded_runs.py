"""The record in the package: a reduced copy that shows the same figures as the full one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.problem import BF16, Problem
from gemmsmith.report.method import _facts
from gemmsmith.store.recorded import as_text, expanded, recorded_runs, reduced
from gemmsmith.store.results import Run
from gemmsmith.store.run_file import run_from_json

ROOT = Path(__file__).parents[2]
FULL = ROOT / "benchmarks" / "results" / "h200_ladder.json"


@cache
def full() -> Run:
    (run,) = json.loads(FULL.read_text(encoding="utf-8"))["runs"]
    return run_from_json(run)


def test_the_page_shows_the_same_of_both() -> None:
    (small,) = recorded_runs()
    shown, wanted = _facts("recorded", small), _facts("recorded", full())
    assert shown.facts == wanted.facts
    assert sorted(shown.table.rows) == sorted(wanted.table.rows)


def test_shares_of_cublas_are_the_same() -> None:
    (small,) = recorded_runs()

    def ratios(run: Run) -> dict[tuple[object, ...], float]:
        return {(m.identity.name, m.problem): m.ratio("cublas") for m in run.measurements}

    found, wanted = ratios(small), ratios(full())
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert math.isclose(found[key], value, rel_tol=1e-5) or (math.isnan(found[key]) and math.isnan(value))


def test_reducing_twice_changes_nothing() -> None:
    text = as_text(reduced(full()))
    assert as_text(reduced(expanded(json.loads(text)))) == text


def test_only_plain_products_are_kept() -> None:
    one = full().measurements[0]
    other = replace(one, problem=Problem(64, 64, 64, BF16, BF16))
    with pytest.raises(UsageError, match="only plain C = AB"):
        reduced(replace(full(), measurements=(other,)))


def test_simulated_results_are_not_kept() -> None:
    one = replace(full().measurements[0], origin="simulated")
    with pytest.raises(UsageError, match="only measured"):
        reduced(replace(full(), measurements=(one,)))


def test_no_data_file_is_in_the_tree_twice() -> None:
    seen: dict[bytes, Path] = {}
    for folder in ("benchmarks", "docs", "src", "tests"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".json", ".jsonl", ".csv", ".gz", ".npz", ".png", ".svg"):
                content = file.read_bytes()
                assert content not in seen, f"{file} is a copy of {seen[content]}"
                seen[content] = file
