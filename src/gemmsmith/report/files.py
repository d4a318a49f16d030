"""Read the package's templates, and replace a file atomically."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from pathlib import Path


def inline(name: str) -> str:
    """The text of a style sheet or script in the package."""
    return files("gemmsmith.report").joinpath("templates", name).read_text(encoding="utf-8")


def replace_file(path: str | Path, text: str) -> Path:
    """Replace ``path`` with ``text``. Atomic for readers; not durable across power loss.

    Bytes of a command line that are no UTF-8 are escaped. A device or a pipe (``/dev/null``) is written to.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return target
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target
