"""A command's module is imported when the command is called: which modules a start loads, never how long it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gemmsmith.cli.command_table import COMMANDS
from gemmsmith.cli.lazy_group import load_command

HEAVY = ("numpy", "gemmsmith.sim.device", "gemmsmith.call.api", "gemmsmith.compile.compiler", "gemmsmith.report.page")


def loaded(*words: str) -> set[str]:
    """The modules that a command line leaves in a process of its own."""
    code = (
        "import sys\nfrom gemmsmith.cli.main import run_command\n"
        f"run_command({list(words)!r})\nsys.stdout.flush()\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def commands_in(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("gemmsmith.cli.commands.")}


def test_the_version_needs_neither_numpy_nor_the_option_parser() -> None:
    modules = loaded("--version")
    assert not modules & {*HEAVY, "typer", "rich", "pydantic", "gemmsmith.ladder.registry"}
    assert not commands_in(modules)


def test_the_list_needs_no_command_no_simulator_and_no_parser() -> None:
    modules = loaded("list")
    assert "gemmsmith.ladder.registry" in modules
    assert not modules & {"gemmsmith.sim.device", "gemmsmith.compile.compiler", "gemmsmith.call.api", "typer"}
    assert not commands_in(modules)


@pytest.mark.parametrize("words", [["--help"], ["nosuch"], ["--nosuch"]])
def test_help_and_mistakes_load_no_command(words: list[str]) -> None:
    modules = loaded(*words)
    assert not commands_in(modules)
    assert not modules & set(HEAVY)


def test_a_command_loads_only_its_own_module() -> None:
    modules = loaded("doctor", "--help")
    assert commands_in(modules) == {"gemmsmith.cli.commands.doctor"}
    assert "gemmsmith.sim.device" not in modules


@pytest.mark.parametrize("source", [
    "int main() { return 0; }",
    "__global__ void scan(int* data, int n) { data[threadIdx.x] = n; }",
    "__global__ void mine(const Complex* A, const Complex* B, Complex* C, int M, int N, int K) {}",
])  # fmt: skip
def test_what_is_refused_by_its_text_needs_neither_compiler_nor_simulator(source: str, tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(source, encoding="utf-8")
    modules = loaded("check", str(tmp_path / "mine.cu"))
    assert "gemmsmith.userfile.kernels.user_kernel" in modules
    assert not modules & {"gemmsmith.sim.device", "gemmsmith.compile.nvrtc", "gemmsmith.call.binding"}


def test_the_package_loads_nothing_until_a_function_is_used() -> None:
    code = (
        "import sys, gemmsmith\n"
        "assert not [m for m in ('numpy', 'gemmsmith.call') if m in sys.modules]\n"
        "assert {'gemm', 'matmul', 'plan', 'kernels', 'Plan'} <= set(dir(gemmsmith))\n"
        "import gemmsmith.call.plan\n"
        "assert callable(gemmsmith.plan) and isinstance(gemmsmith.Plan, type)\n"
        "assert gemmsmith.gemm is gemmsmith.gemm and 'numpy' in sys.modules\n"
        "try: gemmsmith.nosuch\n"
        "except AttributeError as error: assert 'nosuch' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_help_begins_the_help_of_the_command(name: str) -> None:
    """The table repeats it so that the list of commands needs no import."""
    command = load_command(name)
    assert command.name == name
    assert command.help.startswith(COMMANDS[name].summary)
    assert len(COMMANDS[name].summary) <= 80
