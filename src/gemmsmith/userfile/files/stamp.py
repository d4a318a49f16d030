"""Whether files have changed: identity, size and time of each."""

from __future__ import annotations

import os

Stamp = tuple[tuple[str, int, int, int], ...]


def stamp(files: tuple[str, ...]) -> Stamp:
    """Identity, size and time of each file; -1 for a missing file."""
    rows = []
    for file in files:
        try:
            status = os.stat(file)
            rows.append((file, status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            rows.append((file, -1, -1, -1))
    return tuple(rows)
