"""gemmsmith learn and gemmsmith worklogs on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_output import Say

from gemmsmith.cli import learn_grading
from gemmsmith.learn.task import task_named, tasks


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, progress of one's own, a narrow terminal, and quick grades."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMMSMITH_LEARN", str(tmp_path / "progress" / "learn.json"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(learn_grading, "_BUDGET", 0.0)
    return tmp_path


def fits(text: str) -> bool:
    """Whether every line fits into 80 columns; commands are not wrapped, so that they can be copied."""
    commands = ("next: ", "look: ", "see it move: ", "  $ ")
    return all(len(line) <= 80 for line in text.splitlines() if not line.startswith(commands))


def test_the_overview_names_every_task_and_the_first_step(say: Say) -> None:
    said = say("learn")
    assert said.code == 0
    assert all(task.name in said.out and task.title in said.out for task in tasks())
    assert said.out.rstrip().endswith("next: gemmsmith learn start coalesce")
    assert fits(said.out)


@pytest.mark.parametrize("name", [task.name for task in tasks()])
def test_start_says_everything_and_writes_the_file(say: Say, name: str, own_place: Path) -> None:
    said = say("learn", "start", name)
    task = task_named(name)
    assert said.code == 0
    assert (own_place / f"{name}.cu").read_text() == task.start
    plain = " ".join(said.out.split())
    for text in (*task.idea, task.todo, *(goal.quantity.meaning for goal in task.goals)):
        assert text in plain
    assert all(goal.bound in plain for goal in task.goals)
    assert f"next: gemmsmith learn grade {name}.cu" in said.out
    assert "solution" not in said.out.lower()
    assert fits(said.out)


def test_an_answer_is_not_overwritten(say: Say, own_place: Path) -> None:
    (own_place / "race.cu").write_text("mine")
    assert "was not changed" in say("learn", "start", "race").out
    assert (own_place / "race.cu").read_text() == "mine"
    say("learn", "start", "race", "--force")
    assert (own_place / "race.cu").read_text() == task_named("race").start
    assert say("learn", "start", "race", "no/such/folder").code == 2
    (own_place / "swizzle.cu").mkdir()
    assert say("learn", "start", "swizzle").code == 2


def test_a_wrong_answer_and_a_right_one(say: Say, own_place: Path) -> None:
    say("learn", "start", "race")
    said = say("learn", "grade", "race.cu")
    assert said.code == 1
    assert "races" in said.out
    assert "race.cu:" in said.out  # the lines of the source
    assert "not passed: the result comes first" in said.out
    assert "next: gemmsmith learn hint race" in said.out
    assert fits(said.out)
    (own_place / "race.cu").write_text(task_named("race").solution)
    said = say("learn", "grade", "race.cu")
    assert said.code == 0
    assert "passed" in said.out.splitlines()
    assert "next: gemmsmith learn start coalesce" in said.out
    found = json.loads(say("learn", "progress", "--json").out)
    race = next(task for task in found["tasks"] if task["name"] == "race")
    assert race["attempts"] == 2
    assert race["passed"]
    assert "passed 20" in say("learn").out
    assert "1 of 10 passed" in say("learn", "progress").out


def test_a_missed_goal_is_explained(say: Say, own_place: Path) -> None:
    (own_place / "mine.cu").write_text(task_named("coalesce").start)
    said = say("learn", "grade", "mine.cu")
    assert said.code == 1
    assert "sectors per global load: 8.50, goal: at most 2.5 (simulated)" in said.out
    assert "2 goals are missing" in said.out
    assert "look: gemmsmith profile mine.cu --lines --device sim --m 64 --n 64 --k 64\n" in said.out
    assert "see it move: gemmsmith view mine.cu --m 64 --n 64 --k 64\n" in said.out
    assert fits(said.out)
    made = json.loads(say("learn", "grade", "mine.cu", "--json").out)
    assert made["passed"] is False
    assert [goal["met"] for goal in made["goals"]] == [False, False]
    assert made["goals"][0]["origin"] == "simulated"


def test_hints_come_one_by_one_and_the_solution_when_asked_for(say: Say) -> None:
    task = task_named("stage")
    for count in (1, 2, 3, 3):
        said = say("learn", "hint", "stage")
        assert said.out.count("Hint ") == count
        assert task.solution not in said.out
        assert fits(said.out)
    assert "--solution" in said.out
    said = say("learn", "hint", "stage", "--solution")
    assert task.solution in said.out
    found = json.loads(say("learn", "hint", "stage", "--json").out)
    assert found["hints"] == list(task.hints)
    assert "3 of 3, solution" in say("learn", "progress").out


def test_options_before_and_after_the_subcommand(say: Say, own_place: Path) -> None:
    other = own_place / "other.json"
    assert json.loads(say("learn", "--json", "--progress", str(other), "hint", "race").out)["of"] == 3
    assert other.exists()
    assert json.loads(say("learn", "progress", "--json", "--progress", str(other)).out)["tasks"][2]["hints_seen"] == 1


def test_damaged_progress_is_said_and_in_nobodys_way(say: Say, own_place: Path) -> None:
    file = own_place / "progress" / "learn.json"
    file.parent.mkdir()
    file.write_text("{broken")
    said = say("learn")
    assert said.code == 0
    assert "is damaged" in said.err
    assert file.read_text() == "{broken"
    said = say("learn", "hint", "race")
    assert said.code == 0
    assert "learn.json.damaged1" in " ".join(said.err.split())
    assert say("learn").err == ""


@pytest.mark.parametrize(
    "words",
    [("learn", "start", "nosuch"), ("learn", "hint", ""), ("learn", "grade", "none.cu"), ("learn", "nosuch"),
     ("learn", "grade", "."), ("worklogs", "nosuch"), ("worklogs", "--save", "."),
     ("worklogs", "refill", "--save", "no")],
)  # fmt: skip
def test_wrong_use_is_a_message(say: Say, words: tuple[str, ...]) -> None:
    said = say(*words)
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) <= 6
    assert "Traceback" not in said.err


def test_an_answer_that_says_nothing_of_its_task(say: Say, own_place: Path) -> None:
    (own_place / "x.cu").write_text("__global__ void k() {}\n")
    said = say("learn", "grade", "x.cu")
    assert said.code == 2
    assert "--task NAME" in said.err


# --- worklogs


def test_the_ladders_stand_side_by_side(say: Say) -> None:
    said = say("worklogs")
    assert said.code == 0
    assert fits(said.out)
    for text in ("evanking12", "https://github.com/gpusgobrr/explore-gemm", "Simon Boehm", "pranjalssh",
                 "https://github.com/siboehm/SGEMM_CUDA", "published", "predicted", "measured",
                 "an author who is not named"):  # fmt: skip
        assert text in said.out
    found = json.loads(say("worklogs", "--json").out)
    assert len(found["worklogs"]) == 4
    assert len(found["claims"]) == 15


def test_one_claim_is_run_and_shown(say: Say) -> None:
    said = say("worklogs", "occupancy")
    assert said.code == 0
    assert "  $ gemmsmith occupancy eight_kilobytes.cu --gpu 4090\n" in said.out
    assert "Shared memory allows 11 blocks per SM" in said.out
    assert "gemmsmith worklogs occupancy --save ." in said.out
    assert fits(said.out)
    found = json.loads(say("worklogs", "gflops", "--json").out)["claims"]
    assert found[0]["ok"] is True
    assert round(found[0]["sums"][0]["value"]) == 5068


def test_a_claim_that_no_longer_shows_fails(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "eight_kilobytes.cu").write_text(
        "__global__ void __launch_bounds__(64) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "    if (threadIdx.x < N) C[threadIdx.x] = A[0] * B[0];\n}\n"
        "void launch(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "    sgemm<<<1, 64>>>(A, B, C, M, N, K);\n}\n"
    )
    monkeypatch.setattr("gemmsmith.cli.worklog_evidence.KERNELS", tmp_path)
    said = say("worklogs", "occupancy")
    assert said.code == 1
    assert "not shown: no 'Shared memory allows 11 blocks per SM'" in " ".join(said.out.split())


def test_kernels_are_written_and_nothing_is_overwritten(say: Say, own_place: Path) -> None:
    assert say("worklogs", "refill", "--save", ".").code == 0
    assert (own_place / "refilled_buffer.cu").is_file()
    assert say("worklogs", "refill", "--save", ".").code == 0  # the same text
    (own_place / "refilled_buffer.cu").write_text("mine")
    said = say("worklogs", "refill", "--save", ".")
    assert said.code == 2
    assert "another file" in said.err
    assert (own_place / "refilled_buffer.cu").read_text() == "mine"
    assert "no kernel" in say("worklogs", "gflops", "--save", ".").out
