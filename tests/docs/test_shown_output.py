"""Output that a page shows is what the tool prints today, and Python that a page shows runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from doc_tables.shown import SHOWN, compiler
from pages import PAGES, ROOT, blocks, name_of

_BLOCK = r"<!-- begin {name} -->\n<!-- with (.*?) -->\n(.*?)\n<!-- end {name} -->"


def shown_on_pages(name: str) -> list[tuple[str, str]]:
    """(compiler, block) wherever a page shows this output."""
    pattern = re.compile(_BLOCK.format(name=name), re.S)
    return [(m[1], m[2]) for page in PAGES for m in pattern.finditer(page.read_text(encoding="utf-8"))]


def words_only(text: str) -> str:
    """Without numbers, registers and line breaks, which depend on the compiler."""
    return re.sub(r"\s+", " ", re.sub(r"%\w+|0x[0-9a-f]+|\d[\d.,]*", "#", text))


@pytest.mark.parametrize("name", SHOWN)
def test_shown_output_is_todays(name: str) -> None:
    found = shown_on_pages(name)
    assert found, f"no page shows {name}"
    now = SHOWN[name].markdown().partition("\n")[2]
    for made_with, block in found:
        if made_with == compiler():
            assert block == now, "run python benchmarks/update_docs.py"
        else:
            assert words_only(block) == words_only(now), "run python benchmarks/update_docs.py"


def test_the_fixed_example_differs_by_the_barrier() -> None:
    broken, fixed = ((ROOT / "docs" / "examples" / name).read_text() for name in ("tile.cu", "tile_fixed.cu"))
    assert fixed.replace("        __syncthreads();\n    }\n", "    }\n", 1) == broken


PYTHON = [(name_of(page), code) for page in PAGES for code in blocks(page.read_text(encoding="utf-8"), "python")
          if "SPEC = " not in code]  # fmt: skip


@pytest.mark.parametrize("code", [code for _, code in PYTHON], ids=[name for name, _ in PYTHON])
def test_shown_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "docs" / "examples" / "any_kernel")
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")
