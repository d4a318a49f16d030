"""Files that a user names must be regular files: a named pipe would wait for a writer, a device may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def regular(path: Path) -> Path:
    """``path``; raises OSError with the reason if it leads to no regular file."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path
