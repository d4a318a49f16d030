"""Which of a kernel's parameters it uses, and which point to memory that it reads or writes, from its PTX."""

from __future__ import annotations

import re

from gemmsmith.verify.code.instruction_start import START

_PARAMETER = re.compile(r"^(?P<to>%\w+|\{[^}]*\}), \[(?:\w*?)_param_(?P<index>\d+)")
_INSTRUCTION = re.compile(START + r"(?P<name>[a-z]\w*(?:[.:]{1,2}\w+)*)\s+(?P<operands>[^;]*);", re.M)
_LOADS = re.compile(r"ld(?:\.|$)(?!.*(?:shared|param|local|const))|red\.|atom\.|wmma\.load|cp\.async")
_STORES = re.compile(r"st(?:\.|$)(?!.*shared)|red\.|atom\.|wmma\.store|cp\.async\.bulk.*\.global\.shared|cp\.reduce")


def written_parameters(ptx: str, entry: str) -> set[int]:
    """The indices of the parameters whose memory ``entry`` stores to.

    An address is followed from where it is loaded through all 64-bit arithmetic; values loaded from memory are not
    addresses. Stores through a pointer that the kernel loads from memory are not seen.
    """
    return _reached(ptx, entry, _STORES)


def read_parameters(ptx: str, entry: str) -> set[int]:
    """The indices of the parameters whose memory ``entry`` loads from."""
    return _reached(ptx, entry, _LOADS)


def used_parameters(ptx: str, entry: str) -> set[int]:
    """The indices of the parameters that ``entry`` reads at all."""
    return {int(index) for index in re.findall(r"\[\w*?_param_(\d+)", _body(ptx, entry))}


def used_bytes(ptx: str, entry: str, index: int) -> set[int] | None:
    """The offsets at which ``entry`` loads from one parameter, a struct; None where its address is taken."""
    body = _body(ptx, entry)
    if re.search(rf"(?:mov|cvta)\S*\s+%\w+,\s*\w*?_param_{index}\b", body):
        return None
    found: set[int] = set()
    for name, offset in re.findall(
        rf"^[\s{{]*(?:@!?%\w+\s+)?(ld\.param\S*)\s[^;]*\[\w*?_param_{index}(?:\+(\d+))?\]", body, re.M
    ):
        vector, width = re.search(r"\.v(\d)", name), re.search(r"\.\w(\d+)$", name)
        count, size = int(vector[1]) if vector else 1, int(width[1]) // 8 if width else 8
        found |= {int(offset or 0) + i for i in range(count * size)}
    return found


def _reached(ptx: str, entry: str, which: re.Pattern[str]) -> set[int]:
    body = _body(ptx, entry)
    instructions = [(m["name"], m["operands"]) for m in _INSTRUCTION.finditer(body)]
    origin: dict[str, frozenset[int]] = {}
    for _ in range(3):  # loops carry addresses back
        before = dict(origin)
        for name, operands in instructions:
            _follow(name, operands, origin)
        if origin == before:
            break
    found: set[int] = set()
    for name, operands in instructions:
        if which.match(name):
            places = re.findall(r"\[[^\]]*\]", operands)
            found |= _origins(places[-1:] if name.startswith("cp.async") and which is _LOADS else places[:1], origin)
    return found


def _body(ptx: str, entry: str) -> str:
    start = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(", ptx)
    if start is None:
        return ptx
    after = re.search(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\b", ptx[start.end() :], re.M)
    return ptx[start.start() : start.end() + after.start()] if after else ptx[start.start() :]


def _follow(name: str, operands: str, origin: dict[str, frozenset[int]]) -> None:
    if name.startswith("ld.param"):
        if match := _PARAMETER.match(operands.strip()):
            for register in re.findall(r"%\w+", match["to"]):
                origin[register] = frozenset({int(match["index"])})
        return
    if name.startswith(("ld", "st", "red", "atom", "wmma", "mma", "cp", "setp", "bar")):
        return
    target, _, sources = operands.partition(",")
    registers = re.findall(r"%rd\w*", target)
    if registers:
        known = _origins([sources], origin)
        for register in registers:
            origin[register] = origin.get(register, frozenset()) | known


def _origins(texts: list[str], origin: dict[str, frozenset[int]]) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    for text in texts:
        for register in re.findall(r"%\w+", text):
            found |= origin.get(register, frozenset())
    return found
