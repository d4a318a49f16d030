"""Kernels behind conditions that the build decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.kernels.conditional_kernel import hidden_kernel

HERE = "__global__ void k() {}\n"


@pytest.mark.parametrize(("before", "defines"), [
    ("#ifdef FAST\n", (("FAST", "1"),)),
    ("#if FAST\n", (("FAST", "1"),)),
    ("#if defined(FAST) && LEVEL >= 3\n", (("FAST", "1"), ("LEVEL", "3"))),
    ("#ifndef LEVEL\n#define LEVEL 1\n#endif\n#if LEVEL == 2\n", (("LEVEL", "2"),)),
    ("#if LEVEL == 1\nint a;\n#elif LEVEL == 4\n", (("LEVEL", "4"),)),
    ("#ifdef OUTER\n#if INNER > 7\n", (("OUTER", "1"), ("INNER", "8"))),
    ("#if 0\n", ()),  # nothing changes that
    ("#define OLD\n#ifndef OLD\n", ()),
])  # fmt: skip
def test_macros_that_a_condition_needs_are_found(
    before: str, defines: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    file = tmp_path / "k.cu"
    file.write_text(before + HERE + "#endif\n#endif\n", encoding="utf-8")
    found = hidden_kernel(file, before.count("\n") + 1, {})
    assert found is not None
    assert found.defines == defines
    if defines:
        assert hidden_kernel(file, before.count("\n") + 1, dict(defines)) is None


@pytest.mark.parametrize("before", ["", "#ifndef FAST\n", "#if __CUDA_ARCH__ >= 800\n", "#define FAST\n#ifdef FAST\n"])
def test_what_is_compiled_is_not_hidden(before: str, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(before + HERE + "#endif\n", encoding="utf-8")
    assert hidden_kernel(file, before.count("\n") + 1, {}) is None


@pytest.mark.parametrize(("name", "line"), [("CMakeLists.txt", "target_compile_definitions(t PRIVATE STEPS=6)"),
                                            ("Makefile", "FLAGS = -O3 -DSTEPS=6")])  # fmt: skip
def test_values_of_the_build_come_first(name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text(line, encoding="utf-8")
    file = tmp_path / "src" / "k.cu"
    file.write_text("#if STEPS\n" + HERE + "#endif\n", encoding="utf-8")
    found = hidden_kernel(file, 2, {})
    assert found is not None
    assert found.options == "-D STEPS=6"
