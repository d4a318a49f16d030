"""Swizzled shared tiles: an XOR of the column that a store has and a read lacks, or that differs between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.shared_arrays import SharedAccess, shared_accesses

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 12


@dataclass(frozen=True)
class _Place:
    """Row and column of an access; ``xor`` is the part `column ^ mask`, if there is one."""

    access: SharedAccess
    row: str
    column: Node
    xor: Node | None

    @property
    def mask(self) -> str:
        """What the column is combined with, `@` for the row."""
        if self.xor is None:
            return ""
        right = self.xor.child_by_field_name("right")
        text = self.access.code.of(right) if right is not None else ""
        return re.sub(rf"(?<!\w){re.escape(self.row)}(?!\w)", "@", _bare(text))

    def with_mask(self, mask: str) -> Edit:
        """The same place with this swizzle."""
        code, target = self.access.code, self.xor or self.column
        base = self.xor.child_by_field_name("left") if self.xor is not None else self.column
        plain = code.of(base) if base is not None else code.of(target)
        row = self.row if re.fullmatch(r"[\w.]+", self.row) else f"({self.row})"
        text = f"{_operand(plain)} ^ {_operand(mask.replace('@', row))}"
        whole = self.xor is not None or target.id == self.access.indices[-1].id
        return Edit(code.path, target.start_byte, target.end_byte, text if whole else f"({text})")

    def without(self) -> Edit | None:
        left = self.xor.child_by_field_name("left") if self.xor is not None else None
        if self.xor is None or left is None:
            return None
        code = self.access.code
        return Edit(code.path, self.xor.start_byte, self.xor.end_byte, code.of(left))


def unlike_swizzles(program: Program) -> Iterator[Candidate]:
    """The swizzle of one access at the others of the same array too; then none at all."""
    places: dict[str, list[_Place]] = {}
    for function in program.reached:
        for access in shared_accesses(program, function):
            if (place := _place(access)) is not None:
                places.setdefault(access.array, []).append(place)
    for array, found in list(places.items())[:_MOST]:
        masks = list(dict.fromkeys(place.mask for place in found if "@" in place.mask))
        if not masks or len({place.mask for place in found}) == 1:
            continue
        for mask in masks:
            others = [place for place in found if place.mask != mask]
            model = next(place for place in found if place.mask == mask)
            yield _made(array, others, model, tuple(place.with_mask(mask) for place in others))
        swizzled = [place for place in found if place.xor is not None]
        removed = tuple(edit for place in swizzled if (edit := place.without()) is not None)
        if removed:
            lines = _lines(swizzled)
            many = "," in lines
            yield Candidate("unlike-swizzle", f"only line{'s' * many} {lines} swizzle{'s' * (not many)} "
                            f"the columns of {array}", "leave the XOR out there", removed)  # fmt: skip


def _made(array: str, others: list[_Place], model: _Place, edits: tuple[Edit, ...]) -> Candidate:
    lines, many = _lines(others), len(others) > 1
    cause = (f"line {model.access.line} swizzles the columns of {array} (`{_flat(model.access)}`), and "
             f"line{'s' * many} {lines} do{'es' * (not many)} not do the same")  # fmt: skip
    return Candidate(
        "unlike-swizzle", cause, f"write `{edits[0].text}` for the column in line{'s' * many} {lines}", edits
    )


def _place(access: SharedAccess) -> _Place | None:
    """Row and column, of `a[row][column]` or of `a[row * width + column]`."""
    code = access.code
    if len(access.indices) > 1:
        column = access.indices[-1]
        return _Place(access, access.text(len(access.indices) - 2), column, _xor(code, column))
    index = _inner(access.indices[0])
    left, right, sign = (index.child_by_field_name(part) for part in ("left", "right", "operator"))
    if index.type != "binary_expression" or left is None or right is None or sign is None or code.of(sign) != "+":
        return None
    product = _inner(left)
    row = product.child_by_field_name("left")
    times = product.child_by_field_name("operator")
    if row is None or times is None or code.of(times) != "*":
        return None
    return _Place(access, _bare(" ".join(code.of(row).split())), right, _xor(code, right))


def _xor(code: Code, node: Node) -> Node | None:
    for each in below(node, "binary_expression"):
        sign = each.child_by_field_name("operator")
        if sign is not None and code.of(sign) == "^":
            return each
    return None


def _inner(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


def _operand(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+|\([^()]*\)", text) else f"({text})"


def _lines(places: list[_Place]) -> str:
    return ", ".join(map(str, sorted({place.access.line for place in places})))


def _flat(access: SharedAccess) -> str:
    return " ".join(access.code.of(access.node).split())[:60]
