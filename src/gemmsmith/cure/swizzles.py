"""Swizzled shared tiles: an XOR of the column, or a function that makes one, which a store has and a read lacks, or
that differs between them."""

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
    """Row and column of an access; ``target`` is the part of the column that is swizzled, ``form`` how: `# ^ (@ & 7)`
    or `swizzle(@, #)` with `@` for the row and `#` for the column; empty where it is not."""

    access: SharedAccess
    row: str
    target: Node
    plain: str
    form: str

    def with_form(self, form: str) -> Edit:
        """The same place with this swizzle."""
        code = self.access.code
        is_call = re.match(r"[\w:]+\s*\(", form) is not None
        row = self.row if is_call or re.fullmatch(r"[\w.]+", self.row) else f"({self.row})"
        text = form.replace("@", row).replace("#", self.plain if is_call else _operand(self.plain))
        whole = is_call or bool(self.form) or self.target.id == self.access.indices[-1].id
        return Edit(code.path, self.target.start_byte, self.target.end_byte, text if whole else f"({text})")

    def without(self) -> Edit:
        return Edit(self.access.code.path, self.target.start_byte, self.target.end_byte, self.plain)


def unlike_swizzles(program: Program) -> Iterator[Candidate]:
    """The swizzle of one access at the others of the same array too; then none at all."""
    places: dict[str, list[_Place]] = {}
    for function in program.reached:
        for access in shared_accesses(program, function):
            if (place := _place(access)) is not None:
                places.setdefault(access.array, []).append(place)
    for array, found in list(places.items())[:_MOST]:
        forms = list(dict.fromkeys(place.form for place in found if "@" in place.form))
        if not forms or len({place.form for place in found}) == 1:
            continue
        for form in forms:
            others = [place for place in found if place.form != form]
            model = next(place for place in found if place.form == form)
            yield _made(array, others, model, tuple(place.with_form(form) for place in others))
        swizzled = [place for place in found if place.form]
        lines, many = _lines(swizzled), len(swizzled) > 1
        yield Candidate("unlike-swizzle", f"only line{'s' * many} {lines} swizzle{'s' * (not many)} "
                        f"the columns of {array}", "leave the swizzle out there",
                        tuple(place.without() for place in swizzled))  # fmt: skip


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
        return _swizzled(access, access.text(len(access.indices) - 2), access.indices[-1])
    index = _inner(access.indices[0])
    left, right, sign = (index.child_by_field_name(part) for part in ("left", "right", "operator"))
    if index.type != "binary_expression" or left is None or right is None or sign is None or code.of(sign) != "+":
        return None
    product = _inner(left)
    row = product.child_by_field_name("left")
    times = product.child_by_field_name("operator")
    if row is None or times is None or code.of(times) != "*":
        return None
    return _swizzled(access, _bare(" ".join(code.of(row).split())), right)


def _swizzled(access: SharedAccess, row: str, column: Node) -> _Place:
    """The first XOR of a column, or the first call that takes the row beside the column."""
    code = access.code
    for each in below(column, "binary_expression", "call_expression"):
        if each.type == "call_expression":
            if (call := _call(code, row, each)) is not None:
                return _Place(access, row, each, *call)
            continue
        sign, left, right = (each.child_by_field_name(part) for part in ("operator", "left", "right"))
        if sign is not None and left is not None and right is not None and code.of(sign) == "^":
            mask = re.sub(rf"(?<!\w){re.escape(row)}(?!\w)", "@", _bare(code.of(right)))
            return _Place(access, row, each, code.of(left), f"# ^ {_operand(mask)}")
    return _Place(access, row, column, code.of(column), "")


def _call(code: Code, row: str, call: Node) -> tuple[str, str] | None:
    """Column and form of `swizzle(row, column)`, in either order."""
    called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    arguments = [" ".join(code.of(each).split()) for each in listed.named_children] if listed is not None else []
    if called is None or len(arguments) != 2 or row not in arguments or arguments[0] == arguments[1]:
        return None
    form = ", ".join("@" if argument == row else "#" for argument in arguments)
    return next(argument for argument in arguments if argument != row), f"{code.of(called)}({form})"


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
