"""The files around a user's kernel, each read once: one object per command, so that nothing is kept for longer."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.userfile.files.include_search import IncludeSearch
from gemmsmith.userfile.files.read_once import once
from gemmsmith.userfile.files.repository import RepositoryFiles
from gemmsmith.userfile.text.parts import SourceFile
from gemmsmith.userfile.text.source import read_source_file, read_sources


@dataclass(eq=False)
class Project:
    """A user's file with its repository. ``include`` are the folders given with ``-I``, ``edited`` texts in place of
    files."""

    path: Path
    include: tuple[Path, ...] = ()
    edited: Edited = ()
    _closures: dict[Path, tuple[SourceFile, ...]] = field(default_factory=dict)
    _repositories: dict[Path, RepositoryFiles] = field(default_factory=dict)
    _mentions: dict[tuple[Path, str], tuple[Path, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, include: tuple[Path, ...] = (), edited: Edited = ()) -> Project:
        """The project of a file; the same one as before, where a command reads files once."""
        return once("project", (path, include, edited), lambda: cls(path, include, edited))

    @cached_property
    def _search(self) -> IncludeSearch:
        return IncludeSearch(self.path, self.include, (), ())

    def sources(self, path: Path) -> tuple[SourceFile, ...]:
        """``path`` and the headers that it includes."""
        if path not in self._closures:
            self._closures[path] = read_sources(path, self._search, self.edited)
        return self._closures[path]

    def mentioning(self, path: Path, name: str) -> tuple[Path, ...]:
        """Other files of the repository with ``name`` in their text: those that include ``path`` first."""
        if (path, name) not in self._mentions:
            files = RepositoryFiles.around(path)
            files = self._repositories.setdefault(files.root, files)
            self._mentions[path, name] = files.mentioning(path, name)
        return self._mentions[path, name]

    def read(self, path: Path) -> SourceFile | None:
        """One file by itself; None if it is no text."""
        try:
            return read_source_file(path, edited=self.edited)
        except UsageError:
            return None
