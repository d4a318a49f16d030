"""Kernels that a wheel brings compiled: cache entries in the package's folder ``prebuilt``, read and never written.

``make prebuilt`` fills the folder before a release (``gemmsmith warm --into``). Keys include the compiler's version and
every source, so an entry that does not fit the installed compiler is never found. Without the folder nothing changes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gemmsmith.compile.cache_entry import decode
from gemmsmith.compile.compiled import CompiledKernel

FOLDER = Path(__file__).parents[1] / "prebuilt"


def prebuilt(key: str, folder: Path = FOLDER) -> CompiledKernel | None:
    """The kernel under ``key``, if the package has it."""
    if not _exists(folder):
        return None
    try:
        data = (folder / f"{key}.kernel").read_bytes()
    except OSError:
        return None
    return decode(data, key)


@cache
def _exists(folder: Path) -> bool:
    return folder.is_dir()
