"""Python files on the command line: descriptions of launches, or sources with kernels in their strings."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.regular_file import regular
from gemmsmith.userfile.text.cuda_text import has_kernel_strings

PYTHON_FILE = ".py"
_LOOKED_AT = 1 << 20  # bytes of a file in which kernels are looked for


def describes_launches(word: str) -> bool:
    """Whether ``word`` names a Python file that describes launches; one with kernels in its strings is a source."""
    file = word.partition(":")[0]
    return file.endswith(PYTHON_FILE) and not has_kernels(Path(file))


def has_kernels(path: Path) -> bool:
    """Whether a Python file has kernels in its strings."""
    try:
        with regular(path).open("rb") as file:
            start = file.read(_LOOKED_AT)
    except OSError:
        return False
    return has_kernel_strings(start.decode("utf-8", errors="replace"))
