"""Processes around a tuning run: parallel compilation, a writer that is killed, two writers at once."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiler import compile_for
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP16, Problem
from gemmsmith.tune import compile_ahead, warm
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.warm import compile_product, usable_cores

PROBLEM = Problem(64, 48, 33, FP16, FP16, trans_b=True, activation="relu")
SPEC = rung_named("mma_swizzled")
GOOD = Candidate(SPEC, SPEC.config({"BM": 64, "BN": 64, "WM": 32, "WN": 32}), 1.0)
BAD = Candidate(SPEC, Config((*GOOD.config.values[1:], ("BM", 7))), 1.0)

WRITER = """
import sys
from pathlib import Path
from gemmsmith.choose.key import ShapeKey
from gemmsmith.choose.table import Entry
from gemmsmith.choose.tuning_file import TuningFile
file = TuningFile(Path(sys.argv[1]))
for i in range(1, int(sys.argv[2]) + 1):
    file.add_best(sys.argv[3], ShapeKey("16-bit", 2, "NN", i, 1, 1), Entry("wgmma_cluster", (("BM", 64),), 1.0))
    print(i, flush=True)
"""


def writer(path: Path, count: int, gpu: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(count), gpu], stdout=subprocess.PIPE, text=True
    )


def test_candidates_are_compiled_into_the_shared_cache(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with CompilePool("sm_80", folder, processes=1) as pool:
        pool.begin(PROBLEM, [GOOD])
        (job,) = pool._jobs.values()
        failures = pool(PROBLEM, [GOOD, BAD])
        assert job in pool._jobs.values(), "begun once"
        assert job.done()
        assert pool(PROBLEM, []) == {}
    assert list(failures) == [BAD.name]
    assert "BM=7 is not one of" in failures[BAD.name]
    fitted = SPEC.specialize(GOOD.config, PROBLEM, (256, 256, 256))
    assert compile_for(SPEC, fitted, PROBLEM, "sm_80", CompileCache(folder)).cached


def test_a_compile_failure_has_a_reason() -> None:
    fields = warm.problem_fields(PROBLEM)
    assert json.loads(json.dumps(fields)) == fields, "plain values only"
    assert warm._problem(fields) == PROBLEM
    assert "no rung called" in compile_product("mma_swizzle", {}, fields, "sm_80", "")
    assert "sm_1" in compile_product(SPEC.name, dict(GOOD.config), fields, "sm_1", "")


def test_a_process_that_dies_fails_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []

    class Dying:
        def __init__(self, *_: Any) -> None:
            started.append(self)

        def submit(self, *_: Any) -> Dying:
            return self

        def result(self) -> str:
            raise BrokenProcessPool

        def shutdown(self, **_: Any) -> None: ...

    monkeypatch.setattr(compile_ahead, "ProcessPoolExecutor", Dying)
    with CompilePool("sm_80") as pool:
        assert pool(PROBLEM, [GOOD]) == {}
        assert pool(PROBLEM, [GOOD]) == {}
    assert len(started) == 2, "new processes for those that died"


def test_a_killed_writer_leaves_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "tuning.jsonl"
    process = writer(path, 1_000_000, "gpu")
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    process.kill()
    told = [int(line) for line in process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    file = TuningFile(path)
    confirmed = max(told, default=20)
    assert len(file.best("gpu")) >= confirmed, "what was said to be written is there"
    file.add_run("gpu", "gemmsmith tune", "", {})
    for line in path.read_text().splitlines():
        json.loads(line)


def test_two_writers_do_not_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "tuning.jsonl"
    processes = [writer(path, 60, gpu) for gpu in ("one", "two")]
    deadline = time.monotonic() + 60
    for process in processes:
        assert process.wait(max(0.0, deadline - time.monotonic())) == 0
        assert process.stdout is not None
        process.stdout.close()
    assert len(TuningFile(path).best("one")) == len(TuningFile(path).best("two")) == 60


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    """The lock keeps a writer from removing a line that another has not finished."""
    path = tmp_path / "tuning.jsonl"
    with path.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = writer(path, 1, "gpu")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        assert path.read_bytes() == b""
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()
    assert len(TuningFile(path).best("gpu")) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_as_many_processes_as_cores_that_may_be_used() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert (usable_cores(), CompilePool("sm_80").processes) == (1, 1)
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)
