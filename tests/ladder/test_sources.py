"""The rungs' sources: their header comments, entries, parameters, headers, and arithmetic that no compiler changes."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import ptx_only
import pytest
from ptx_only import compile_to_ptx

from gemmsmith.call.binding import aligned_code
from gemmsmith.compile import nvrtc
from gemmsmith.compile.render import CompileRequest, render_for
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.signature import ROLES
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import Problem
from gemmsmith.userfile.files.includes import bundle

INCLUDE = rungs()[0].source.parent / "include"
SECTIONS = ["Idea", "Changed", "Owns", "Budget", "Needs", "Try next"]
each_rung = pytest.mark.parametrize("spec", rungs(), ids=lambda spec: spec.name)


@each_rung
def test_a_source_opens_with_its_lesson_and_a_picture(spec: KernelSpec) -> None:
    header = re.match(r"(//[^\n]*\n)+", spec.code)
    assert header is not None
    lines = header.group().splitlines()
    assert lines[0].startswith(f"// {spec.rung:02d} {spec.name}: ")
    titles = [re.match(r"// ([A-Z][a-z]+(?: next)?) {2,}\S", line) for line in lines]
    at = {title[1]: i for i, title in enumerate(titles) if title is not None}
    assert list(at) == SECTIONS
    drawn = [line for line in lines[at["Owns"] : at["Budget"]] if re.search(r"[|\[\]]|\+-|\S {3,}\S", line[14:])]
    assert drawn


def test_a_source_is_short_and_narrow() -> None:
    for spec in rungs():
        lines = spec.code.splitlines()
        assert len(lines) <= 200, spec.name
        assert max(map(len, lines)) <= 120, spec.name


@each_rung
def test_the_entry_takes_a_whole_gemm(spec: KernelSpec) -> None:
    """Tensor maps may stand for A and B; what is not needed for the problems that a rung takes is left out."""
    arguments = {argument.role: argument.code for argument in spec.signature.arguments}
    assert spec.signature.entry == "gemm"
    wanted = [*ROLES[: ROLES.index("bias")], *(ROLES[ROLES.index("bias") :] if spec.epilogue else ())]
    maps = {role for role in arguments if role.startswith("map")}
    for operand in "AB":
        if f"map{operand}" in maps and operand not in arguments:
            wanted = [role for role in wanted if role not in (operand, f"ld{operand.lower()}")]
    extra = maps | ({"batch"} if spec.persistent else set()) | {"workspace"}
    assert set(wanted) <= arguments.keys() <= set(wanted) | extra
    assert "workspace" in arguments or spec.workspace is None
    assert bool(maps) == (spec.tensor_maps is not None)
    if not maps:
        assert [role for role in arguments if role != "workspace"] == wanted
    codes = {"M": "i", "N": "i", "K": "i", "alpha": "f", "beta": "f", "A": "P", "B": "P", "C": "P", "bias": "P",
             "workspace": "P", "batch": "i", **dict.fromkeys(maps, "128s")}  # fmt: skip
    assert {role: codes.get(role, "q") for role in arguments} == arguments


@each_rung
def test_every_parameter_is_used(spec: KernelSpec) -> None:
    found = bundle(spec.source, (INCLUDE,))
    text = "\n".join([found.source, *(header for _, header in found.headers)])
    for parameter in spec.parameters:
        assert re.search(rf"\b{parameter.name}\b", text), parameter.name
        assert parameter.default in parameter.legal
        assert parameter.meaning
        assert {value for value, _ in parameter.value_names} <= set(parameter.legal)


# Slow, about 25 s on one core: every rung is compiled twice.
@each_rung
def test_no_rounding_is_left_to_the_compiler(spec: KernelSpec) -> None:
    """Each product and sum names its rounding, so that the PTX is the same if contraction to fma is forbidden."""
    config, seen = aligned_code(spec, spec.small_config(), Problem(256, 256, 256, dtype=spec.dtypes[0]))

    def without_contraction(request: CompileRequest) -> tuple[str, ...]:
        return (*ptx_only._without_ptxas(request), "--fmad=false")

    request = render_for(spec, config, seen, "sm_90")
    with patch.object(nvrtc, "options", without_contraction), patch.object(nvrtc, "parse_resources"):
        forbidden = nvrtc.compile_request(request, find_toolchain()).ptx
    assert compile_to_ptx(spec, config, seen, "sm_90").ptx == forbidden


def texts() -> dict[Path, str]:
    """All device code of the package."""
    folders = (INCLUDE.parent, INCLUDE.parent.with_name("prologue"))
    return {file: file.read_text(encoding="utf-8") for folder in folders for file in folder.rglob("*.cu*")}


def test_inline_ptx_stands_behind_wrappers_only() -> None:
    """All of it is in include/ptx, where a reader looks for an instruction."""
    with_asm = [file for file, text in texts().items() if re.search(r"\basm\b", text)]
    assert with_asm
    assert not [file.name for file in with_asm if file.parent != INCLUDE / "ptx"]


def test_a_header_is_used_and_needs_no_standard_library() -> None:
    headers = sorted(INCLUDE.rglob("*.cuh"))
    found = texts()
    assert len(headers) > 30
    for header in headers:
        include = f'#include "{header.relative_to(INCLUDE).as_posix()}"'
        assert any(include in text for text in found.values()), header.name
        assert found[header].startswith("//"), header.name
        assert not re.search(r"#include <c?std\w+", found[header]), header.name
