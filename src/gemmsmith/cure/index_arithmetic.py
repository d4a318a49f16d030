"""Arithmetic of indices: by which numbers and constants the number of a thread, lane or tile is taken apart, multiplied
and divided."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import index_expressions
from gemmsmith.cure.code import Code, Function, Program, below, binary_expressions, subscripts
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.shared_arrays import declared_sizes, shared_accesses
from gemmsmith.cure.wording import changed, flat, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_PARTS = ("/", "%", ">>", "&")
_NUMBER = re.compile(r"\d+")
_POWER = re.compile(r"0|1|2|4|8|16|32|64|128|256")
_COUNTERPARTS = (("M", "N"), ("m", "n"), ("Rows", "Cols"), ("rows", "cols"), ("Row", "Col"), ("row", "col"),
                 ("X", "Y"), ("x", "y"), ("A", "B"), ("a", "b"))  # fmt: skip
_CONSTANT = re.compile(r"[A-Z]\w*")
_MOST_FACTORS = 12


def counterpart_divisors(program: Program) -> Iterator[Candidate]:
    """`id / tilesM` and `id % tilesM` become `id / tilesN` and `id % tilesN`."""
    for function in program.reached:
        code = function.code
        for taken, nodes in _divisions(function).items():
            of, divisor = taken
            for new in dict.fromkeys(_counterparts(function, divisor)):
                lines = sorted({code.line(node.start_byte) for node in nodes})
                edits = tuple(Edit(code.path, node.start_byte, node.end_byte, new) for node in nodes)
                yield Candidate("wrong-divisor", f"{in_lines(lines)} divide{'s' * (len(lines) == 1)} `{of}` by "
                                f"{divisor}; it should be {new}", f"write `{new}` for `{divisor}` there",
                                edits)  # fmt: skip


def other_numbers(program: Program) -> Iterator[Candidate]:
    """`lane % 8` becomes `lane % 16`: twice and half of each number that takes a thread's number apart, at all places
    that take the same apart in the same way, then at each."""
    for function in program.reached:
        code, of_threads = function.code, _of_threads(function)
        places: dict[tuple[str, str], list[tuple[str, Node]]] = {}
        for node, sign, left, right in _binary(function, _PARTS):
            if _NUMBER.fullmatch(code.of(right)) and _names(code.of(left)) & of_threads and _in_index(program, node):
                places.setdefault((flat(code.of(left)), _width(sign, code.of(right))), []).append((sign, right))
        groups = [group for group in places.values() if len(group) > 1]
        for group in (*groups, *([place] for same in places.values() for place in same)):
            for larger in (True, False):
                new = [_resized(sign, int(code.of(right)), larger) for sign, right in group]
                if any(number is None for number in new):
                    continue
                lines = sorted({code.line(right.start_byte) for _, right in group})
                parents = [right.parent for _, right in group if right.parent is not None]
                old, shown = flat(code.of(parents[0])), f"{_before(code, parents[0], group[0][1])}{new[0]}"
                yield Candidate("wrong-number", f"{in_lines(lines)} {'has' if len(lines) == 1 else 'have'} `{old}`; "
                                f"it should be `{shown}`", f"write `{shown}` there" + _others(group, new),
                                tuple(Edit(code.path, right.start_byte, right.end_byte, str(number))
                                      for (_, right), number in zip(group, new, strict=True)))  # fmt: skip


def other_factors(program: Program) -> Iterator[Candidate]:
    """`B[(k0 + t) * N]` becomes `B[(k0 + t * 2) * N]`: the factor of a thread's number, in all indices of an array."""
    made = 0
    for function in program.reached:
        code, of_threads = function.code, _of_threads(function)
        places: dict[tuple[str, str, str], list[tuple[Node, str]]] = {}
        for array, index in subscripts(code, function.body):
            for node in below(index, "identifier"):
                name = code.of(node)
                if name in of_threads and not name.endswith("Idx"):
                    factor, whole = _factor(code, node)
                    if factor:
                        places.setdefault((array, name, factor), []).append((whole, name))
        for (array, name, factor), nodes in places.items():
            for new in dict.fromkeys((int(factor) * 2, int(factor) // 2)):
                if new < 1 or made >= _MOST_FACTORS:
                    continue
                made += 1
                text = f"{name} * {new}" if new > 1 else name
                old = f"{name} * {factor}" if factor != "1" else name
                lines = sorted({code.line(node.start_byte) for node, _ in nodes})
                yield Candidate("wrong-factor", f"the indices of {array} in {in_lines(lines)} have `{old}`, where "
                                f"`{text}` belongs", f"write `{text}` for `{old}` there",
                                tuple(Edit(code.path, node.start_byte, node.end_byte, text)
                                      for node, _ in nodes))  # fmt: skip


def numbered_factors(program: Program) -> Iterator[Candidate]:
    """`Bs[y * BN + (t % 16) * 2]` becomes `(t % 16) * 4` or `* 8`: a number in an index, twice, half or four times."""
    for function in program.reached:
        code = function.code
        for array, index in subscripts(code, function.body):
            for node, _sign, left, right in binary_expressions(code, index, ("*",)):
                for side in (left, right):
                    old, line = code.of(side), code.line(side.start_byte)
                    for new in (int(old) * 2, int(old) * 4, int(old) // 2) if _POWER.fullmatch(old) else ():
                        if new < 1 or new == int(old):
                            continue
                        text = code.text[node.start_byte : side.start_byte] + str(new)
                        text = flat(text + code.text[side.end_byte : node.end_byte])
                        yield Candidate("wrong-factor", f"an index of {array} in line {line} has "
                                        f"`{flat(code.of(node))}`; it should be `{text}`",
                                        f"write `{text}` in line {line}",
                                        (Edit(code.path, side.start_byte, side.end_byte, str(new)),))  # fmt: skip


def other_offsets(program: Program) -> Iterator[Candidate]:
    """`b[t + 8]` becomes `b[t + 4]` and `b[t + 16]`: half and twice a number that an index adds."""
    made = 0
    for function in program.reached:
        code = function.code
        for array, index in subscripts(code, function.body):
            for _node, _sign, _left, right in binary_expressions(code, index, ("+",)):
                if not _POWER.fullmatch(code.of(right)):
                    continue
                for new in (int(code.of(right)) // 2, 2 * int(code.of(right))):
                    if new < 1 or made >= _MOST_FACTORS:
                        continue
                    made += 1
                    line, old = code.line(right.start_byte), code.of(right)
                    yield Candidate("wrong-offset", f"an index of {array} in line {line} adds {old}, where {new} "
                                    f"belongs", f"write `{new}` for `{old}` in line {line}: "
                                    f"`{changed(code, right, str(new))}`",
                                    (Edit(code.path, right.start_byte, right.end_byte, str(new)),))  # fmt: skip


def other_strides(program: Program) -> Iterator[Candidate]:
    """`Bs[k * BK + j]` becomes `Bs[k * BN + j]`: another constant of the sizes of shared arrays, those of the array
    itself first."""
    sizes = declared_sizes(program)
    every = list(dict.fromkeys(name for names in sizes.values() for name in names))
    later: list[Candidate] = []
    for function in program.reached:
        code = function.code
        for access in shared_accesses(program, function):
            own = sizes.get(access.array, ())
            for index in access.indices:
                for _node, _sign, left, right in binary_expressions(code, index, ("*", "/", "%")):
                    for side in (left, right):
                        old = code.of(side)
                        if not _CONSTANT.fullmatch(old):
                            continue
                        for new in (name for name in every if name != old):
                            made = _stride(code, side, new, access.array)
                            if new in own:
                                yield made
                            else:
                                later.append(made)
    yield from later


def unlike_strides(program: Program) -> Iterator[Candidate]:
    """`Bs[k * BK + j]` where another access has `Bs[r * BN + c]`: the rows of one array have one length."""
    found: dict[str, dict[str, list[tuple[Code, Node]]]] = {}
    for function in program.reached:
        code = function.code
        for access in shared_accesses(program, function):
            for _node, _sign, left, right in binary_expressions(code, access.indices[-1], ("*",)):
                named = [side for side in (left, right) if _CONSTANT.fullmatch(code.of(side))]
                if len(access.indices) == 1 and len(named) == 1:
                    found.setdefault(access.array, {}).setdefault(code.of(named[0]), []).append((code, named[0]))
    for array, by_stride in found.items():
        for old, places in by_stride.items() if len(by_stride) == 2 else ():
            new = next(other for other in by_stride if other != old)
            lines, (code, node) = in_lines(each.line(at.start_byte) for each, at in places), places[0]
            yield Candidate("wrong-stride", f"an index of {array} in {lines} has {old}; it should be {new}, as at the "
                            "other accesses", f"write `{new}` for `{old}` in {lines}: `{changed(code, node, new)}`",
                            tuple(Edit(each.path, at.start_byte, at.end_byte, new) for each, at in places))  # fmt: skip


def other_operators(program: Program) -> Iterator[Candidate]:
    """`k % GROUP` becomes `k / GROUP` in an index, and the other way round."""
    for function in program.reached:
        code = function.code
        for array, index in subscripts(code, function.body):
            for node, sign, left, right in binary_expressions(code, index, ("/", "%")):
                operator = node.child_by_field_name("operator")
                if operator is None:
                    continue
                new, line = "%" if sign == "/" else "/", code.line(node.start_byte)
                text = f"{flat(code.of(left))} {new} {flat(code.of(right))}"
                yield Candidate("wrong-operator", f"the index of {array} in line {line} has "
                                f"`{flat(code.of(node))}`; it should be `{text}`", f"write `{text}` in line {line}",
                                (Edit(code.path, operator.start_byte, operator.end_byte, new),))  # fmt: skip


def _stride(code: Code, node: Node, new: str, array: str) -> Candidate:
    line, old = code.line(node.start_byte), code.of(node)
    return Candidate("wrong-stride", f"line {line} uses {old} in an index of {array}; it should be {new}",
                     f"write `{new}` for `{old}` in line {line}: `{changed(code, node, new)}`",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _divisions(function: Function) -> dict[tuple[str, str], list[Node]]:
    """The divisors of `x / d` and `x % d` that a function has both, by the texts of x and d."""
    code = function.code
    found: dict[tuple[str, str], list[tuple[str, Node]]] = {}
    for _node, sign, left, right in _binary(function, ("/", "%")):
        if not _NUMBER.fullmatch(code.of(right)):
            found.setdefault((flat(code.of(left)), flat(code.of(right))), []).append((sign, right))
    return {
        key: [node for _, node in nodes] for key, nodes in found.items() if {sign for sign, _ in nodes} == {"/", "%"}
    }


def _counterparts(function: Function, divisor: str) -> Iterator[str]:
    """A divisor in the names of the other extent: tilesN for tilesM, (BN / TN) for (BM / TM), if the file has them; or
    the variable that is computed in the same way from the other extent."""
    code = function.code
    for one, other in _COUNTERPARTS:
        for old, new in ((one, other), (other, one)):
            text = re.sub(rf"{old}\b", new, divisor)
            if text != divisor and all(re.search(rf"\b{name}\b", code.text) for name in _names(text)):
                yield text
    values = dict(_initial_values(function))
    for name, value in values.items():
        mine = values.get(divisor, "")
        if mine and name != divisor and value in (re.sub(r"M\b", "N", mine), re.sub(r"N\b", "M", mine)):
            yield name


def _initial_values(function: Function) -> Iterator[tuple[str, str]]:
    """What each variable is declared with."""
    code = function.code
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is not None and value is not None and named.type == "identifier":
            yield code.of(named), flat(code.of(value))


def _of_threads(function: Function) -> frozenset[str]:
    """The variables that follow from the number of a thread: `tid`, `lane`, `warp`, and what is computed from them."""
    found = {"threadIdx", "lane", "laneId", "lane_id", "tid"}
    for name, value in _initial_values(function):
        if _names(value) & found:
            found.add(name)
    return frozenset(found)


def _in_index(program: Program, node: Node) -> bool:
    return any(root.start_byte <= node.start_byte and node.end_byte <= root.end_byte
               for _, root in index_expressions(program))  # fmt: skip


def _binary(function: Function, signs: Container[str]) -> Iterator[tuple[Node, str, Node, Node]]:
    return binary_expressions(function.code, function.body, signs)


def _factor(code: Code, node: Node) -> tuple[str, Node]:
    """The number that a variable is multiplied by in an index, and what both stand in; 1 for a term alone; empty where
    it is a factor or a part of anything else."""
    parent = node.parent
    sign = parent.child_by_field_name("operator") if parent is not None else None
    if parent is None or parent.type == "subscript_argument_list":
        return "1", node
    if parent.type != "binary_expression" or sign is None:
        return "", node
    if code.of(sign) == "+":
        return "1", node
    other = next((each for each in parent.named_children if each.id != node.id), None)
    if code.of(sign) == "*" and other is not None and _POWER.fullmatch(code.of(other)):
        return code.of(other), parent
    return "", node


def _width(sign: str, number: str) -> str:
    """What a division, remainder, shift or mask takes apart by, so that `x >> 2` and `x & 3` belong together."""
    value = int(number)
    return str(1 << value if sign == ">>" and value < 16 else value + 1 if sign == "&" else value)


def _resized(sign: str, number: int, larger: bool) -> int | None:
    if sign == ">>":
        new = number + 1 if larger else number - 1
    elif sign == "&":
        new = 2 * number + 1 if larger else number >> 1
    else:
        new = 2 * number if larger else number // 2
    limit = 1 if sign in ("&", ">>") else 2
    return new if limit <= new <= 256 else None


def _before(code: Code, parent: Node, right: Node) -> str:
    return " ".join(code.text[parent.start_byte : right.start_byte].split()) + " "


def _others(group: list[tuple[str, Node]], new: list[int | None]) -> str:
    """The other places of a change at several."""
    if len(group) == 1:
        return ""
    shown = [f"`{sign} {number}`" for (sign, _), number in zip(group[1:], new[1:], strict=True)]
    return f", and {', '.join(dict.fromkeys(shown))}"


def _names(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))
