"""The repository around a user's file: its root, the headers a file includes, files that may launch its kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.include_search import IncludeSearch, repository_of
from gemmsmith.userfile.files.read_once import once

_SOURCES = frozenset({".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hxx", ".hh", ".inl"})
_SKIPPED = frozenset(
    {"build", "node_modules", "third_party", "third-party", "3rdparty", "external", "venv", "site-packages"}
)
_MOST_ENTRIES = 20_000  # names looked at
_MOST_FILES = 400  # files searched for a kernel's name
_MOST_BYTES = 1_000_000  # of one file
_MOST_OF_HEADER = 4_000_000  # bytes of an included file; larger ones are data
_ALL_BYTES = 20_000_000
_MOST_INCLUDED = 300
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.M)


def include_closure(path: Path, search: IncludeSearch) -> tuple[Path, ...]:
    """``path`` and the files that it includes, directly or not, as far as ``search`` allows to read them.

    CUTLASS's own headers are left to the compiler: they have no kernels of the user's, and reading them takes longer
    than the whole check of most kernels.
    """
    found = {path.resolve(): path}
    own = repository_of(path.resolve())
    queue = [path]
    while queue and len(found) < _MOST_INCLUDED:
        here = queue.pop(0)
        for opening, name in _INCLUDE.findall(_text(here)):
            file = search.find(name, opening == '"', here.parent).path
            if file is None or file.resolve() in found or not _is_source(file, _MOST_OF_HEADER):
                continue
            if not (re.match(r"(?:cute|cutlass)/", name) and _is_library(file, path, own)):
                found[file.resolve()] = file
                queue.append(file)
    return tuple(found.values())


def _is_library(header: Path, path: Path, own: Path) -> bool:
    """Whether a header is of a CUTLASS that ``path`` is no part of: outside its repository, or in another subtree."""
    header, path = header.resolve(), path.resolve()
    if not header.is_relative_to(own):
        return True
    root = next((parent for parent in header.parents if parent.name in ("cute", "cutlass")), header).parent
    return root.name == "include" and not path.is_relative_to(root.parent)


def _text(path: Path) -> str:
    try:
        return regular(path).read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return ""


@dataclass(eq=False)
class RepositoryFiles:
    """The source files of a repository, as far as limits allow; each is read once."""

    root: Path
    _files: tuple[Path, ...] | None = None
    _texts: dict[Path, str] = field(default_factory=dict)

    @classmethod
    def around(cls, path: Path) -> RepositoryFiles:
        root = repository_of(path.resolve())
        return once("repository", root, lambda: cls(root))

    def mentioning(self, path: Path, name: str) -> tuple[Path, ...]:
        """Files with ``name`` in their text: those that include ``path`` first, then the others, nearer ones first."""
        own = path.resolve()
        word = re.compile(rf"\b{re.escape(name)}\b")
        including: list[Path] = []
        others: list[Path] = []
        if self._files is None:
            self._files = tuple(_source_files(self.root))
        for file in sorted(self._files, key=lambda file: _distance(own, file))[:_MOST_FILES]:
            if file == own:
                continue
            text = self._read(file)
            if name in text and word.search(text):
                included = any(Path(each).name == own.name for _, each in _INCLUDE.findall(text))
                (including if included else others).append(file)
        return (*including, *others)

    def _read(self, file: Path) -> str:
        if file not in self._texts:
            full = sum(map(len, self._texts.values())) > _ALL_BYTES
            self._texts[file] = "" if full else _text(file)
        return self._texts[file]


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
            if not path.is_symlink() and _is_source(path, _MOST_BYTES):
                yield path


def _is_source(path: Path, most: int) -> bool:
    try:
        return path.suffix.lower() in _SOURCES and regular(path).stat().st_size <= most
    except OSError:
        return False
