"""Symbolic links on the way to a file that another user made: they can lead anywhere, and elsewhere tomorrow."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_MOST_LINKS = 40  # as the kernel follows


@dataclass(frozen=True)
class Link:
    """A symbolic link and the user who made it."""

    path: Path
    owner: int


def foreign_link(path: Path) -> Link | None:
    """The first link on the way to ``path``, itself included, that neither this user nor root made; None if none.

    Links that a link leads through are looked at too. What cannot be looked at is left to those who open the file.
    """
    trusted = (0, os.geteuid())
    here = Path("/")
    ahead = list(reversed((Path.cwd() / path).parts[1:]))
    links = 0
    while ahead:
        part = ahead.pop()
        if part == "..":
            here = here.parent
            continue
        try:
            found = os.lstat(here / part)
        except OSError:
            return None
        if not stat.S_ISLNK(found.st_mode):
            here /= part
            continue
        links += 1
        if found.st_uid not in trusted:
            return Link(here / part, found.st_uid)
        if links > _MOST_LINKS:
            return None
        target = Path(os.readlink(here / part))
        if target.is_absolute():
            here = Path("/")
        ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return None
