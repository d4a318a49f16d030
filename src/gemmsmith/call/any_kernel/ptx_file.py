"""A launch of a kernel that is given as PTX, as Triton and the CuTe DSL write it: nothing is compiled.

PTX has the bytes of parameters, not their types. There is no machine code: a driver makes it when a GPU loads the file.
"""

from __future__ import annotations

import hashlib
import re
from difflib import get_close_matches
from pathlib import Path

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.errors import SignatureError, UnknownKernelError, UsageError
from gemmsmith.userfile.source import read_text

SUFFIX = ".ptx"
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$][\w$]*)")
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.M)
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.b8\s+[\w$]+\[(\d+)\]")
_PARAMETER = re.compile(r"\.param\b[^,()]*?([A-Za-z_$][\w$]*)(?:\[\d+\])?\s*(?:,|$)")


def read_ptx(path: Path, name: str, defines: bool) -> CompiledKernel:
    """The kernel ``name`` of a PTX file; an empty name means the only one there is."""
    if defines:
        raise UsageError(f"{path.name} is PTX, which has no macros", "leave the defines out")
    text = read_text(path)
    target = _TARGET.search(text)
    entries = _ENTRY.findall(text)
    if target is None or not entries:
        raise SignatureError(f"{path.name} has no {'.target' if target is None else '.entry'}", "is it a PTX file?")
    if not name and len(entries) > 1:
        raise SignatureError(f"{path.name} has several kernels: {', '.join(entries)}", "name one of them")
    if name and name not in entries:
        near = get_close_matches(name, entries, 1, 0.5)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UnknownKernelError(
            f"{path.name} has no kernel called {name!r}", f"{meant}its kernels: {', '.join(entries)}"
        )
    digest = hashlib.sha256(text.encode()).hexdigest()
    shared = sum(int(size) for size in _SHARED.findall(text))
    unknown = Resources(0, shared, 0, 0, 0, 0, 0)
    return CompiledKernel(name or entries[0], target.group(1), text, b"", unknown, "", "", digest, False, "")


def parameter_names(compiled: CompiledKernel) -> list[str]:
    """Names of the parameters in PTX, without the kernel's in front."""
    match = re.search(rf"\.entry\s+{re.escape(compiled.entry)}\s*\(([^)]*)\)", compiled.ptx)
    found = _PARAMETER.findall(match.group(1)) if match else []
    return [each.removeprefix(f"{compiled.entry}_") for each in found]
