"""Causes that check names: the change cures a copy, has the right kind, and belongs to the right line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from faulty_indices import INDICES
from faulty_kernel import Faulty, checked
from faulty_layouts import LAYOUTS
from faulty_pairs import PAIRS
from faulty_pipelines import PIPELINES
from faulty_races import RACES
from faulty_threads import THREADS
from faulty_tiles import TILES
from faulty_values import VALUES
from incurable import INCURABLE

from gemmsmith.cure.suggestion import Suggestion


def changed_lines(cause: Suggestion) -> set[int]:
    """The lines that change; of an inserted line, the one before it."""
    return {part.start[0] - 1 if part.text.endswith("\n") else part.start[0] for part in cause.replacements}


@pytest.mark.parametrize(
    "faulty",
    [f for f in (*RACES, *VALUES, *THREADS, *INDICES, *LAYOUTS, *PAIRS, *PIPELINES, *TILES) if f.kind],
    ids=lambda faulty: faulty.name,
)
def test_the_cause_is_named(faulty: Faulty, tmp_path: Path) -> None:
    report = checked(faulty, tmp_path)
    assert report.failed
    assert len(report.causes) == 1, [reason for _, verdict in report.failed for reason in verdict.reasons]
    cause = report.causes[0]
    assert cause.kind == faulty.kind, cause.sentence
    assert set(faulty.lines) <= changed_lines(cause), cause.sentence
    assert faulty.text in cause.diff
    assert faulty.edits is None or len(cause.replacements) == faulty.edits


@pytest.mark.parametrize("faulty", INCURABLE, ids=lambda faulty: faulty.name)
def test_no_cause_is_named_that_does_not_cure(faulty: Faulty, tmp_path: Path) -> None:
    report = checked(faulty, tmp_path, seconds=10.0)
    assert report.failed
    assert report.causes == (), report.causes[0].sentence
