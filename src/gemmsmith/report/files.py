"""Reading the package's own templates, and writing a file all at once."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from pathlib import Path


def inline(name: str) -> str:
    """The text of one of the package's style sheets or scripts."""
    return files("gemmsmith.report").joinpath("templates", name).read_text(encoding="utf-8")


def replace_file(path: str | Path, text: str) -> Path:
    """Write ``text`` to ``path``: a reader sees the old file or the new one, never a part. Not safe from power loss."""
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target
