"""What a cubin holds besides code: parameters, constant banks, variables, shared and local memory of a kernel.

Numbers of attributes are EIATTR_* as ``cuobjdump -elf`` prints them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from gemmsmith.compile.elf import attributes, sections
from gemmsmith.errors import SimulationError

_PARAM_CBANK, _KPARAM_INFO, _MIN_STACK, _FRAME = 0x0A, 0x17, 0x12, 0x11
_CTA_PER_CLUSTER = 0x3D
_CONSTANT = ".nv.constant"
_REL, _RELA = ".rel", ".rela"


class Parameter(NamedTuple):
    """Where a parameter lies in the kernel's parameters, and its bytes."""

    offset: int
    size: int


class ImageSymbol(NamedTuple):
    """A symbol: the section it is in, its offset there and its size."""

    name: str
    section: str
    offset: int
    size: int


class ImageRelocation(NamedTuple):
    """A place that gets the address of a symbol. ``half``: which word of it, None for all of it."""

    section: str
    offset: int
    symbol: ImageSymbol
    kind: int
    addend: int


@dataclass(frozen=True)
class Image:
    """One kernel of a cubin. ``constants`` are banks with their initial bytes; ``data`` are sections of variables.

    ``clusters``: the kernel was compiled for clusters of a given size.
    """

    entry: str
    parameters: tuple[Parameter, ...]
    first_parameter: int
    static_shared: int
    local: int
    constants: dict[int, bytes]
    data: dict[str, bytes]
    symbols: tuple[ImageSymbol, ...]
    relocations: tuple[ImageRelocation, ...]
    clusters: bool = False


def read_image(cubin: bytes, entry: str) -> Image:
    """The image of ``entry``; raises if the cubin has no such kernel."""
    try:
        return _read(cubin, entry)
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise SimulationError(f"the cubin does not describe {entry!r}: {error!r}") from error


def _read(cubin: bytes, entry: str) -> Image:
    parts = {section.name: section for section in sections(cubin)}
    names = [section.name for section in sections(cubin)]
    info = attributes(parts[f".nv.info.{entry}"].data)
    parameters = sorted({Parameter(*_parameter(value)) for number, value in info if number == _KPARAM_INFO})
    first = next((struct.unpack("<IHH", value)[1] for number, value in info if number == _PARAM_CBANK), 0)
    symbols = _symbols(parts[".symtab"].data, parts[".strtab"].data, names)
    shared = parts.get(f".nv.shared.{entry}")
    constants = {int(name[len(_CONSTANT) :].split(".")[0]): part.data or bytes(part.size)
                 for name, part in parts.items() if name.startswith(_CONSTANT)
                 and (name.endswith(f".{entry}") or "." not in name[len(_CONSTANT) :])}  # fmt: skip
    data = {name: part.data or bytes(part.size) for name, part in parts.items()
            if name in (".nv.global", ".nv.global.init")}  # fmt: skip
    stacks = [struct.unpack("<II", value)[1] for number, value in attributes(parts[".nv.info"].data)
              if number in (_MIN_STACK, _FRAME) and len(value) == 8]  # fmt: skip
    relocations = [found for name in parts if name.startswith(_REL)
                   for found in _relocations(name, parts[name].data, symbols)]  # fmt: skip
    return Image(entry, tuple(parameters), first, shared.size if shared else 0, max(stacks, default=0), constants,
                 data, tuple(symbols), tuple(relocations),
                 any(number == _CTA_PER_CLUSTER for number, _ in info))  # fmt: skip


def _parameter(value: bytes) -> tuple[int, int]:
    _, _, offset, packed = struct.unpack("<IHHI", value)
    return offset, packed >> 18


def _symbols(table: bytes, strings: bytes, names: list[str]) -> list[ImageSymbol]:
    found = []
    for number in range(len(table) // 24):
        name, _, section, offset, size = struct.unpack_from("<IHHQQ", table, 24 * number)
        text = strings[name : strings.index(b"\0", name)].decode()
        found.append(ImageSymbol(text, names[section] if section < len(names) else "", offset, size))
    return found


def _relocations(name: str, data: bytes, symbols: list[ImageSymbol]) -> list[ImageRelocation]:
    explicit = name.startswith(_RELA)
    section = name[len(_RELA if explicit else _REL) :]
    size = 24 if explicit else 16
    found = []
    for at in range(0, len(data) - size + 1, size):
        offset, packed = struct.unpack_from("<QQ", data, at)
        addend = struct.unpack_from("<q", data, at + 16)[0] if explicit else 0
        found.append(ImageRelocation(section, offset, symbols[packed >> 32], packed & 0xFFFFFFFF, addend))
    return found
