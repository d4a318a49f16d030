"""The repository around a user's file: its root, the headers a file includes, files that may launch its kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_SOURCES = frozenset({".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hxx", ".hh", ".inl"})
_SKIPPED = frozenset({"build", "node_modules", "third_party", "third-party", "3rdparty", "external", "venv", "site-packages"})
_MOST_ENTRIES = 20_000  # names looked at
_MOST_FILES = 400  # files searched for a kernel's name
_MOST_BYTES = 1_000_000  # of one file
_ALL_BYTES = 20_000_000
_MOST_INCLUDED = 300
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


def repository_root(path: Path) -> Path:
    """The nearest folder above ``path`` with ``.git``, else the file's own folder; symlinks are resolved."""
    folder = path.resolve().parent
    for above in (folder, *folder.parents):
        if (above / ".git").exists():
            return above
    return folder


def include_closure(path: Path, include: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    """``path`` and the files that it includes with quotes, directly or not, inside its repository or ``include``."""
    root = repository_root(path)
    allowed = (root, *(folder.resolve() for folder in include))
    found = {path.resolve(): path}
    queue = [path]
    while queue and len(found) < _MOST_INCLUDED:
        here = queue.pop(0)
        for name in quoted_includes(here):
            inside = _resolve(name, here, root, include, allowed)
            if inside is not None and inside not in found:
                found[inside] = inside
                queue.append(inside)
    return tuple(found.values())


def _resolve(name: str, here: Path, root: Path, include: tuple[Path, ...], allowed: tuple[Path, ...]) -> Path | None:
    """The file of an include: beside the including file, in ``include``, at the root or in its include folders."""
    for base in (here.parent, *include, root, root / "include", root / "src", root / "inc", here.parent.parent):
        candidate = Path(os.path.normpath(base / name))
        if candidate.is_file():
            real = candidate.resolve()
            if any(real.is_relative_to(folder) for folder in allowed):
                return real
    return None


def quoted_includes(path: Path) -> tuple[str, ...]:
    return tuple(_INCLUDE.findall(_text(path)))


def _text(path: Path) -> str:
    try:
        status = path.stat()
        return _text_cached(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return ""


@lru_cache(maxsize=512)
def _text_cached(path: Path, _time: int, _size: int) -> str:
    return path.read_bytes().decode("utf-8", "replace")


@dataclass(frozen=True)
class _Tree:
    """The source files of a repository by name, as far as limits allow."""

    files: tuple[Path, ...]


def files_that_mention(path: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    """Files of the repository with one of ``names`` in their text: those that include ``path`` first, then the others.

    Among the others, files near ``path`` come first.
    """
    own = path.resolve()
    searched = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
    including: list[Path] = []
    others: list[Path] = []
    read = 0
    candidates = sorted(_source_files(repository_root(path)), key=lambda file: _distance(own, file))
    for file in candidates[:_MOST_FILES]:
        if file == own:
            continue
        text = _text(file)
        read += len(text)
        if read > _ALL_BYTES:
            break
        if searched.search(text):
            included = any(Path(name).name == own.name for name in _INCLUDE.findall(text))
            (including if included else others).append(file)
    return (*including, *others)


def _distance(own: Path, file: Path) -> tuple[int, str]:
    shared = os.path.commonpath([own.parent, file.parent])
    depth = len(Path(shared).parts)
    return len(own.parent.parts) + len(file.parent.parts) - 2 * depth, str(file)


def _source_files(root: Path) -> Iterator[Path]:
    seen = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f.lower() not in _SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > _MOST_ENTRIES:
                return
            path = Path(folder, name)
            if path.suffix.lower() in _SOURCES and not path.is_symlink() and path.stat().st_size <= _MOST_BYTES:
                yield path
