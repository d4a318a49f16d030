"""How the number of a block or a warp is taken apart into a row and a column of tiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Function, Program, below, binary_expressions
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import changed, flat, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_LEAST = re.compile(r"(?:std::)?min\s*\((?P<one>.+),\s*(?P<other>.+)\)")
_CHOSEN = re.compile(r"(?P<one>[^?]+?)\s*<=?\s*(?P<other>[^?]+?)\s*\?.*")
_NUMBER = re.compile(
    r"\b[a-z]\w*[a-z]\w*\b|threadIdx|blockIdx"
)  # a variable; constants and extents are no numbers of tiles
_PRODUCT = re.compile(r"(?P<one>.+?)\s*\*\s*(?P<other>.+)")


def repeated_quotients(program: Program) -> Iterator[Candidate]:
    """Of `warp / WARPS` twice, one becomes `warp % WARPS`: the row and the column of a number are its quotient and its
    remainder. The column is computed later, so the later one of two quotients is tried first, the first of two
    remainders."""
    for function in program.reached:
        code = function.code
        found: dict[tuple[str, str], dict[str, list[Node]]] = {}
        for node, sign, left, right in binary_expressions(code, function.body, ("/", "%")):
            if _is_declared(node) and _NUMBER.search(code.of(left)):
                key = flat(code.of(left)), flat(code.of(right))
                found.setdefault(key, {}).setdefault(sign, []).append(node)
        for (number, by), signs in found.items():
            for sign, other in (("/", "%"), ("%", "/")):
                nodes = signs.get(sign, [])
                if len(nodes) > 1 and other not in signs:
                    ordered = reversed(nodes) if sign == "/" else nodes
                    yield from (_exchanged(function, node, number, by, sign, other) for node in ordered)


def _exchanged(function: Function, node: Node, number: str, by: str, sign: str, other: str) -> Candidate:
    code, line = function.code, function.code.line(node.start_byte)
    new = f"{number} {other} {by}"
    return Candidate("repeated-quotient", f"line {line} has `{number} {sign} {by}` once more, and nothing has "
                     f"`{new}`: row and column are quotient and remainder", f"write `{new}` in line {line}: "
                     f"`{changed(code, node, new)}`",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def group_sizes(program: Program) -> Iterator[Candidate]:
    """`block % GROUP` becomes `block % size`, where size is `min(tiles - first, GROUP)`: the last group of tiles has
    fewer. Where nothing has that minimum, it is computed from the first tile of the group."""
    for function in program.reached:
        sizes = dict(_minima(function))
        for size, group in sizes.items():
            yield from _divided_by(function, group, size)
        if not sizes:
            yield from _without_minimum(function)


def _minima(function: Function) -> Iterator[tuple[str, str]]:
    """(size, GROUP) of `size = min(tiles - first, GROUP)`, in either order, or as a conditional expression."""
    for name, value in declared_values(function):
        match = _LEAST.fullmatch(value) or _CHOSEN.fullmatch(value)
        for one, other in (("one", "other"), ("other", "one")) if match else ():
            if match and "-" in match[one] and re.fullmatch(r"\w+", match[other].strip()):
                yield name, match[other].strip()


def _divided_by(function: Function, old: str, new: str) -> Iterator[Candidate]:
    """Each division or remainder by ``old``, then all of them, by ``new``."""
    code = function.code
    places = [(node, right) for node, _, _, right in binary_expressions(code, function.body, ("%", "/"))
              if code.of(right) == old and _is_declared(node)]  # fmt: skip
    for some in (*([place] for place in reversed(places)), places if len(places) > 1 else []):
        if some:
            lines = sorted({code.line(node.start_byte) for node, _ in some})
            yield Candidate("group-size", f"{in_lines(lines)} take{'s' * (len(lines) == 1)} a block's number apart by "
                            f"{old}, but the last group of tiles has only {new}", f"write `{new}` for `{old}` there: "
                            f"`{changed(code, some[0][1], new)}`",
                            tuple(Edit(code.path, right.start_byte, right.end_byte, new)
                                  for _, right in some))  # fmt: skip


def _without_minimum(function: Function) -> Iterator[Candidate]:
    """`% GROUP` and `/ GROUP` become `% min(tiles - first, GROUP)` …, where `first = group * GROUP`."""
    code, values = function.code, dict(declared_values(function))
    for first, value in values.items():
        product = _PRODUCT.fullmatch(value)
        group = product["other"].strip() if product else ""
        if not product or not re.fullmatch(r"[A-Z]\w*", group) or product["one"].strip() not in values:
            continue
        places = [right for node, _, left, right in binary_expressions(code, function.body, ("%", "/"))
                  if code.of(right) == group and _is_declared(node) and "blockIdx" not in code.of(left)]  # fmt: skip
        for tiles, counted in values.items():
            if places and "/" in counted and re.search(r"\bM\b|\bm\b|[Rr]ows", counted):
                new = f"min({tiles} - {first}, {group})"
                lines = sorted({code.line(each.start_byte) for each in places})
                yield Candidate("group-size", f"{in_lines(lines)} take{'s' * (len(lines) == 1)} every group of tiles "
                                f"for a whole one of {group}, but the last has only {tiles} - {first}",
                                f"write `{new}` for `{group}` there",
                                tuple(Edit(code.path, each.start_byte, each.end_byte, new)
                                      for each in places))  # fmt: skip


def declared_values(function: Function) -> Iterator[tuple[str, str]]:
    """What each variable is declared with."""
    code = function.code
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is not None and value is not None and named.type == "identifier":
            yield code.of(named), flat(code.of(value), 300)


def _is_declared(node: Node) -> bool:
    """Whether an expression is a part of what a variable is declared with, outside the head of a loop."""
    here = node.parent
    while here is not None and here.type != "init_declarator":
        if here.type in ("subscript_argument_list", "for_statement", "compound_statement"):
            return False
        here = here.parent
    above = here.parent.parent if here is not None and here.parent is not None else None
    return here is not None and (above is None or above.type != "for_statement")
