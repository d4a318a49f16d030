"""Cached results equal freshly computed ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import shared_results
import typer.main
from done_once import Listings, _load_ptx
from shared_results import shared

from gemmsmith.cli.app import app
from gemmsmith.compile import sass
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import CompileError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.device import LoadedPtx, SimDevice

VARIABLE = """
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .b8 table[64];
.global .align 4 .b8 tab[64];
.visible .entry k()
{
    .reg .b64 %rd<2>;
    mov.u64 %rd1, NAME;
    ret;
}
"""


@pytest.fixture
def kernel() -> CompiledKernel:
    spec = rung_named("shared_tile")
    return compile_for(spec, spec.config({"TILE": 8}), Problem(9, 9, 9), "sm_90")


def code(loaded: LoadedPtx) -> str:
    """Every operation, without the addresses of its functions."""
    return re.sub(r" at 0x\w+", "", repr(loaded.lowered))


def test_a_kernel_is_parsed_once(kernel: CompiledKernel) -> None:
    loaded = SimDevice().load(kernel)
    assert SimDevice("sm_80", hazards=True, count=True).load(kernel) is loaded
    anew = _load_ptx(SimDevice(), kernel.ptx, kernel.entry)
    assert anew is not loaded
    assert (anew.entry, code(anew)) == (loaded.entry, code(loaded))


def test_the_cache_key_has_arithmetic_and_text(kernel: CompiledKernel) -> None:
    loaded, ring = SimDevice().load(kernel), SimDevice(mod32=True).load(kernel)
    assert code(ring) != code(loaded)
    assert code(ring) == code(_load_ptx(SimDevice(mod32=True), kernel.ptx, kernel.entry))
    changed = kernel.ptx.replace("fma.rn.f32", "fma.no.f32")
    assert changed != kernel.ptx
    with pytest.raises(Exception, match=r"fma\.no"):
        SimDevice().load_ptx(changed, kernel.entry)


@pytest.mark.parametrize("name", ["table", "tab"])
def test_global_variables_are_per_device(name: str) -> None:
    text = VARIABLE.replace("NAME", name)
    one, other = SimDevice(), SimDevice()
    other.allocate(4096)
    assert one.load_ptx(text, "k") is not other.load_ptx(text, "k")
    unused = VARIABLE.replace("NAME", "0")
    assert one.load_ptx(unused, "k") is other.load_ptx(unused, "k")


def test_a_cached_listing_equals_the_tools_output(
    kernel: CompiledKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sass, "subprocess", subprocess)
    printed = sass.disassemble(kernel)
    monkeypatch.setattr(sass, "subprocess", Listings(tmp_path))
    assert sass.disassemble(kernel) == printed
    (kept,) = tmp_path.iterdir()
    monkeypatch.setattr(subprocess, "run", None)  # not called
    assert sass.disassemble(kernel) == printed
    kept.write_text(kept.read_text().replace("EXIT", "NOP"))
    assert "EXIT" not in sass.disassemble(kernel).counts


def test_failures_and_other_tools_are_not_cached(
    kernel: CompiledKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sass, "subprocess", Listings(tmp_path))
    sass.disassemble(kernel)
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    tool.chmod(0o700)
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: tool)
    for _ in range(2):
        with pytest.raises(CompileError, match="broken"):
            sass.disassemble(kernel)


def test_the_command_line_is_built_once() -> None:
    assert typer.main.get_command(app) is typer.main.get_command(app)


def test_a_result_is_made_once_and_read_by_other_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def make() -> tuple[int, ...]:
        made.append(1)
        return (len(made), 7)

    monkeypatch.setenv(shared_results.FOLDER, str(tmp_path))
    assert shared(("one", 2), make) == shared(("one", 2), make) == (1, 7)
    assert shared(("one", 3), make) == (2, 7)
    monkeypatch.delenv(shared_results.FOLDER)
    assert shared(("one", 2), make) == (3, 7)
