"""The source files of tasks, by content: what reading a user's file may touch, packed once and unpacked on each worker.

A file may include, and be launched from, any file of its repository (``userfile/files/include_search.py``), so the
whole repository travels. Of a folder that is no repository, its own files travel, and what they include below it. A
worker unpacks them below a folder of its own, as if that were the root of a file system: relative paths stay as they
are, and absolute ones only get that folder in front, which is taken away from results again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.include_search import repository_of

_SUFFIXES = frozenset(
    {".cu", ".cuh", ".cuda", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hxx", ".hh", ".h++", ".inl", ".inc", ".ipp",
     ".tpp", ".ptx", ".py", ".def", ".impl"}
)  # fmt: skip
_LARGEST_FILE = 4 << 20
_MOST_BYTES = 256 << 20
_MOST_ENTRIES = 100_000
_INCLUDED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.M)


@dataclass(frozen=True)
class SourceTree:
    """Packed files and the working directory they are read from; ``digest`` names the contents."""

    data: bytes
    digest: str


def pack(files: Sequence[Path], folders: Sequence[Path] = ()) -> SourceTree:
    """``files`` with their repositories, and all sources below ``folders`` (of ``-I``)."""
    named = [Path(os.path.abspath(file)) for file in files]
    roots = {repository_of(file) for file in named} | {repository_of(file.resolve()) for file in named}
    roots |= {Path(os.path.abspath(folder)) for folder in folders}
    whole = {root for root in roots if (root / ".git").exists()} | {Path(os.path.abspath(folder)) for folder in folders}
    found = _Found()
    for path in (*named, *(path for root in sorted(roots) for path in _sources_below(root, root in whole))):
        found.add(path)
    seen = 0
    while seen < len(found.files):  # what is included may include more
        names, seen = list(found.files)[seen:], len(found.files)
        for path in _includes(names, found.files, roots):
            found.add(path)
    marks = sorted(str(root) for root in roots if (root / ".git").exists())
    content = {
        "files": {name: base64.b64encode(text).decode() for name, text in sorted(found.files.items())},
        "repositories": marks, "cwd": os.getcwd(), "folders": sorted(map(str, roots)),
    }  # fmt: skip
    text = json.dumps(content, sort_keys=True).encode(errors="surrogatepass")
    return SourceTree(zlib.compress(text, 1), hashlib.sha256(text).hexdigest())


class _Found:
    """Files by their absolute paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._bytes = 0

    def add(self, path: Path) -> None:
        if str(path) in self.files:
            return
        with suppress(OSError):  # a dangling link, or no permission: the command says so where it reads the file
            if regular(path).stat().st_size <= _LARGEST_FILE:
                self.files[str(path)] = path.read_bytes()
                self._bytes += len(self.files[str(path)])
        if self._bytes > _MOST_BYTES:
            raise UsageError(f"the sources around {path} are more than {_MOST_BYTES >> 20} MiB, too many to send",
                             "check a folder with less in it")  # fmt: skip


def _sources_below(root: Path, deep: bool) -> Iterator[Path]:
    """Sources in ``root``; with ``deep`` in its folders, too."""
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(names):
            seen += 1
            if seen > _MOST_ENTRIES:
                return
            if Path(name).suffix.lower() in _SUFFIXES:
                yield Path(folder, name)
        if not deep:
            return


def _includes(names: Iterable[str], files: dict[str, bytes], roots: Iterable[Path]) -> Iterator[Path]:
    """What these files include: beside the including file, or below a root."""
    for name in names:
        for spelling in {match.decode("utf-8", "replace") for match in _INCLUDED.findall(files[name])}:
            if "\0" in spelling:
                continue
            for base in (Path(name).parent, *roots):
                path = Path(os.path.normpath(base / spelling))
                if any(path.is_relative_to(root) for root in roots) and path.is_file():
                    yield path


def unpack(data: bytes, root: Path) -> Path:
    """Write the files below ``root``; returns the folder that stands for the packer's working directory."""
    content = json.loads(zlib.decompress(data))
    for name, text in content["files"].items():
        path = below(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(text))
    for name in content["folders"]:
        below(root, name).mkdir(parents=True, exist_ok=True)
    for name in content["repositories"]:
        (below(root, name) / ".git").mkdir(exist_ok=True)
    here = below(root, content["cwd"])
    here.mkdir(parents=True, exist_ok=True)
    return here


def below(root: Path, name: str) -> Path:
    """Where the absolute path ``name`` lies on a worker; never outside ``root``."""
    path = Path(os.path.normpath(str(root) + "/" + name))
    if not path.is_relative_to(root):
        raise UsageError(f"{name} leads out of a task's folder")
    return path
