"""Every internal link of the documentation leads somewhere, and every path it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import PAGES, ROOT, anchors, links, name_of, prose

# Written by a command, or examples of names.
NOT_FILES = {"src/gemmsmith/ladder/29_my_idea.cu", "tests/gpu"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.is_file(), f"{link}: there is no {file}"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{link}: no such heading in {target.name}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name != "log" and p.name != "CHANGELOG.md"], ids=name_of)
def test_paths_exist(page: Path) -> None:
    """Paths of the project in backticks. The log and the changelog may name what is gone."""
    named = re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./\-]+)`", prose(page.read_text(encoding="utf-8")))
    for path in named:
        assert (ROOT / path).exists(), path


def _named_sources(text: str) -> list[str]:
    return re.findall(r"`((?:[\w-]+/)*[a-z_]\w*\.(?:py|toml|cuh?))`", prose(text))


def test_files_of_the_architecture_exist() -> None:
    """Its tables name files by the end of their path."""
    there = [path.relative_to(ROOT).as_posix() for folder in ("src", "tests", "benchmarks")
             for path in ROOT.glob(f"{folder}/**/*")]  # fmt: skip
    named = _named_sources((ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert len(named) > 50
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)] == []
    assert _named_sources("`cure/no_such_file.py`") == ["cure/no_such_file.py"]


def test_every_page_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        for link in links(page.read_text(encoding="utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file():
                todo.append(target)
    assert seen >= set(PAGES)


@pytest.mark.parametrize("link", ["no_such_page.md", "glossary.md#no-such-heading"])
def test_a_broken_link_is_found(link: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "usage.md"
    broken = tmp_path / "usage.md"
    broken.write_text(f"[x]({link})\n", encoding="utf-8")
    (tmp_path / "glossary.md").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(AssertionError):
        test_links_lead_somewhere(broken)


def test_the_readme_is_three_screens_at_most() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
