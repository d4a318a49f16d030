"""NVRTC in a process of its own: limits, crashes, reuse, interrupts, forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gemmsmith.compile import Toolchain, compile_request, find_toolchain, worker_pool
from gemmsmith.compile.nvrtc_job import Job, Result
from gemmsmith.compile.request import CompileRequest
from gemmsmith.compile.worker_pool import Worker, WorkerPool
from gemmsmith.errors import CompileError

TINY = 'extern "C" __global__ void k(float* x) { x[0] = 1; }\n'
OPTIONS = ("--gpu-architecture=sm_80", "-std=c++17")
# Doubles the number of instantiations with each step: minutes of CPU time.
BOMB = """
template <int N, int M> struct B { static constexpr long v = B<N - 1, 2 * M>::v + B<N - 1, 2 * M + 1>::v; };
template <int M> struct B<0, M> { static constexpr long v = M; };
extern "C" __global__ void k(long* x) { x[0] = B<24, 0>::v; }
"""


def job(source: str = TINY) -> Job:
    return Job(source, "/gemmsmith/a.cu", (), "k", OPTIONS)


@pytest.fixture
def pool():  # type: ignore[no-untyped-def]
    made = WorkerPool()
    yield made
    made.close()


def pids(pool: WorkerPool) -> list[int]:
    return [worker.pid for worker in pool._idle]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int, seconds: float = 5) -> bool:
    until = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(pid)


def test_one_process_compiles_many(pool: WorkerPool) -> None:
    first = pool.run(job(), find_toolchain(), "a.cu")
    (pid,) = pids(pool)
    second = pool.run(job(TINY.replace("1", "2")), find_toolchain(), "a.cu")
    assert pids(pool) == [pid]
    assert ".entry k" in first.ptx
    assert first.ptx != second.ptx
    assert first.cubin[:4] == b"\x7fELF"


def test_a_compile_error_keeps_the_process(pool: WorkerPool) -> None:
    assert "nope" in pool.run(job("int x = nope;"), find_toolchain(), "a.cu").log
    pid = pids(pool)
    assert not pool.run(job(), find_toolchain(), "a.cu").failure
    assert pids(pool) == pid


def test_a_crash_is_an_error_and_the_next_file_compiles(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.run(job(), find_toolchain(), "a.cu")
    (pid,) = pids(pool)
    sent = Worker.run

    def crashing(worker: Worker, *rest: object) -> object:
        os.kill(worker.pid, signal.SIGSEGV)
        return sent(worker, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "run", crashing)
    with pytest.raises(CompileError, match=r"mine\.cu: the compiler NVRTC crashed \(SIGSEGV\)") as caught:
        pool.run(job(), find_toolchain(), "mine.cu")
    assert caught.value.hint
    assert not is_running(pid)
    monkeypatch.undo()
    assert ".entry k" in pool.run(job(), find_toolchain(), "a.cu").ptx


def test_time_is_limited(pool: WorkerPool) -> None:
    start = time.monotonic()
    with pytest.raises(CompileError, match=r"bomb\.cu: the compiler took more than 1 s"):
        pool.run(job(BOMB), find_toolchain(), "bomb.cu", 1.0)
    assert time.monotonic() - start < 5
    assert pids(pool) == []


def test_cpu_time_is_limited(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "CPU_SECONDS", 1)
    with pytest.raises(CompileError, match="more than 1 s of CPU time"):
        pool.run(job(BOMB), find_toolchain(), "bomb.cu", 60)


def test_memory_is_limited(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 1 << 30)
    result = pool.run(job(BOMB), find_toolchain(), "bomb.cu", 60)
    assert result.failure
    assert "out of memory" in result.log.lower()


def test_the_process_reads_nothing_of_the_users(pool: WorkerPool, tmp_path: Path) -> None:
    """Without a check of includes before it; kernels older than 5.13 have no Landlock and rely on that check."""
    (tmp_path / "secret.h").write_text("secret_word here;\n")
    log = pool.run(job(f'#include "{tmp_path}/secret.h"\n' + TINY), find_toolchain(), "a.cu").log
    if _has_landlock():
        assert "secret_word" not in log
        assert "could not open" in log or "cannot open" in log


def _has_landlock() -> bool:
    import ctypes

    return ctypes.CDLL(None).syscall(444, None, 0, 1) > 0


def test_threads_compile_at_once(pool: WorkerPool) -> None:
    done: list[str] = []
    threads = [
        threading.Thread(
            target=lambda n=n: done.append(pool.run(job(TINY.replace("1", str(n))), find_toolchain(), "a").ptx)
        )
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(done)) == 3
    assert len(pids(pool)) <= 2


def test_a_forked_process_has_its_own(pool: WorkerPool) -> None:
    pool.run(job(), find_toolchain(), "a.cu")
    (pid,) = pids(pool)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        pool.forget()  # what register_at_fork does for the process's own pool
        answer = pool.run(job(), find_toolchain(), "a.cu").ptx.count(".entry")
        os.write(write, f"{answer} {pids(pool) != [pid]}".encode())
        pool.close()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        assert result.read() == "1 True"
    os.waitpid(child, 0)
    assert is_running(pid)
    assert not pool.run(job(), find_toolchain(), "a.cu").failure


# A test run in the background of a shell is told to ignore SIGINT, and so would be the programs that it starts.
_SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from gemmsmith.compile import find_toolchain
from gemmsmith.compile.nvrtc_job import Job
from gemmsmith.compile.worker_pool import worker_pool
pool = worker_pool()
pool.run(Job({tiny!r}, "/a.cu", (), "k", {options!r}), find_toolchain(), "a.cu")
print(pool._idle[0].pid, flush=True)
{then}
"""


def _program(then: str) -> subprocess.Popen[str]:
    code = _SCRIPT.format(tiny=TINY, options=OPTIONS, then=then)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


BOMB_RUN = f"pool.run(Job({BOMB!r}, '/a.cu', (), 'k', {OPTIONS!r}), find_toolchain(), 'a.cu')"


@pytest.mark.parametrize(
    ("then", "how"),
    [("", 0), ("sys.exit(3)", 0), ("time.sleep(60)", signal.SIGKILL), (BOMB_RUN, signal.SIGINT),
     (BOMB_RUN, signal.SIGKILL)],
    ids=["end", "exit", "killed", "interrupted while compiling", "killed while compiling"],
)  # fmt: skip
def test_the_process_ends_with_its_parent(then: str, how: int) -> None:
    with _program(then) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        if how:
            time.sleep(0.3)
            program.send_signal(how)
        _, errors = program.communicate(timeout=20)
        if how == signal.SIGINT:
            assert "KeyboardInterrupt" in errors
        assert ends(pid)


def test_a_users_file_is_compiled_there_and_a_rung_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    run = WorkerPool.run

    def noted(pool: WorkerPool, made: Job, tools: Toolchain, name: str) -> Result:
        names.append(name)
        return run(pool, made, tools, name)

    monkeypatch.setattr(WorkerPool, "run", noted)
    for name, isolated in (("rung.cu", False), ("mine.cu", True)):
        compile_request(CompileRequest(name, TINY, (), (), "sm_80", "k", isolated=isolated), find_toolchain())
    assert names == ["mine.cu"]


def test_the_environment_is_not_passed_on(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "value")
    pool.run(job(), find_toolchain(), "a.cu")
    assert b"MY_TOKEN" not in Path(f"/proc/{pids(pool)[0]}/environ").read_bytes()
