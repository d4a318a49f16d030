"""Which file an include of a user's file means, and whether it may be read.

A file may include what lies in its own repository (the nearest folder above with ``.git``, else its own folder), in the
folders given with ``-I``, and CUDA's headers. Symbolic links are resolved first. All else is refused by name, whether
it exists or not, and is never opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.read_once import once

_USUAL = ("", "include", "src", "csrc", "inc")
_SOURCES = (".h", ".hpp", ".cuh", ".cu", ".inl", ".hxx", ".hh", ".h++", ".inc", ".ipp", ".tpp", ".cu.h")
_MOST_FILES = 20_000  # looked at in a repository
_LARGEST = 1 << 20  # bytes of a file that is searched for includes
# Headers of a toolkit that NVRTC cannot compile, and that only host code needs: interfaces of its libraries.
_HOST_CUDA = re.compile(
    r"cuda\.h|cuda\w*(?:Typedefs|GL|EGL|VDPAU)\w*\.h|\w+_interop\.h|nvrtc\.h|cuda_occupancy\.h|channel_descriptor\.h|"
    r"cuda_profiler_api\.h|thrust/.*|cub/cub\.cuh|cub/device/.*|nvtx3?/.*|nvToolsExt\w*\.h|"
    r"(?:cublas|cusparse|cusolver|cufft|cudnn|cutensor|cufile|cupti|cudla|nvml|nvjpeg|nvblas|nvJitLink|nvPTXCompiler|"
    r"npp|nccl|fatbinary|curand_mtgp32_host)\w*\.h|curand\.h"
)
# Libraries that are called from host code.
_HOST_LIBRARY = re.compile(
    r"(?:cublas|cudnn|cusolver|cusparse|cufft|nccl|nvml|nvjpeg|npp|helper_|opencv|boost|Eigen|gtest|gmock|benchmark|"
    r"torch|ATen|c10|pybind11|THC|mpi|omp|nvToolsExt|nvtx3|Python|numpy|fmt|spdlog|GL|GLFW|freeglut)(?![a-z]*dx).*|"
    r"curand\.h|nvshmem\.h|windows\.h|Windows\.h|conio\.h|process\.h"
)
# C and C++ headers: what device code uses of them is in the prelude (stub_headers.py).
_STANDARD = re.compile(
    r"[a-z_0-9]+|bits/.*|(?:assert|complex|ctype|errno|fenv|float|inttypes|limits|locale|malloc|math|memory|setjmp|signal|"
    r"stdalign|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|unistd|wchar|pthread|omp|mpi)\.h|"
    r"(?:sys|linux|arpa|netinet)/.*"
)


@dataclass(frozen=True)
class Included:
    """What an include means: a file to be bundled, CUDA's own header, a host header, nothing, or a refusal.

    kind  "file", "cuda", "host", "missing" or "refused"
    """

    kind: str
    path: Path | None = None


class IncludeSearch:
    """Where the includes of one user's file are looked for."""

    def __init__(self, file: Path, folders: tuple[Path, ...], cuda: tuple[Path, ...], own: tuple[Path, ...]) -> None:
        """``folders`` are those of ``-I``, ``cuda`` the compiler's own, ``own`` gemmsmith's."""
        self.file = Path(os.path.abspath(file))
        self.root = repository_of(self.file)
        self.folders = tuple(Path(os.path.abspath(folder)) for folder in folders)
        self.cuda, self.own = cuda, own
        self._found: dict[tuple[str, bool, Path], Included] = {}
        self.allowed = tuple(folder.resolve() for folder in (self.root, *self.folders, *own))

    def find(self, spelling: str, quoted: bool, folder: Path) -> Included:
        """What ``#include "spelling"`` or ``<spelling>`` means in a file that lies in ``folder``."""
        what = (spelling, quoted, folder)
        if what not in self._found:
            self._found[what] = self._find(spelling.strip(), quoted, folder)
        return self._found[what]

    def _find(self, spelling: str, quoted: bool, folder: Path) -> Included:
        if not spelling or "\0" in spelling:
            return Included("missing")
        outside = lacking = False
        for base in (folder,) if quoted else ():
            kind, path = self._file(base, spelling)
            if path is not None:
                return Included("file", path)
            outside, lacking = kind == "refused", kind == "missing"
        plain = not os.path.isabs(spelling) and ".." not in PurePosixPath(spelling).parts
        if plain and (known := self._known(spelling, quoted)) is not None:
            return known
        for base in (*self.folders, *(self.root / name for name in _USUAL), *self.own):
            kind, path = self._file(base, spelling)
            if path is not None:
                return Included("file", path)
            outside |= kind == "refused" and not lacking  # ../x.h of a folder in the repository is no file beside it
        if (path := self._anywhere(spelling, folder)) is not None:
            return Included("file", path)
        if outside:
            return Included("refused")
        return Included("host" if _HOST_LIBRARY.fullmatch(spelling) else "missing")

    def _known(self, spelling: str, quoted: bool) -> Included | None:
        if not quoted and _STANDARD.fullmatch(spelling):
            return Included("host")
        if any((folder / spelling).is_file() for folder in self.cuda):
            return Included("host" if _HOST_CUDA.fullmatch(spelling) else "cuda")
        return Included("host") if quoted and _STANDARD.fullmatch(spelling) and "." in spelling else None

    def _file(self, base: Path, spelling: str) -> tuple[str, Path | None]:
        path = Path(os.path.normpath(base / spelling))
        if not self._inside(path):
            return "refused", None
        try:
            if not path.is_file():
                return "missing", None
            resolved = path.resolve()
        except (OSError, ValueError):  # a name too long, a loop of links
            return "missing", None
        return ("file", path) if self._inside(resolved) else ("refused", None)

    def _inside(self, path: Path) -> bool:
        roots = (*self.allowed, self.root, *self.folders, *self.own)
        return any(path.is_relative_to(root) for root in roots)

    def _anywhere(self, spelling: str, folder: Path) -> Path | None:
        """The repository's only file, or the nearest one, whose path ends as the include does."""
        parts = [part for part in PurePosixPath(spelling).parts if part not in ("..", ".", "/")]
        if not parts:
            return None
        found = [path for path in self._index.get(parts[-1], ()) if path.parts[-len(parts) :] == tuple(parts)]
        found = [path for path in found if self._file(path.parent, path.name)[1] is not None]
        return max(found, key=lambda path: (_common(path, folder), str(path)), default=None)

    def includers(self, file: Path) -> list[Path]:
        """The repository's files that include ``file`` by its name, headers before sources, the nearest first."""
        line = re.compile(rf'^[ \t]*#[ \t]*include[ \t]*["<](?:[^">\n]*/)?{re.escape(file.name)}[">]', re.M)
        found = []
        for path in (path for paths in self._index.values() for path in paths):
            with suppress(OSError):
                if path == file or regular(path).stat().st_size >= _LARGEST:
                    continue
                if line.search(path.read_text(encoding="utf-8-sig", errors="replace")):
                    found.append(path)
        return sorted(found, key=lambda path: (path.suffix == ".cu", -_common(path, file), str(path)))

    @cached_property
    def _index(self) -> dict[str, list[Path]]:
        return once("names", self.root, lambda: _by_name(self.root))


def repository_of(file: Path) -> Path:
    """The nearest folder above ``file`` with ``.git``, else the file's own folder."""
    for folder in file.parents:
        if (folder / ".git").exists():
            return folder
    return file.parent


def _by_name(root: Path) -> dict[str, list[Path]]:
    index: dict[str, list[Path]] = {}
    for path in _source_files(root):
        index.setdefault(path.name, []).append(path)
    return index


def _source_files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith((".", "build")))
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                return
            if name.endswith(_SOURCES):
                yield Path(folder, name)


def _common(path: Path, folder: Path) -> int:
    return len(os.path.commonpath([path, os.path.abspath(folder)]))
