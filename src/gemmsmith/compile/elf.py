"""A kernel's resources from its cubin: NVIDIA's attributes in an ELF file.

Attribute numbers are EIATTR_* as ``cuobjdump -elf`` prints them. Spills are not among them.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from gemmsmith.errors import CompileError
from gemmsmith.gpus import architecture

_FRAME_SIZE = 0x11
_REGCOUNT = 0x2F
_NUM_BARRIERS = 0x4C
_SIZED_VALUE = 0x04  # an attribute with a 16-bit length and that many bytes; others hold 16 bits in place


@dataclass(frozen=True)
class Section:
    """One section of an ELF file; ``data`` is empty for sections without bytes in the file."""

    name: str
    size: int
    data: bytes


@dataclass(frozen=True)
class CubinInfo:
    """Resources of one kernel."""

    registers: int
    frame: int
    barriers: int
    static_smem: int
    const_bytes: int


def cubin_info(cubin: bytes, entry: str) -> CubinInfo:
    """The resources of ``entry``; raises when the file is not a cubin or lacks one of them."""
    try:
        parts = {section.name: section for section in sections(cubin)}
        symbol = _symbol(parts, entry)
        registers = _per_symbol(parts[".nv.info"].data, _REGCOUNT, symbol)
        frame = _per_symbol(parts[".nv.info"].data, _FRAME_SIZE, symbol)
        barriers = [v for a, v in attributes(parts[f".nv.info.{entry}"].data) if a == _NUM_BARRIERS]
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise CompileError(f"the cubin does not describe {entry!r}: {error!r}") from error
    shared = parts.get(f".nv.shared.{entry}")
    # Cubins for sm_90 and newer count the shared memory that CUDA reserves in each block among the kernel's own.
    reserved = architecture(90).reserved_smem_per_block if ".nv.shared.reserved.0" in parts else 0
    constants = [s.size for s in parts.values() if re.fullmatch(rf"\.nv\.constant\d+\.{re.escape(entry)}", s.name)]
    return CubinInfo(
        registers=registers,
        frame=frame,
        barriers=barriers[0][0] if barriers else 0,  # a kernel without barriers lacks the attribute
        static_smem=shared.size - reserved if shared else 0,
        const_bytes=sum(constants),
    )


def sections(cubin: bytes) -> list[Section]:
    """All sections, in the order of the file."""
    if cubin[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", cubin, start + i * entry_size) for i in range(count)]
    names = rows[names_index][4]
    no_bits = 8
    return [
        Section(
            cubin[names + row[0] : cubin.index(b"\0", names + row[0])].decode(),
            row[5],
            b"" if row[1] == no_bits else cubin[row[4] : row[4] + row[5]],
        )
        for row in rows
    ]


def _symbol(sections: dict[str, Section], entry: str) -> int:
    """The index of ``entry`` in the symbol table, which attributes refer to."""
    table, strings = sections[".symtab"].data, sections[".strtab"].data
    for number in range(len(table) // 24):
        name, kind = struct.unpack_from("<IB", table, number * 24)
        function = 2
        if kind & 0xF == function and strings[name : strings.index(b"\0", name)].decode() == entry:
            return number
    raise KeyError(entry)


def attributes(data: bytes) -> list[tuple[int, bytes]]:
    """The attributes of an .nv.info section: numbers and values."""
    found, at = [], 0
    while at + 4 <= len(data):
        form, attribute = data[at], data[at + 1]
        if form == _SIZED_VALUE:
            (length,) = struct.unpack_from("<H", data, at + 2)
            found.append((attribute, data[at + 4 : at + 4 + length]))
            at += 4 + length
        else:
            found.append((attribute, data[at + 2 : at + 4]))
            at += 4
    return found


def _per_symbol(data: bytes, attribute: int, symbol: int) -> int:
    for number, value in attributes(data):
        if number == attribute and len(value) == 8:
            owner, amount = struct.unpack("<II", value)
            if owner == symbol:
                return int(amount)
    raise KeyError(f"attribute {attribute:#x} of symbol {symbol}")
