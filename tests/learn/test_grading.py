"""Answers of ``gemmsmith learn``: every solution passes; what is wrong, slow or cheating does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gemmsmith.cli import learn_grading
from gemmsmith.cli.learn_grading import Graded, find_task, grade_file
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.errors import UsageError
from gemmsmith.learn.task import task_named, tasks

NAMES = [task.name for task in tasks()]
Grade = Callable[[str, str], Graded]


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grade:
    """Grades a text as an answer, without the trials that fit the kernel: tests of check have those."""
    monkeypatch.setattr(learn_grading, "_BUDGET", 0.0)

    def grade(name: str, text: str) -> Graded:
        file = tmp_path / f"{name}.cu"
        file.write_text(text, encoding="utf-8")
        return grade_file(file, task_named(name), CacheOptions())

    return grade


def changed(name: str, *pairs: tuple[str, str], of: str = "solution") -> str:
    """A task's solution with parts of its text replaced; each must be there."""
    text: str = getattr(task_named(name), of)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes(name: str, graded: Grade) -> None:
    found = graded(name, task_named(name).solution).grade
    assert not found.fault
    assert [one.goal.quantity.name for one in found.reached if not one.met] == []
    assert found.passed


@pytest.mark.parametrize("name", NAMES)
def test_the_start_does_not_pass(name: str, graded: Grade) -> None:
    found = graded(name, task_named(name).start).grade
    assert not found.passed
    assert found.fault or any(not one.met for one in found.reached)


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_grade_of_the_solution(name: str, tmp_path: Path) -> None:
    """With all trials that the command runs."""
    file = tmp_path / f"{name}.cu"
    file.write_text(task_named(name).solution, encoding="utf-8")
    before = learn_grading.seconds_used()
    assert grade_file(file, task_named(name), CacheOptions()).grade.passed
    assert learn_grading.seconds_used() - before <= 15


CHEATS = {
    "a result from nowhere": ("coalesce", (("C[row * N + col] = sum;", "C[row * N + col] = 0.0f;"),)),
    "the right loads of the wrong row": ("coalesce", (("A[row * K + k]", "A[k]"),)),
    "right at every shape but the graded one": (
        "coalesce",
        (("float sum = 0.0f;", "float sum = 0.0f;\n    if (M == 64 && N == 64 && K == 64) return;"),),
    ),
    "right at the graded shape alone": (
        "stage",
        (("float sum = 0.0f;", "float sum = M == 64 && N == 64 && K == 64 ? 0.0f : 1.0f;"),),
    ),
    "no barrier at all": ("stage", (("        __syncthreads();\n", ""),)),
    "a buffer that is still being read": ("pipeline", (("next = 1 - now;", "next = now;"),)),
    "sums that get lost": ("split_k", (("atomicAdd(&C[row * N + col], sum)", "C[row * N + col] += sum"),)),
    "a swizzle that the reader does not know": ("swizzle", (("As[k][(y + 8 * i) ^ k]", "As[k][y + 8 * i]"),)),
    "beta that is gone": (
        "epilogue",
        (("beta == 0.0f ? alpha * sums[i] : alpha * sums[i] + beta * *c", "alpha * sums[i]"),),
    ),
}


@pytest.mark.parametrize("what", CHEATS)
def test_a_wrong_product_does_not_pass(what: str, graded: Grade) -> None:
    name, pairs = CHEATS[what]
    found = graded(name, changed(name, *pairs)).grade
    assert found.fault
    assert found.reached == ()
    assert not found.passed


SLOW = {
    "a barrier for each k": (
        "race",
        (("sum += As[now][y][k] * Bs[now][k][x];", "{ sum += As[now][y][k] * Bs[now][k][x]; __syncthreads(); }"),),
        "barriers",
    ),
    "padding instead of a swizzle": (
        "swizzle",
        (("As[T][T];", "As[T][T + 1];"), ("i ^ x", "i"), ("(y + 8 * i) ^ k", "y + 8 * i")),
        "shared_bytes",
    ),
    "two buffers without overlap": (
        "pipeline",
        (("        multiply(sums", "        __pipeline_wait_prior(0);\n        multiply(sums"),),
        "flight",
    ),
    "every block does all of the work": (
        "split_k",
        (("#define SPLITS 16", "#define SPLITS 8"),
         ("int tile = blockIdx.z * T; tile < K; tile += T * SPLITS", "int tile = 0; tile < K; tile += T"),
         ("atomicAdd(&C[row * N + col], sum)", "atomicAdd(&C[row * N + col], sum / SPLITS)")),
        "work",
    ),
    "a tile with too many registers": (
        "choose_tile", (("#define BN 128", "#define BN 64"), ("#define TN 4", "#define TN 8")), "occupancy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SLOW)
def test_a_right_product_that_misses_the_goal_does_not_pass(what: str, graded: Grade) -> None:
    name, pairs, quantity = SLOW[what]
    found = graded(name, changed(name, *pairs)).grade
    assert not found.fault
    assert quantity in [one.goal.quantity.name for one in found.reached if not one.met]
    assert not found.passed


def test_a_launch_that_leaves_work_out_is_not_counted(graded: Grade, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the graded launch not verified, its counters would still tell. No trial has this shape."""
    monkeypatch.setattr(learn_grading, "_verified", lambda *_: None)
    early = ("float sum = 0.0f;", "float sum = 0.0f;\n    if (M == 32 && N == 32 && K == 2048) return;")
    found = graded("split_k", changed("split_k", early)).grade
    assert "executes 0 multiply-adds" in found.fault
    assert not found.passed


def test_c_must_not_be_read_when_beta_is_0(graded: Grade) -> None:
    always = ("beta == 0.0f ? alpha * sums[i] : alpha * sums[i] + beta * *c", "alpha * sums[i] + beta * *c")
    found = graded("epilogue", changed("epilogue", always)).grade
    assert "reads C when beta is 0" in found.fault


def test_an_answer_that_does_not_compile(graded: Grade) -> None:
    found = graded("coalesce", changed("coalesce", ("float sum = 0.0f;", "float sum = 0.0f"))).grade
    assert found.verdict == "it does not compile"
    assert "expected a" in found.fault
    assert "(11)" in found.fault  # the line


def test_an_answer_that_is_no_product(graded: Grade) -> None:
    found = graded("coalesce", "__global__ void nothing() {}").grade
    assert found.verdict == "there is no verdict"
    assert not found.passed


def test_the_file_names_its_task(tmp_path: Path) -> None:
    file = tmp_path / "x.cu"
    file.write_text("// gemmsmith learn: swizzle\n", encoding="utf-8")
    assert find_task(file, "").name == "swizzle"
    assert find_task(file, "race").name == "race"
    file.write_text("__global__ void k() {}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="does not say which task"):
        find_task(file, "")
    with pytest.raises(UsageError, match="there is no file"):
        find_task(tmp_path / "none.cu", "")
    with pytest.raises(UsageError, match="no task called 'nosuch'"):
        find_task(file, "nosuch")
