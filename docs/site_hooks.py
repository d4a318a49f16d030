"""Hooks of the documentation site: pages from the project's root, and a check that it loads nothing from outside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import BuildError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md",
         "SECURITY.md": "SECURITY.md"}  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root; in them ``docs/x.md`` is ``x.md``, and README.md is the start page."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = re.sub(r'(\]\(|src="|href=")docs/', r"\1", text)
        files.append(File.generated(config, target, content=text))
    return files


def on_post_build(config: Any) -> None:
    """Fail if a page loads a script, style, font or picture from another host."""
    loads = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|"""
        r"""<link\b(?=[^>]*rel=["']?(?:stylesheet|preload|preconnect|icon))[^>]*href=["']?(?:https?:)?//|"""
        r"""url\(["']?(?:https?:)?//|@import\s+["'](?:https?:)?//"""
    )
    site = Path(config["site_dir"])
    for file in sorted((*site.rglob("*.html"), *site.rglob("*.css"))):
        if found := loads.search(file.read_text(encoding="utf-8")):
            raise BuildError(f"{file.relative_to(site)} loads from another host: {found[0]}")
