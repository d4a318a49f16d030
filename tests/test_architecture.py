"""The one-way flow: a stage imports only from stages to its left, no modules import each other in a circle, and
importing needs no driver and no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "gemmsmith"
# Left to right. What stands in one place may import each other within a package only.
ORDER = ["errors", "regular_file", "gpus", "problem", "shapes", "fill_arrangements", "fills", "notebook_html",
         "kernel", "prologue",
         "ladder", "userfile",
         "compile", "choose", "run", "sim", "call", "verify", "cure", "store", "trace", "bench", "tune", "explain",
         "sweep",
         "report", "frameworks", "torch", "jax", "learn", "__init__", "cluster", "cli", "__main__"]  # fmt: skip
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


def test_a_module_imports_only_from_its_left() -> None:
    wrong = [f"{path.relative_to(ROOT)} imports {name}" for path in FILES for name in imports_of(path)
             if position(name) > ORDER.index(stage_of(path))]  # fmt: skip
    assert wrong == []


def position(name: str) -> int:
    return ORDER.index(name if name in ORDER else "__init__")  # `from gemmsmith import __version__` and the like


def test_every_stage_is_in_the_order() -> None:
    assert {stage_of(f) for f in FILES} <= set(ORDER)


# --- circles


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_imported(path: Path, known: set[str]) -> set[str]:
    """The package's modules that a file imports anywhere, also for type checking only or within a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in whole}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Strongly connected components of more than one module (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = set()

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in imports[name]:
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            at = stack.index(name)
            component = frozenset(stack[at:])
            del stack[at:]
            if len(component) > 1 or name in imports[name]:
                found.add(component)

    for name in imports:
        if name not in order:
            visit(name)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {module_name(path): path for path in FILES}
    imports = {name: modules_imported(path, set(names)) for name, path in names.items()}
    assert [sorted(circle) for circle in circles(imports)] == []


def test_a_circle_would_be_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"e"}, "f": {"a", "d"}}
    assert circles(imports) == {frozenset("abc"), frozenset("e")}
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


@pytest.mark.parametrize("module", ["gemmsmith", "gemmsmith.cli.main"])
def test_importing_loads_no_driver_and_no_torch(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "heavy = [m for m in ('torch', 'cupy', 'cuda.bindings.driver', 'cuda.bindings.nvrtc') if m in sys.modules]\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_pickle_eval_exec_or_shell() -> None:
    unsafe = [f"{path.relative_to(ROOT)}: {line}" for path in FILES
              for line in unsafe_lines(path.read_text(encoding="utf-8"))]  # fmt: skip
    assert unsafe == []


def unsafe_lines(code: str) -> list[str]:
    """What could run a stranger's code, with the line."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] + [getattr(node, "module", "") or ""]
            found += [f"imports {name}" for name in {"pickle", "marshal", "shelve", "dill"} & set(names)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += [f"{node.func.id}, line {node.lineno}"] * (node.func.id in ("eval", "exec", "__import__"))
        if isinstance(node, ast.keyword) and node.arg == "shell":
            found += ["shell"] * (not isinstance(node.value, ast.Constant) or node.value.value is not False)
    return found


def test_unsafe_lines_would_be_found() -> None:
    code = "import pickle\nfrom marshal import x\neval('1')\nrun(c, shell=True)\nrun(c, shell=False)\n"
    assert unsafe_lines(code) == ["imports pickle", "imports marshal", "eval, line 3", "shell"]
