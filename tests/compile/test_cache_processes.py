"""Many processes, one compilation; a process that dies at any point leaves nothing that is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_cache_store import KEY, SIZE, Compiler, contents, kernel

from gemmsmith.compile.cache import CompileCache

# Each process counts a compilation by one byte appended to a file, and waits for the starting signal.
ASK = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_cache_store import KEY, kernel
from gemmsmith.compile.cache import CompileCache
folder, counter, start = sys.argv[1:4]
def compile_it():
    fd = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, b"x"); os.close(fd)
    time.sleep(0.2)
    return kernel()
Path(start + str(os.getpid())).touch()
while not Path(start).exists():
    time.sleep(0.005)
compiled = CompileCache(folder).get(KEY, compile_it)
assert compiled.cubin == kernel().cubin and compiled.cache_path, compiled
print(compiled.cached)
"""

DIE = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from test_cache_store import KEY, kernel
from gemmsmith.compile import cache as module
folder, where, how = sys.argv[1:4]
def die(*_a, **_k):
    os._exit(9) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
real = os.write
def die_half_way(fd, data):
    real(fd, bytes(data[: len(data) // 2]))
    die()
if where == "compile":
    module.CompileCache(folder).get(KEY, die)
elif where == "write":
    module.os.write = die_half_way
else:
    module.os.replace = die
module.CompileCache(folder).get(KEY, kernel)
"""

NVRTC = """
import sys
from pathlib import Path
from gemmsmith.compile import CompileCache, compile_kernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32
spec = KernelSpec("k", Path(sys.argv[2]), "", "", lambda p, c: Geometry((1, 1, 1), (32, 1, 1)), entry="k")
compiled = compile_kernel(spec, Config(), dtype=FP32, arch="sm_80", cache=CompileCache(sys.argv[1]))
assert ".entry k" in compiled.ptx and compiled.cubin[:4] == b"\\x7fELF"
print(compiled.cached)
"""


def _start(script: str, *arguments: object) -> subprocess.Popen[str]:
    code = script.replace("{tests!r}", repr(str(Path(__file__).parent)))
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sixteen_processes_and_one_compilation(tmp_path: Path) -> None:
    start = tmp_path / "start"
    children = [_start(ASK, tmp_path / "c", tmp_path / "counter", start) for _ in range(16)]
    while len(list(tmp_path.glob("start?*"))) < 16:
        assert all(child.poll() in (None, 0) for child in children), "a child died early"
    start.touch()
    results = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0] * 16, results
    assert (tmp_path / "counter").read_text() == "x"
    assert sorted(out.strip() for out, _ in results) == ["False"] + ["True"] * 15
    assert len(list((tmp_path / "c").glob("*.kernel"))) == 1


def test_four_processes_with_the_real_compiler(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(float* A, float* B, float* C, int N) { C[threadIdx.x] = 1; }\n')
    children = [_start(NVRTC, tmp_path / "c", source) for _ in range(4)]
    results = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 4, results
    assert sorted(out.strip() for out, _ in results) == ["False", "True", "True", "True"]


@pytest.mark.parametrize("how", ["exit", "kill"])
@pytest.mark.parametrize("where", ["compile", "write", "replace"])
def test_a_killed_process_leaves_nothing_that_is_used(where: str, how: str, tmp_path: Path) -> None:
    child = _start(DIE, tmp_path / "c", where, how)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == (9 if how == "exit" else -9), errors
    temporaries = list((tmp_path / "c").glob("*.tmp"))
    assert [p.stat().st_size for p in temporaries] == {"compile": [], "write": [SIZE // 2], "replace": [SIZE]}[where]
    compiler = Compiler()
    compiled = CompileCache(tmp_path / "c").get(KEY, compiler)
    assert compiler.calls == 1
    assert contents(compiled) == contents(kernel())
    assert compiled.cache_path, "the dead process's lock must not be in the way"
    assert not list((tmp_path / "c").glob(".*.tmp"))
    assert CompileCache(tmp_path / "c").get(KEY, compiler).cached


def test_threads_compile_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    cache, compiler = CompileCache(tmp_path / "c"), Compiler()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cache.get(KEY, compiler), range(8)))
    assert compiler.calls == 1
    assert sorted(k.cached for k in found) == [False] + [True] * 7
