"""Names of what an address holds: 'A[131][0]' of a matrix, 'As[3][17]' of a shared array, and the text beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmsmith.sim.lowering.shared_arrays import SharedArray
from gemmsmith.userfile.text.array_names import DeclaredArray
from gemmsmith.userfile.text.expression_at import pointer_roots
from gemmsmith.userfile.text.shared_pointers import pointer_into
from gemmsmith.userfile.text.source_tree import SourceTree
from gemmsmith.verify.faults.kernel_source import SourceOfKernel

_REACH = 1 << 36  # bytes: 2³² elements of 16


@dataclass(frozen=True)
class Operand:
    """An array in global memory as the kernel's author sees it.

    A matrix has rows and columns; of a ``column_major`` one, columns follow one another ``ld`` elements apart. With
    ``rows`` 0 it is a plain array of ``columns`` elements.
    """

    name: str
    address: int
    rows: int
    columns: int
    ld: int
    itemsize: int
    column_major: bool = False

    @property
    def nbytes(self) -> int:
        """From the first element to the last."""
        lines, length = (self.columns, self.rows) if self.column_major else (self.rows, self.columns)
        return (max(0, (max(1, lines) - 1) * self.ld) + length) * self.itemsize

    def element(self, address: int) -> str:
        """'A[131][0]'; of a column-major matrix 'A(row 131, column 0)'."""
        row, column = self.place(address)
        if self.rows == 0:
            return f"{self.name}[{column}]"
        return f"{self.name}(row {row}, column {column})" if self.column_major else f"{self.name}[{row}][{column}]"

    def place(self, address: int) -> tuple[int, int]:
        index = (address - self.address) // self.itemsize
        if self.rows == 0:
            return 0, index
        line, at = divmod(index, max(1, self.ld))
        return (at, line) if self.column_major else (line, at)

    def outside(self, address: int) -> str:
        """Why an address is not one of its elements."""
        row, column = self.place(address)
        if self.rows == 0:
            if column < 0:
                return f"{-column} before its start"
            return f"{column - self.columns + 1} past its {_many(self.columns, 'element')}"
        line, lines, at, length, word, other = (
            (column, self.columns, row, self.rows, "column", "row") if self.column_major
            else (row, self.rows, column, self.columns, "row", "column")
        )  # fmt: skip
        ld = f"{self.leading} {self.ld}"
        if line < 0:
            return f"{_count(-line, word)} before its first ({ld})"
        if line >= lines:
            return f"{_count(line - lines + 1, word)} past its {_many(lines, word)} ({ld})"
        if at >= length:
            return f"{_count(at - length + 1, other)} past its {_many(length, other)} ({ld})"
        return f"it starts inside {self.name} and runs over its end"

    @property
    def leading(self) -> str:
        return f"ld{self.name.lower()}" if self.name.upper() in ("A", "B", "C", "D") else "leading dimension"

    @property
    def shape(self) -> str:
        if self.rows == 0:
            return f"{self.name} has {_many(self.columns, 'element')}"
        return f"{self.name} has {_many(self.rows, 'row')} and {_many(self.columns, 'column')}"


def _many(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


def _count(number: int, word: str) -> str:
    """'one row', '4 rows'."""
    return f"one {word}" if number == 1 else f"{number} {word}s"


def operand_at(operands: Sequence[Operand], address: int, name: str = "") -> Operand | None:
    """The operand called ``name``, else the one that holds an address, else the nearest, if a wrong index can lead from
    it there: other memory, as a variable of the module, is farther away."""
    named = [operand for operand in operands if operand.name == name]
    if named:
        return named[0]

    def distance(operand: Operand) -> int:
        return max(operand.address - address, address - operand.address - operand.nbytes, 0)

    nearest = min(operands, key=distance, default=None)
    return nearest if nearest is not None and distance(nearest) < _REACH else None


def operand_holding(operands: Sequence[Operand], address: int) -> Operand | None:
    """The operand that an address lies in, an array of the workspace before the whole; None for other memory, as a
    variable of the module."""
    inside = [each for each in operands if each.address <= address < each.address + each.nbytes]
    return min(reversed(inside), key=lambda each: each.nbytes, default=None)  # the workspace comes before its arrays


@dataclass(frozen=True)
class SharedName:
    """An address in shared memory: the element, the array that it belongs to, what messages add once, and of a struct
    the member.
    """

    element: str
    array: DeclaredArray | None
    facts: str
    member: str = ""


def shared_name(
    array: SharedArray | None, address: int, source: SourceOfKernel, tree: SourceTree | None = None, line: int = 0,
    pointer: str = "",
) -> SharedName:  # fmt: skip
    """The name of what lies at an address of shared memory.

    ``pointer`` is the name that the source uses at ``line`` of ``tree``, where that is a pointer into the array.
    """
    where = f"byte {address:#x} of shared memory"
    if array is None:
        return SharedName(where, None, "")
    known = source.array(array.name, array.size)
    offset = address - array.start
    if known is not None and array.size == 0 and tree is not None and pointer:
        inside = pointer_into(tree, line, known, pointer, source.constants, source.trees)
        if inside is not None and offset >= inside.start:
            element, member = inside.element(offset - inside.start), inside.member(offset - inside.start)[0]
            fact = f"{element} is {known.element(offset)}, {where}"
            return SharedName(element, inside, fact, member.name if member is not None else "")
    element = known.element(offset) if known is not None else ""
    if not element:
        sign = "past" if array.size and offset >= array.size else "of"
        away = offset - array.size if sign == "past" else offset
        text = f"byte {away} {sign} the end of {array.name}" if sign == "past" else f"byte {away} of {array.name}"
        return SharedName(text, known, f"{text} is {where}")
    member = known.member(offset)[0] if known is not None else None
    return SharedName(element, known, f"{element} is {where}", member.name if member is not None else "")


def dynamic_pointer(array: SharedArray, address: int, source: SourceOfKernel, tree: SourceTree, line: int) -> str:
    """The pointer into dynamic shared memory, of those that the function declares, whose part holds an address."""
    known = source.array(array.name, 0)
    if array.size or known is None:
        return ""
    pointers = [name for name, roots in pointer_roots(tree, line).items() if array.name in roots]
    found = {name: pointer_into(tree, line, known, name, source.constants, source.trees) for name in pointers}
    places = {name: place.start for name, place in found.items() if place is not None}
    below = [name for name, start in places.items() if start <= address - array.start]
    if len(places) != len(pointers) or not below:
        return ""  # one may begin anywhere
    nearest = max(places[name] for name in below)
    named = [name for name in below if places[name] == nearest]
    return named[0] if len(named) == 1 else ""
