"""How a cause is reported, where its change may lie, and that the search keeps to its time."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

from faulty_kernel import Faulty, checked
from faulty_races import BARRIER, TILED

from gemmsmith.cli.app import app
from gemmsmith.cli.render.check_json import report_json
from gemmsmith.cure import search
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, Edit, applied, carried_back, unified
from gemmsmith.cure.fault import Access, Fault, Race
from gemmsmith.cure.search import Outcome, find_cure
from gemmsmith.cure.slots import parting
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.verify.trials.trial import Trial

RACING = TILED % (BARRIER, "")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    path = tmp_path_factory.mktemp("cure") / "kernel.cu"
    path.write_text(RACING)
    result = CliRunner().invoke(app, ["check", str(path), "--format", "sarif", "--cures", "60"])
    assert result.exit_code == 1
    return json.loads(result.output)  # type: ignore[no-any-return]


def test_sarif_has_a_fix_that_an_editor_can_apply(document: dict[str, object]) -> None:
    first = document["runs"][0]["results"][0]  # type: ignore[index]
    part = first["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert part["insertedContent"]["text"] == "        __syncthreads();\n"
    lines = RACING.split("\n")
    at = part["deletedRegion"]["startLine"] - 1
    mended = "\n".join([*lines[:at], part["insertedContent"]["text"].rstrip("\n"), *lines[at:]])
    assert mended == TILED % (BARRIER, BARRIER)
    assert "Cause: no barrier between" in first["message"]["text"]


def test_text_and_json_say_the_same(tmp_path: Path) -> None:
    report = checked(Faulty("", RACING, ""), tmp_path)
    cause = report.causes[0]
    assert report_json(report)["causes"] == [cause.to_json()]
    assert cause.sentence.startswith(
        "Cause: no barrier between the read in line 13 and the write in line 10 in the next"
    )
    assert "Insert `__syncthreads();` after line 13 (tried in a copy: all " in cause.sentence
    assert "+        __syncthreads();" in cause.diff


def test_no_cause_without_time_for_it(tmp_path: Path) -> None:
    assert checked(Faulty("", RACING, ""), tmp_path, seconds=0.0).causes == ()


def test_the_change_may_lie_in_a_header(tmp_path: Path) -> None:
    kernel, _, host = RACING.partition("void launch")
    (tmp_path / "tile.cuh").write_text(kernel)
    report = checked(Faulty("", f'#include "tile.cuh"\nvoid launch{host}', ""), tmp_path)
    assert [part.file.name for part in report.causes[0].replacements] == ["tile.cuh"]
    assert (tmp_path / "tile.cuh").read_text() == kernel


# --- the search itself, without a simulator

SOURCE = """__global__ void k(float* C) {
    __shared__ float s[64];
    for (int i = 0; i < 4; ++i) {
        s[threadIdx.x] = i;  // store
        C[0] = s[63 - threadIdx.x];
    }
}
"""


def _program() -> Program:
    return Program((Code(Path("k.cu"), SOURCE),), "k", {"C": "C"})


def _race(first: int, second: int) -> Race:
    return Race(Access("write", ("k.cu", first)), Access("read", ("k.cu", second)), True, False, False, False)


class _Bench:
    """Cured as soon as ``needed`` texts are in the copy; ``left`` is the fault until then."""

    def __init__(self, needed: list[str], left: dict[int, Fault]) -> None:
        self.needed, self.left, self.tries = needed, left, 0

    def fails(self, edited: Edited, _trial: Trial | None = None) -> Outcome | None:
        self.tries += 1
        found = sum(text in edited[0][1] for text in self.needed)
        return Outcome(found == len(self.needed), self.left.get(found))

    def whole_check(self, edited: Edited) -> Outcome | None:
        return replace(self.fails(edited) or Outcome(False), tried="all 3 trials pass")


def test_a_partial_cure_is_completed_by_a_second_change() -> None:
    races = Fault("race", (_race(4, 5), _race(5, 4)))
    rest = Fault("race", (_race(5, 4),))
    bench = _Bench(["i; __syncthreads();  // store", "x]; __syncthreads();"], {0: races, 1: rest})
    found = find_cure(_program(), Fault("race", (_race(4, 5),)), bench, 5.0)
    assert found is None  # nothing of the first fault alone leads to the second barrier
    found = find_cure(_program(), races, bench, 5.0)
    assert found is not None
    assert [part.start[0] for part in found.replacements] == [5, 6]
    assert found.diff.count("+        __syncthreads();") == 2


def test_nothing_is_named_that_fails_another_trial() -> None:
    bench = _Bench(["__syncthreads();"], {})
    bench.whole_check = lambda _: Outcome(False)  # type: ignore[method-assign]
    assert find_cure(_program(), Fault("race", (_race(4, 5),)), bench, 5.0) is None
    assert bench.tries > 0


def test_no_try_begins_after_the_time_is_up() -> None:
    bench = _Bench(["never"], {})
    assert find_cure(_program(), Fault("race", (_race(4, 5),)), bench, -1.0) is None
    assert bench.tries == 0


def test_whole_checks_put_the_end_off_as_far_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(search, "seconds_used", lambda: clock[0])

    class Slow(_Bench):
        """Cured by anything, until a whole check of three seconds says otherwise."""

        def fails(self, edited: Edited, trial: Trial | None = None) -> Outcome | None:
            clock[0] += 1.0
            super().fails(edited, trial)
            return Outcome(True)

        def whole_check(self, _edited: Edited) -> Outcome | None:
            clock[0] += 3.0
            return Outcome(False)

    tries = {}
    for at_most in (2.0, 5.5, math.inf):
        bench, clock[0] = Slow([], {}), 0.0
        assert find_cure(_program(), Fault("race", (_race(4, 5), _race(5, 4))), bench, 2.5, at_most) is None
        tries[at_most] = bench.tries
    assert tries[2.0] == 1
    assert tries[5.5] == 2
    assert tries[math.inf] > 2


def test_a_barrier_of_the_same_iteration_and_of_the_next_one() -> None:
    program = _program()
    found = parting(program, ("k.cu", 4), ("k.cu", 5))
    assert [(slot.after_line, slot.is_weak) for slot in found] == [(4, False), (5, True), (3, True)]
    assert parting(program, ("k.cu", 5), ("k.cu", 4))[0].after_line == 5


def test_a_copy_keeps_its_line_numbers() -> None:
    program = _program()
    slot = parting(program, ("k.cu", 4), ("k.cu", 5))[0]
    edits = (slot.insertion("__syncthreads();"),)
    tried, shown = applied(edits, program.files)[0][1], applied(edits, program.files, shown=True)[0][1]
    assert len(tried.split("\n")) == len(SOURCE.split("\n")) == len(shown.split("\n")) - 1
    assert unified(edits, program.files).split("\n")[-2] == "+        __syncthreads();"


def test_an_edit_of_a_copy_is_carried_back() -> None:
    path = Path("k.cu")
    made = (Edit(path, 10, 12, "abcdef"),)
    assert carried_back(Edit(path, 4, 6, "x"), made) == Edit(path, 4, 6, "x")
    assert carried_back(Edit(path, 20, 21, "x"), made) == Edit(path, 16, 17, "x")
    assert carried_back(Edit(path, 12, 13, "x"), made) is None
    assert Candidate("", "", "", (*made, Edit(path, 11, 13, ""))).clashes
