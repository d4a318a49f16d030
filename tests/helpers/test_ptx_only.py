"""Compiling to PTX only gives exactly the PTX behind the machine code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ptx_only import NOT_ASSEMBLED, compile_to_ptx

from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import CompileError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem


@pytest.mark.parametrize(("name", "arch", "changes"), [
    ("shared_tile", "sm_80", {"TILE": 8}),
    ("mma_swizzled", "sm_89", {"BM": 64, "BN": 64, "BK_BYTES": 32, "WM": 32, "WN": 32}),
    ("wgmma_split_k", "sm_90", {"BM": 64, "BN": 64, "CONSUMERS": 1}),
])  # fmt: skip
def test_the_ptx_is_the_same(name: str, arch: str, changes: dict[str, int]) -> None:
    spec = rung_named(name)
    problem = Problem(64, 64, 64, spec.dtypes[0])
    config = spec.config(changes)
    whole = compile_for(spec, config, problem, arch)
    compiled = compile_to_ptx(spec, config, problem, arch)
    assert whole.cubin
    assert (compiled.ptx, compiled.entry, compiled.arch) == (whole.ptx, whole.entry, whole.arch)
    assert (compiled.cubin, compiled.resources) == (b"", NOT_ASSEMBLED)
    assert compile_for(spec, config, problem, arch).cubin == whole.cubin, "the two are not stored as one"


def test_a_syntax_error_is_refused(tmp_path: Path) -> None:
    spec = rung_named("naive")
    broken = tmp_path / "broken.cu"
    broken.write_text(spec.code + "}", encoding="utf-8")
    with pytest.raises(CompileError):
        compile_to_ptx(replace(spec, source=broken), spec.config(), Problem(8, 8, 8), "sm_90")
