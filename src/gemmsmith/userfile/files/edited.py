"""Texts in place of files: a change is tried on a copy, and the user's file stays as it is."""

from __future__ import annotations

from pathlib import Path

Edited = tuple[tuple[Path, str], ...]


def edited_text(path: Path, edited: Edited) -> str | None:
    """What stands in for ``path``; None if nothing does."""
    if not edited:
        return None
    own = path.resolve()
    return next((text for file, text in edited if file.resolve() == own), None)
