"""What a user says about a file: on the command line, or in a comment of the file.

// gemmsmith: block=32,32 grid=ceil(N/32),ceil(M/32) smem=0 entry=my_kernel signature=A,B,C,M,N,K
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.userfile.files.edited import Edited

_KEYS = ("entry", "grid", "block", "smem", "signature", "layout")


@dataclass(frozen=True)
class UserOptions:
    """The user's options for a file; what is empty is read from the file or inferred."""

    entry: str = ""
    grid: str = ""
    block: str = ""
    smem: str = ""
    signature: str = ""
    layout: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    include: tuple[Path, ...] = ()
    edited: Edited = ()  # texts in place of files


def with_directives(options: UserOptions, text: str) -> UserOptions:
    """The options, completed by directives in comments of the file's ``text``."""
    for line in re.findall(r"//\s*gemmsmith:\s*(.+)", text):
        for key, value in re.findall(r"(\w+)\s*=\s*(\S+)", line):
            if key not in _KEYS:
                raise UsageError(f"unknown directive {key!r} in '// gemmsmith: {line.strip()}'",
                                 f"known: {', '.join(_KEYS)}")  # fmt: skip
            if not getattr(options, key):
                options = replace(options, **{key: value})
    return options
