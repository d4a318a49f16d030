"""The one-way flow: a stage imports only from stages to its left, and importing needs no driver and no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "gemmsmith"
# Left to right. What stands in one place may import each other within a package only.
ORDER = ["errors", "gpus", "problem", "shapes", "fills", "kernel", "prologue", "ladder", "userfile", "compile",
         "choose", "run", "sim", "call", "verify", "store", "trace", "bench", "tune", "explain", "sweep",
         "report", "__init__", "cli", "__main__"]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def stage_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gemmsmith":
            parts = node.module.split(".")
            names += [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("gemmsmith.")]
    return names


@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(ROOT)) for f in FILES])
def test_a_module_imports_only_from_its_left(path: Path) -> None:
    here = ORDER.index(stage_of(path))
    for name in imports_of(path):
        stage = name if name in ORDER else "__init__"  # `from gemmsmith import __version__` and the like
        assert ORDER.index(stage) <= here, f"{path.name} ({stage_of(path)}) imports {name}"


def test_every_stage_is_in_the_order() -> None:
    assert {stage_of(f) for f in FILES} <= set(ORDER)


@pytest.mark.parametrize("module", ["gemmsmith", "gemmsmith.cli.main"])
def test_importing_loads_no_driver_and_no_torch(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "heavy = [m for m in ('torch', 'cupy', 'cuda.bindings.driver', 'cuda.bindings.nvrtc') if m in sys.modules]\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(ROOT)) for f in FILES])
def test_no_pickle_eval_exec_or_shell(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] + [getattr(node, "module", "") or ""]
            assert not {"pickle", "marshal", "shelve", "dill"} & set(names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__"), f"line {node.lineno}"
        if isinstance(node, ast.keyword) and node.arg == "shell":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False
