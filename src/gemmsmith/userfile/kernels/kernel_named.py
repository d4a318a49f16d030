"""The kernel that Python code names: a rung, or a user's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gemmsmith.errors import UnknownKernelError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.regular_file import regular
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

_SOURCES = (".cu", ".cuh")


def kernel_named(
    kernel: str | os.PathLike[str], config: Mapping[str, int | str] | None = None, entry: str = "", layout: str = ""
) -> tuple[KernelSpec, Config]:
    """A rung with parameters changed by ``config``, or the kernel of a .cu file with macros set by it."""
    if isinstance(kernel, str) and not kernel.endswith(_SOURCES):
        spec = rung_named(kernel)
        return spec, spec.config(config)
    path = Path(kernel)
    try:
        regular(path)
    except OSError as error:
        raise UnknownKernelError(f"cannot read {path}: {error.strerror}", "give the path of a .cu file") from None
    defines = tuple((name, str(value)) for name, value in (config or {}).items())
    spec = user_kernel(path, UserOptions(entry=entry, layout=layout, defines=defines))
    return spec, spec.config()
