"""The files that a command names, as its tasks see them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.cli.kernels import is_file
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cluster.sources import SourceTree, below, pack


@dataclass(frozen=True)
class SentFiles:
    """The sources of a command: ``digest`` is a task's ``sources``, '' where it reads none."""

    trees: tuple[SourceTree, ...] = ()

    @property
    def digest(self) -> str:
        return self.trees[0].digest if self.trees else ""


def sent_files(kernels: Iterable[str], include: Iterable[Path] | None = None) -> SentFiles:
    """Those among ``kernels`` that are files, with what they may include."""
    files = [Path(word) for word in kernels if is_file(word)]
    return SentFiles((pack(files, tuple(include or ())),)) if files else SentFiles()


def seen(word: str, folder: Path) -> str:
    """A word of the command line on a worker: an absolute path of a sent file lies below ``folder``."""
    for before, path in (("", word), (word[:2], word[2:])):
        name = path.partition(":")[0]
        if before in ("", "-I") and os.path.isabs(name) and below(folder, name).exists():
            return before + str(below(folder, name)) + path[len(name) :]
    return word


def seen_words(words: Sequence[str], folder: Path) -> list[str]:
    return [seen(word, folder) for word in words]


def seen_options(options: KernelOptions, folder: Path) -> KernelOptions:
    """The same options, with the folders of ``-I`` on this worker."""
    return replace(options, include=[Path(seen(str(path), folder)) for path in options.include or ()] or None)
