"""Collect a source's quoted includes recursively as text, so that paths do not matter."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.stamp import Stamp, stamp

QUOTED_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*")([^"\n]+)(")', re.M)


@dataclass(frozen=True)
class Bundle:
    """A source text, the headers it includes as (name, text), and the files as they were when read."""

    source: str
    headers: tuple[tuple[str, str], ...]
    files: Stamp


@dataclass
class _Collector:
    root: Path
    search: tuple[Path, ...]
    names: dict[Path, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    files: list[Stamp] = field(default_factory=list)

    def read(self, path: Path) -> str:
        self.files.append(stamp((str(path),)))  # before reading, so that a change meanwhile is noticed
        return self.rewrite(read_source(path), path.parent)

    def rewrite(self, text: str, folder: Path) -> str:
        """``text`` with each local include spelled by its header's unique name.

        NVRTC identifies a header by the spelling of its include. A file with two spellings would be two headers, and
        ``#pragma once`` would fail.
        """

        def one_name(match: re.Match[str]) -> str:
            path = self._resolve(match.group(2), folder)
            return match.group(0) if path is None else match.group(1) + self._add(path) + match.group(3)

        return QUOTED_INCLUDE.sub(one_name, text)

    def _resolve(self, spelling: str, folder: Path) -> Path | None:
        """The file of an include: beside the including file first. None: left to NVRTC."""
        for base in (folder, *self.search):
            path = Path(os.path.normpath(base / spelling))
            if path.is_file():
                return path
        return None

    def _add(self, path: Path) -> str:
        if path in self.names:
            return self.names[path]
        name = self._name(path)
        self.names[path] = name
        self.texts[name] = ""  # reserves the name, for include cycles
        self.texts[name] = self.read(path)
        return name

    def _name(self, path: Path) -> str:
        """The path relative to the kernel's folder (or ours), so that moving a project changes nothing."""
        base = next((s for s in self.search if path.is_relative_to(s)), self.root)
        name = Path(os.path.relpath(path, base)).as_posix()
        while name in self.texts:
            name = "_/" + name
        return name


def bundle(path: Path, search: tuple[Path, ...]) -> Bundle:
    """The text of ``path`` with every local header that it includes."""
    path = Path(os.path.abspath(path))
    collector = _Collector(path.parent, tuple(Path(os.path.abspath(s)) for s in search))
    source = collector.read(path)
    return Bundle(source, tuple(sorted(collector.texts.items())), sum(collector.files, ()))


def read_source(path: Path) -> str:
    """A source file's text; raises ``UsageError`` with the reason where it cannot be read."""
    try:
        return regular(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
