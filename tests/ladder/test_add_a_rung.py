"""A new rung is two files, its .cu and its specification: no other file is edited."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gemmsmith.ladder.registry import rung_named, rungs

ROOT = Path(__file__).parents[2]
NUMBER = len(rungs()) + 1

SPECIFICATION = '''"""A rung that a test adds."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import ALL_LAYOUTS, preset

SPEC = simt.rung(
    __name__,
    summary="one thread per output, once more",
    teaches="that a rung is two files",
    parameters=(simt.square_tile(32, (8, 16, 32)),),
    presets=(preset("32x32"),),
    small={"TILE": 8},
    threads="TILE*TILE",
    grid=simt.TILE_GRID,
    layouts=ALL_LAYOUTS,
)
'''

VERIFY = """
from gemmsmith.compile.compiler import compile_for
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import verify_launch

spec = rung_named("twin")
for problem in (Problem(20, 17, 9), Problem(8, 8, 8, alpha=0.5, beta=-1.0), Problem(3, 5, 0)):
    verdict = verify_launch(SimDevice(), spec, spec.small_config(), problem, compile_fn=compile_for)
    assert verdict.trusted, str(verdict)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one rung more: the kernel of rung 2 under another name and number."""
    folder = tmp_path_factory.mktemp("project")
    left_out = shutil.ignore_patterns("__pycache__", "results")
    for name in ("src", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md"):
        shutil.copyfile(ROOT / name, folder / name)
    ladder = folder / "src" / "gemmsmith" / "ladder"
    code = rung_named("coalesced").code.replace("// 02 coalesced: ", f"// {NUMBER:02d} twin: ", 1)
    (ladder / f"{NUMBER:02d}_twin.cu").write_text(code, encoding="utf-8")
    (ladder / "twin.py").write_text(SPECIFICATION, encoding="utf-8")
    return folder


def run(project: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    done = subprocess.run([sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_listed(project: Path) -> None:
    listed = json.loads(run(project, "-m", "gemmsmith", "list", "--json"))
    found = [rung for rung in (listed if isinstance(listed, list) else listed["rungs"]) if rung["name"] == "twin"]
    assert [rung["rung"] for rung in found] == [NUMBER]


def test_it_is_right(project: Path) -> None:
    run(project, "-c", VERIFY)


def test_its_specification_passes_the_linter(project: Path) -> None:
    file = "src/gemmsmith/ladder/twin.py"
    run(project, "-m", "ruff", "check", "--no-cache", file)
    run(project, "-m", "ruff", "format", "--no-cache", "--check", file)


def test_it_passes_the_tests_of_every_specification(project: Path) -> None:
    """Those that go through all rungs, and those that have this one for a case."""
    files = ("test_registry.py", "test_specs.py", "test_rung_before.py")
    run(project, "-m", "pytest", "-q", "-p", "no:xdist", *(f"tests/ladder/{file}" for file in files))
    run(project, "-m", "pytest", "-q", "-p", "no:xdist", "tests/ladder/test_sources.py", "-k", "twin")


# Slow, for `make test-all`: strict types of the module with all that it imports (about 30 s), and every suite that runs
# each rung on the simulator (about 60 s).
def test_it_passes_strict_types(project: Path) -> None:
    run(project, "-m", "mypy", "--config-file", "pyproject.toml", "src/gemmsmith/ladder/twin.py")


def test_it_passes_its_own_tests(project: Path) -> None:
    files = ("test_edges.py", "test_scalars.py", "test_presets.py", "test_special_values.py", "test_schedules.py")
    run(project, "-m", "pytest", "-q", "-p", "no:xdist", *(f"tests/ladder/{file}" for file in files), "-k", "twin")
