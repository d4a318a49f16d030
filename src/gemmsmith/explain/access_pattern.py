"""Which accesses cost most: their place in the user's source, their array, and what the lanes of a warp access.

An access in a helper is blamed on the line of the kernel that calls it: that is the line the user can change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.shared_arrays import plain_name
from gemmsmith.sim.lowering.traits import Effect, Space
from gemmsmith.sim.wavefronts import BANKS, LINE, NOBODY

WORD = 4
_MOST = 8  # patterns kept of each space
_SIZES = {"double": 8, "half": 2, "__half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "bf16": 2, "char": 1, "int8_t": 1,
          "uint8_t": 1, "float2": 8, "half2": 4, "float4": 16, "short": 2}  # fmt: skip


@dataclass(frozen=True)
class Declaration:
    """``__shared__ float As[TILE][TILE]`` as written: type, name, the texts of its extents, and its line.

    ``row_bytes`` is the distance of two rows; 0 if the extents are not known.
    """

    type: str
    name: str
    extents: tuple[str, ...]
    file: str
    line: int
    row_bytes: int = 0

    @property
    def itemsize(self) -> int:
        return _SIZES.get(self.type, 4)


@dataclass(frozen=True)
class AccessPattern:
    """One access of the program.

    excess     wavefronts that bank conflicts cost in the whole launch; of global memory: sectors beyond the bytes used
    executed   how often a warp made the access
    lanes      the addresses of one warp's lanes, from the array's first byte if it is known; −1 where inactive
    width      bytes per lane as the machine accesses them; ``written_width`` as the PTX does: ptxas joins neighbours
    called_at  'kernel.cu:41' if the access is in a function or header that the kernel calls there
    """

    space: str
    writes: bool
    width: int
    array: str
    file: str
    line: int
    text: str
    called_at: str
    called_text: str
    excess: int
    executed: int
    lanes: tuple[int, ...]
    base: int = 0
    written_width: int = 0
    declaration: Declaration | None = None

    @property
    def where(self) -> str:
        """'kernel.cu:41', or 'kernel.cu:41, in tile/load.cuh:17'."""
        here = f"{self.file}:{self.line}"
        return f"{self.called_at}, in {here}" if self.called_at else here

    @property
    def source(self) -> str:
        """The text of the line in the user's kernel."""
        return (self.called_text or self.text).strip()

    @property
    def served_together(self) -> list[tuple[int, int]]:
        """(lane, address) of the group of lanes that waits for the busiest bank: 32 of 4 bytes, 8 of 16."""
        size = 32 if self.width <= WORD else LINE // self.width
        groups = [[(lane, at) for lane, at in enumerate(self.lanes[i : i + size], i) if at != NOBODY]
                  for i in range(0, 32, size)]  # fmt: skip
        return max(groups, key=lambda group: max(map(len, self.banks(group).values()), default=0))

    def banks(self, group: list[tuple[int, int]]) -> dict[int, dict[int, int]]:
        """The distinct words that a group of lanes needs of each bank, with the first lane that needs each."""
        found: dict[int, dict[int, int]] = {}
        for lane, at in group:
            for word in range((at + self.base) // WORD, -(-(at + self.base + self.width) // WORD)):
                found.setdefault(word % BANKS, {}).setdefault(word, lane)
        return found

    @property
    def stride(self) -> int | None:
        """Bytes from a lane to the next, if that is the same for all of the group; lanes with one address are one,
        wherever they are: half a warp often reads what the other half does."""
        places = list(dict.fromkeys(at for _, at in self.served_together))
        steps = {b - a for a, b in pairwise(places)}
        return steps.pop() if len(steps) == 1 else None


def access_patterns(counters: Counters, own: str, text_of: Callable[[str], list[str]]) -> tuple[AccessPattern, ...]:
    """The accesses with bank conflicts, then those with unused bytes in their sectors, the costliest first."""
    found = sorted(_patterns(counters, own, text_of), key=lambda each: -each.excess)
    return tuple(each for space in ("shared", "global") for each in [p for p in found if p.space == space][:_MOST])


def _patterns(counters: Counters, own: str, text_of: Callable[[str], list[str]]) -> Iterator[AccessPattern]:
    texts: dict[str, list[str]] = {}

    def line_of(file: str, number: int) -> str:
        lines = texts.setdefault(file, text_of(file))
        return lines[number - 1] if 0 < number <= len(lines) else ""

    files = {file: text_of(file) for file in _files(counters, own)}
    constants = dict(pair for lines in files.values() for pair in _constants(lines))
    sizes = {plain_name(name): size for name, _, size in counters.lowered.shared_variables}
    declared = {each.name: _with_row(each, constants, sizes.get(each.name, 0))
                for file, lines in files.items() for each in declarations(file, lines)}  # fmt: skip
    for operation, count in counters.items():
        shared = count.groups > 0
        excess = count.conflicts if shared else max(0, count.sectors - -(-count.used // 32))
        if not excess or operation.access is None or operation.position not in counters.examples:
            continue
        raw = counters.examples[operation.position][1]
        name, start = _array(counters, operation, raw) if shared else ("", 0)
        file, line = operation.instruction.file, operation.instruction.line
        caller = operation.instruction.caller if file != own else ""
        called_file, _, called_line = caller.rpartition(":")
        yield AccessPattern(
            "shared" if shared else "global", operation.access.effect is Effect.WRITE,
            counters.widths.get(operation.position, operation.access.width) if shared else operation.access.width,
            name, file, line, line_of(file, line), caller,
            line_of(called_file, int(called_line)) if called_line.isdigit() else "", excess, count.executed,
            tuple(int(at) if at == NOBODY else int(at) - start for at in raw), start, operation.access.width,
            declared.get(name),
        )  # fmt: skip


def _array(counters: Counters, operation: Operation[Any], raw: Any) -> tuple[str, int]:
    """The shared array that the lanes access, and its first byte; '' if it is not one array."""
    active = [int(at) for at in raw if at != NOBODY]
    if operation.space not in (Space.SHARED, Space.GENERIC) or not active:
        return "", 0
    for name, start, size in counters.lowered.shared_variables:
        if start <= min(active) and (max(active) < start + size or size == 0):
            return plain_name(name), start
    return "", 0


def _files(counters: Counters, own: str) -> list[str]:
    return list(dict.fromkeys([own, *(operation.instruction.file for operation, _ in counters.items())]))


_DECLARED = re.compile(
    r"__shared__\s+(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?((?:const\s+|unsigned\s+)?[\w:<>]+)\s+([^;=]*)"
)
_NAME = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)+)")


def declarations(file: str, lines: list[str]) -> Iterator[Declaration]:
    """The shared arrays that a file declares."""
    for number, text in enumerate(lines, 1):
        if (match := _DECLARED.search(text.split("//")[0])) is None:
            continue
        for name in _NAME.finditer(match[2]):
            extents = tuple(part.strip() for part in re.findall(r"\[([^\]]*)\]", name[2]))
            yield Declaration(match[1].split()[-1], name[1], extents, file, number)


_CONSTANT = re.compile(
    r"(?:#\s*define\s+|(?:constexpr|const)\s+(?:unsigned\s+)?(?:int|size_t|auto|unsigned)\s+)(\w+)\s*=?\s*(\d+)\b"
)


def _constants(lines: list[str]) -> Iterator[tuple[str, int]]:
    for text in lines:
        if match := _CONSTANT.search(text):
            yield match[1], int(match[2])


def _with_row(declared: Declaration, constants: dict[str, int], size: int) -> Declaration:
    """With the length of a row, if the extents give the size that the compiler gave the array."""
    found = [int(text) if text.isdigit() else constants.get(text, 0) for text in declared.extents]
    if len(found) < 2 or math.prod(found) * declared.itemsize != size or not size:
        side = math.isqrt(size // declared.itemsize)
        if len(found) != 2 or declared.extents[0] != declared.extents[1] or side * side * declared.itemsize != size:
            return declared
        found = [side, side]
    return replace(declared, row_bytes=found[-1] * declared.itemsize)
