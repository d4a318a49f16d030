"""The cache's folder: private to its user, and checked before each use."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from gemmsmith.compile.foreign_links import foreign_link
from gemmsmith.errors import CacheError

ENVIRONMENT = "GEMMSMITH_CACHE_DIR"
_ELSEWHERE = f"choose another folder with --cache-dir or {ENVIRONMENT}"


def default_folder() -> Path:
    """``$GEMMSMITH_CACHE_DIR``, or ``compile`` in the user's cache folder."""
    chosen = os.environ.get(ENVIRONMENT, "")
    if chosen:
        return Path(chosen).expanduser()
    return Path(platformdirs.user_cache_dir("gemmsmith")) / "compile"


@contextmanager
def trusted_folder(path: Path) -> Iterator[int]:
    """A descriptor of the folder, created if necessary, owned and writable by this user alone.

    Use the descriptor for all access: it stays the folder that was checked, even if its name changes. Raises
    ``CacheError`` for a folder that cannot be trusted, ``OSError`` for one that cannot be created.
    """
    _check_links(path)
    _create(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (NotADirectoryError, FileNotFoundError) as error:
        raise CacheError(f"the cache folder {path} is not a folder", _ELSEWHERE) from error
    try:
        _check(path, os.lstat(path), os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _create(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            with suppress(FileExistsError):  # created by another process meanwhile, or a dangling link
                os.mkdir(folder, 0o700)


def _check_links(path: Path) -> None:
    link = foreign_link(path.parent)
    if link is not None:
        raise CacheError(
            f"the cache folder {path} lies behind {link.path}, a symbolic link that user {link.owner} made", _ELSEWHERE
        )


def _check(path: Path, link: os.stat_result, folder: os.stat_result) -> None:
    user = os.geteuid()
    if stat.S_ISLNK(link.st_mode) and link.st_uid != user:
        raise CacheError(f"the cache folder {path} is a symbolic link that user {link.st_uid} made", _ELSEWHERE)
    if folder.st_uid != user:
        raise CacheError(
            f"the cache folder {path} belongs to user {folder.st_uid}, not you ({user}), and could hold their kernels",
            _ELSEWHERE,
        )
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(
            f"the cache folder {path} can be written by others (mode {stat.S_IMODE(folder.st_mode):04o}): "
            "they could put kernels there",
            f"chmod 700 {path}, after deleting what is in it; or {_ELSEWHERE}",
        )
