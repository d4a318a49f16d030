"""The documentation's pages, and what stands in them: links, headings, code blocks, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", text)


def blocks(text: str, language: str) -> list[str]:
    return [found[2] for found in _FENCE.finditer(text) if found[1] == language]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose(text), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(slug)
    return found


def links(text: str) -> list[str]:
    """Targets of Markdown links and pictures, and of the HTML ones."""
    plain = re.sub(r"`[^`]*`", "", prose(text))
    return re.findall(r"\]\(([^)\s]+)\)", plain) + re.findall(r'(?:src|href)="([^"]+)"', plain)


@dataclass(frozen=True)
class Command:
    """A ``gemmsmith …`` command as a page shows it."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)[1:]


def commands(page: Path) -> Iterator[Command]:
    """Commands in code blocks, and in backticks where they have at least one argument; not the output that follows."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in (*blocks(text, ""), *blocks(text, "console")) for line in block.splitlines()]
    shown = [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?gemmsmith \w", line)]
    inline = re.findall(r"`(gemmsmith [^`]+)`", prose(text))
    for command in dict.fromkeys((*shown, *inline)):
        yield Command(name_of(page), command)
