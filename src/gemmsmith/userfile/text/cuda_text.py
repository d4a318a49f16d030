"""The CUDA code of a file: of a .cu file all of it; of Python, and of C++ that compiles strings, those strings."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_KERNEL = "__global__"
_HOSTS = (".cpp", ".cc", ".cxx", ".c++")  # which no kernel is in but as a string
_RAW = re.compile(r'\b(?:u8|[uUL])?R"([^()\\\s]{0,16})\((.*?)\)\1"', re.S)


def cuda_text(path: Path, text: str) -> str:
    """The code of a file's ``text`` that a CUDA compiler is given, each line where it stands in the file."""
    if path.suffix == ".py" and has_kernel_strings(text):
        from gemmsmith.userfile.python.python_strings import cuda_of_python

        return cuda_of_python(text)
    if path.suffix in _HOSTS and _KERNEL in text:
        return _of_raw_strings(text)
    return text


def has_kernel_strings(text: str) -> bool:
    """Whether a Python file has kernels in strings, and is no description of launches for gemmsmith itself."""
    return _KERNEL in text and re.search(r"^\s*(?:import|from)\s+gemmsmith\b", text, re.M) is None


@lru_cache(maxsize=16)
def _of_raw_strings(text: str) -> str:
    """A C++ file with the contents of its raw strings in place of the strings, if its kernels are in such alone."""
    outside = _RAW.sub(lambda match: "\n" * match[0].count("\n"), text)
    if _KERNEL in outside:
        return text
    parts, last = [], 0
    for match in _RAW.finditer(text):
        if _KERNEL in match[2]:
            parts += ["\n" * text.count("\n", last, match.start()), match[2]]
            last = match.end()
    return "".join([*parts, "\n" * text.count("\n", last)]) if parts else text
