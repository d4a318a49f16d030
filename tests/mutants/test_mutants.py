"""Every mutant is detected by name: the rung passes a trial, and the mutant fails it for the stated reason."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hopper_catalogue import MISTAKES
from mutant import DETECTORS, Edit, Mutant, Trial, judge, words_of
from mutant_catalogue import MUTANTS, OVERFLOWS, table

from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named, simulated_rungs


def _name(mutant: Mutant) -> str:
    return mutant.name.replace(" ", "-")


@cache
def _complaint(rung: str, config: Config, trial: Trial) -> str:
    """Why the unmutated rung fails a trial; empty if it passes."""
    verdict = judge(rung_named(rung), config, trial)
    return "" if verdict.trusted else str(verdict)


@pytest.mark.parametrize("mutant", MUTANTS, ids=_name)
def test_a_mutant_is_detected_by_name(mutant: Mutant, tmp_path: Path) -> None:
    assert not _complaint(mutant.rung, mutant.chosen, mutant.trial)
    verdict = judge(mutant.write(tmp_path), mutant.chosen, mutant.trial)
    assert not verdict.ok, "the mutant passed"
    said = words_of(verdict)
    assert not mutant.missing(said, tmp_path), said


def test_every_rung_and_every_detector_has_mutants() -> None:
    found = [*(mutant.rung for mutant in MUTANTS), *(mistake.rung for mistake in MISTAKES)]
    assert set(found) == {spec.name for spec in simulated_rungs()}
    assert {mutant.detector for mutant in MUTANTS} == set(DETECTORS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for spec in simulated_rungs():
        least = 3 if spec.name.startswith("fp32_wgmma") else 6  # these two share their loop
        assert not spec.tensor_cores or found.count(spec.name) >= least


def test_an_edit_whose_text_is_gone_fails() -> None:
    assert Edit("f", "x", "y").apply("a x b") == "a y b"
    assert Edit("f", "x", "y", times=2, only=1).apply("x x") == "x y"
    for text in ("a b", "x x"):
        with pytest.raises(AssertionError, match="update the mutant"):
            Edit("f", "x", "y").apply(text)


def test_the_table_has_a_row_for_each_mutant() -> None:
    rows = table().splitlines()
    assert len(rows) == len(MUTANTS) + len(OVERFLOWS) + 2
    assert all(row.count("|") == 6 for row in rows)


def test_the_record_under_compute_sanitizer_has_the_detectors_of_today() -> None:
    """What compute-sanitizer saw was recorded; what ours reports is said by the catalogue."""
    record = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "h200_mutants.json").read_text())
    ours = {mutant.name: mutant.detector for mutant in MUTANTS}
    assert {row["mutant"]: row["ours"] for row in record["rows"]} == {
        row["mutant"]: ours[row["mutant"]] for row in record["rows"]
    }
