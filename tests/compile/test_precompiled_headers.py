"""Headers that several copies of a file include are precompiled once: same code, and only for the same headers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.compile.nvrtc_job import Job, PrecompiledHeaders, Result, run_job
from gemmsmith.compile.toolchain import find_toolchain, load_nvrtc
from gemmsmith.compile.worker_pool import Worker, WorkerPool, worker_pool

SOURCE = """#include <cuda_fp16.h>
#include "/gemmsmith/own.h"
extern "C" __global__ void k(int* x) { x[0] = VALUE + 1; }
"""


def job(value: int = 1, source: str = SOURCE, more: tuple[str, ...] = ()) -> Job:
    options = ("--gpu-architecture=sm_80", "-std=c++17", "-lineinfo", "--ptxas-options=-v", *more,
               *(f"-I{folder}" for folder in find_toolchain().includes))  # fmt: skip
    return Job(source, "/gemmsmith/a.cu", (("/gemmsmith/own.h", f"#define VALUE {value}\n"),), "k", options)


class Shelf(PrecompiledHeaders):
    SLOW_S = 0.0  # any compilation is worth it


@pytest.fixture
def shelf(tmp_path: Path) -> PrecompiledHeaders:
    found = Shelf(load_nvrtc(), str(tmp_path))
    if not found._known:
        pytest.skip("this NVRTC has no precompiled headers")
    return found


def compiled(made: Job, shelf: PrecompiledHeaders | None = None) -> Result:
    result = run_job(load_nvrtc(), made, shelf)
    assert not result.failure, result.log
    return result


def code(result: Result) -> tuple[str, bytes]:
    return result.ptx, result.cubin


def test_the_second_compilation_writes_a_file_and_the_third_reads_it(shelf: PrecompiledHeaders, tmp_path: Path) -> None:
    plain = compiled(job())
    assert code(compiled(job(), shelf)) == code(plain)
    assert not list(tmp_path.rglob("*.pch"))
    assert code(compiled(job(), shelf)) == code(plain)
    (file,) = tmp_path.rglob("*.pch")
    written = file.stat().st_mtime_ns
    other = job(source=SOURCE.replace("+ 1", "+ 5"))
    assert code(compiled(other, shelf)) == code(compiled(other))
    assert [each.stat().st_mtime_ns for each in tmp_path.rglob("*.pch")] == [written]


def test_headers_in_memory_and_first_lines_are_compared(shelf: PrecompiledHeaders, tmp_path: Path) -> None:
    """NVRTC would take the file of other headers in memory."""
    for _ in range(3):
        compiled(job(1), shelf)
    for again in (job(7), job(1, more=("-DX=1",)), job(1, SOURCE.replace("#include <cuda_fp16.h>", "#define VALUE 8"))):
        for _ in range(3):
            assert code(compiled(again, shelf)) == code(compiled(again))
    assert len({file.parent for file in tmp_path.rglob("*.pch")}) == 1  # the others' are removed


def test_an_error_in_the_source_is_the_same_error(shelf: PrecompiledHeaders) -> None:
    for _ in range(3):
        compiled(job(), shelf)
    wrong = job(source=SOURCE.replace("VALUE + 1", "nope"))
    result = run_job(load_nvrtc(), wrong, shelf)
    assert result.log == run_job(load_nvrtc(), wrong).log
    assert not shelf.failed(result)


def test_a_damaged_file_only_costs_time(shelf: PrecompiledHeaders, tmp_path: Path) -> None:
    for _ in range(2):
        compiled(job(), shelf)
    for file in tmp_path.rglob("*.pch"):
        file.write_bytes(b"not one")
    assert code(compiled(job(), shelf)) == code(compiled(job()))


def test_a_failure_for_no_line_is_repeated_without_them(shelf: PrecompiledHeaders) -> None:
    for _ in range(2):
        compiled(job(), shelf)
    shelf.begin(job())
    assert shelf.failed(Result("error", 'Catastrophic error: cannot open temporary file "/tmp/x"'))
    assert shelf.begin(job()) == ()


def test_the_seconds_of_compiling_processes_count_once() -> None:
    pool = worker_pool()
    pool.close()
    before = seconds_used()
    pool.run(job(source="#include <cuda_fp16.h>\n" + SOURCE), find_toolchain(), "a.cu")
    living = pool.seconds()
    assert living > 0.05
    assert seconds_used() - before > living - 0.05  # the system counts in hundredths
    pool.close()
    assert pool.seconds() == 0
    after = seconds_used() - before  # now they are those of an ended child
    assert living - 0.05 < after < 1.5 * living + 0.5


def test_seconds_grow_with_each_job() -> None:
    pool = WorkerPool()
    pool.run(job(), find_toolchain(), "a.cu")
    first = pool.seconds()
    pool.run(job(2), find_toolchain(), "a.cu")
    assert pool.seconds() > first
    (worker,) = pool._idle
    scratch = worker._scratch
    assert os.path.isdir(scratch)
    pool.close()
    assert not os.path.exists(scratch)


def test_a_process_without_a_folder_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.compile.worker_pool._scratch_folder", lambda: "")
    worker = Worker(find_toolchain())
    for _ in range(3):
        assert not worker.run(job(), 60).failure
    worker.end()
