"""A launch of a kernel that is given as PTX, as Triton and the CuTe DSL write it: nothing is compiled.

PTX has the bytes of parameters and whether they are integers or floating, not what pointers lead to. There is no
machine code: a driver makes it when a GPU loads the file.
"""

from __future__ import annotations

import hashlib
import re
from difflib import get_close_matches
from pathlib import Path

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.errors import SignatureError, UnknownKernelError, UsageError
from gemmsmith.userfile.text.source import read_text

SUFFIX = ".ptx"
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$][\w$]*)")
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.M)
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.b8\s+[\w$]+\[(\d+)\]")
_PARAMETERS = re.compile(r"\.param\s+(?P<rest>[^,()]+)")
_BYTES = re.compile(r"\.align\s+\d+\s+\.b8\s+[\w$]+\[(\d+)\]")
_TYPE = re.compile(r"\.([busf](?:8|16|32|64))\b")
_WIDTH = re.compile(r"\.(?:[busf])(8|16|32|64)\b")
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
        raise SignatureError(f"{path.name} has several kernels: {', '.join(entries)}", "name one of them (--entry)")
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


def described_entries(path: Path) -> list[str]:
    """Each kernel of a PTX file with what a launch must give it: its block, and the bytes of its parameters."""
    text = read_text(path)
    found = []
    for entry in _ENTRY.findall(text):
        sizes = parameter_sizes(text, entry)
        block = required_block(text, entry)
        needs = f" (block {','.join(map(str, block))})" if block else ""
        found.append(
            f"{entry}{needs} takes {len(sizes)} value{'s' * (len(sizes) != 1)} of {', '.join(map(str, sizes))} bytes"
        )
    return found


def required_block(ptx: str, entry: str) -> tuple[int, int, int] | None:
    """The block that .reqntid of an entry asks for."""
    return _directive(ptx, entry, "reqntid")


def largest_block(ptx: str, entry: str) -> tuple[int, int, int] | None:
    """The block of .maxntid, which __launch_bounds__ sets: its product is the most threads that a block may have."""
    return _directive(ptx, entry, "maxntid")


def _directive(ptx: str, entry: str, name: str) -> tuple[int, int, int] | None:
    match = re.search(rf"\.entry\s+{re.escape(entry)}\b[^{{]*?\.{name}\s+([\d,\s]+)", ptx)
    if match is None:
        return None
    x, y, z, *_ = (*(int(each) for each in match.group(1).split(",")), 1, 1)
    return x, y, z


def cluster_of(ptx: str, entry: str) -> tuple[int, int, int] | None:
    """The cluster that an entry is compiled for (.reqnctapercluster)."""
    return _directive(ptx, entry, "reqnctapercluster")


def parameter_sizes(ptx: str, entry: str) -> list[int]:
    """The bytes of each parameter of ``entry``."""
    match = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    if match is None:
        if re.search(rf"\.entry\s+{re.escape(entry)}\b", ptx):
            return []
        raise SignatureError(f"the compiled code has no entry {entry}")
    sizes = []
    for parameter in _PARAMETERS.finditer(match.group(1)):
        text = parameter.group("rest")
        array, width = _BYTES.search(text), _WIDTH.search(text)
        if array:
            sizes.append(int(array.group(1)))
        elif width:
            sizes.append(int(width.group(1)) // 8)
        else:
            raise SignatureError(f"the parameter '.param {text.strip()}' of {entry} is not understood")
    return sizes


def parameter_types(ptx: str, entry: str) -> list[str]:
    """The PTX type of each parameter, as 'f32'; empty for an array of bytes."""
    match = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    declared = [each.group("rest") for each in _PARAMETERS.finditer(match.group(1))] if match else []
    return [found.group(1) if "[" not in text and (found := _TYPE.search(text)) else "" for text in declared]


def address_parameters(ptx: str, entry: str) -> set[str]:
    """The parameters that an entry takes as addresses of global memory: declared so (.ptr), or converted to one."""
    match = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)(.*?)(?=\.entry\s|\Z)", ptx, re.S)
    if match is None:
        return set()
    found = {name for text in match.group(1).split(",") if ".ptr" in text for name in _PARAMETER.findall(text)}
    loads = re.findall(r"ld\.param\.[bus]64\s+(%[\w$]+)\s*,\s*\[([\w$]+)\]", match.group(2))
    converted = set(re.findall(r"cvta\.to\.global\.u64\s+%[\w$]+\s*,\s*(%[\w$]+)", match.group(2)))
    return found | {name for register, name in loads if register in converted}


def parameter_names(compiled: CompiledKernel) -> list[str]:
    """Names of the parameters in PTX, without the kernel's in front."""
    match = re.search(rf"\.entry\s+{re.escape(compiled.entry)}\s*\(([^)]*)\)", compiled.ptx)
    found = _PARAMETER.findall(match.group(1)) if match else []
    return [each.removeprefix(f"{compiled.entry}_") for each in found]
