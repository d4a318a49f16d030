"""Indices: one leading dimension for another, row and column swapped, one array for another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import SHAPES, GlobalAccess, extents, global_accesses, index_expressions, passed_leading
from gemmsmith.cure.code import Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import changed, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_CONSTANTS = 3


def leading_dimensions(program: Program) -> tuple[list[Candidate], list[Candidate]]:
    """An extent in an index replaced by another: where a row-major matrix would not have it, and elsewhere."""
    expected = {role: {program.names.get(ld) or program.names.get(SHAPES[role][1], "")}
                for role, ld in (("A", "lda"), ("B", "ldb"), ("C", "ldc"), ("D", "ldd"))}  # fmt: skip
    seen: set[tuple[int, str]] = set()
    likely: list[Candidate] = []
    others: list[Candidate] = []
    for access in global_accesses(program):
        if access.leading is None:
            continue
        usual = access.code.of(access.leading) in expected[access.role]
        wanted = [name for name in extents(program) if name != access.code.of(access.leading)]
        wanted.sort(key=lambda name: name not in expected[access.role])
        for name in wanted:
            seen.add((access.leading.start_byte, name))
            made = _replaced(access.code, access.leading, name)
            (others if usual or name not in expected[access.role] else likely).append(made)
    rest: list[Candidate] = []
    for code, each, role in passed_leading(program):
        for name in extents(program):
            if name != code.of(each):
                seen.add((each.start_byte, name))
                wanted_here = name in expected[role] and code.of(each) not in expected[role]
                (likely if wanted_here else rest).append(_passed(code, each, name, role))
    for function, node in index_expressions(program):
        code, names = function.code, extents(program)
        for each in below(node, "identifier"):
            if code.of(each) not in names or _is_target(each):
                continue
            for name in names:
                if name != code.of(each) and (each.start_byte, name) not in seen:
                    seen.add((each.start_byte, name))
                    rest.append(_replaced(code, each, name))
    return [*_everywhere(program, expected), *likely], rest + others


def _everywhere(program: Program, expected: dict[str, set[str]]) -> Iterator[Candidate]:
    """The leading dimension of a matrix at all places that have another one: `C[i * N + j]`, read and written."""
    places: dict[tuple[str, str], list[GlobalAccess]] = {}
    for access in global_accesses(program):
        if access.leading is not None and access.code.of(access.leading) not in expected[access.role]:
            places.setdefault((access.role, access.code.of(access.leading)), []).append(access)
    for (role, old), found in places.items():
        nodes = list({each.leading.start_byte: (each.code, each.leading) for each in found if each.leading}.values())
        for name in (name for name in expected[role] if name and len(nodes) > 1):
            where = in_lines(code.line(node.start_byte) for code, node in nodes)
            edits = tuple(Edit(code.path, node.start_byte, node.end_byte, name) for code, node in nodes)
            yield Candidate("wrong-leading-dimension", f"the rows of {program.names.get(role, role)} are {name} "
                            f"elements apart, and its indices in {where} have {old}",
                            f"write `{name}` for `{old}` in {where}: `{changed(*nodes[0], name)}`", edits)  # fmt: skip


def _is_target(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "init_declarator" and parent.child_by_field_name("declarator") == node


def _replaced(code: Code, node: Node, name: str) -> Candidate:
    line, old = code.line(node.start_byte), code.of(node)
    return Candidate("wrong-leading-dimension", f"line {line} uses {old} in an index; it should be {name}",
                     f"write `{name}` for `{old}` in line {line}: `{changed(code, node, name)}`",
                     (Edit(code.path, node.start_byte, node.end_byte, name),))  # fmt: skip


def _passed(code: Code, node: Node, name: str, role: str) -> Candidate:
    """Another distance of rows in a call."""
    made, line = _replaced(code, node, name), code.line(node.start_byte)
    cause = f"line {line} passes {code.of(node)} as the leading dimension of {role}; it should be {name}"
    return replace(made, cause=cause)


def tile_constants(program: Program) -> Iterator[Candidate]:
    """`blockIdx.y * BN` for `blockIdx.y * BM`: another constant that the kernel multiplies a block's number by, or has
    as a template argument."""
    for function in program.reached:
        code = function.code
        factors = [node for each in below(function.body, "binary_expression") for node in _tile_factors(code, each)]
        taken = re.findall(r"\bint\s+([A-Z]\w*)\s*(?=[,>=])", _template_of(function))
        names = list(dict.fromkeys((*map(code.of, factors), *taken)))
        for node in factors:
            line, old = code.line(node.start_byte), code.of(node)
            for name in [each for each in names if each != old][:_MOST_CONSTANTS]:
                yield Candidate("wrong-tile", f"line {line} multiplies a block index by {old}; it should be {name}",
                                f"write `{name}` for `{old}` in line {line}: `{changed(code, node, name)}`",
                                (Edit(code.path, node.start_byte, node.end_byte, name),))  # fmt: skip


def _tile_factors(code: Code, node: Node) -> Iterator[Node]:
    """The constant in `blockIdx.y * BM`."""
    sign = node.child_by_field_name("operator")
    sides = [node.child_by_field_name(part) for part in ("left", "right")]
    for one, other in (sides, sides[::-1]) if sign is not None and code.of(sign) == "*" else ():
        is_place = one is not None and re.fullmatch(r"blockIdx\.[xyz]", code.of(one)) is not None
        if is_place and other is not None and re.fullmatch(r"[A-Z]\w*", code.of(other)):
            yield other


def _template_of(function: Function) -> str:
    """The template parameters before a function's head."""
    start = function.body.start_byte - len(function.head)
    before = function.code.text[max(0, start - 300) : start]
    return before[before.rfind("template") :] if "template" in before else ""


def swapped_indices(program: Program) -> Iterator[Candidate]:
    """`As[tx][ty]` for `As[ty][tx]`; row and column swapped in one index of a matrix."""
    found = [each for function in program.reached for each in _brackets(function)]
    yield from (swap for swap, against in found if against)
    yield from (swap for swap, against in found if not against)
    for function in program.reached[1:]:
        yield from _parameters(function)
    for access in global_accesses(program):
        row, column, code = access.row, access.column, access.code
        words = [row, *(part.strip() for part in column.split("+"))]
        plain = [word for word in words if word.isidentifier()]
        for i, one in enumerate(plain):
            for other in plain[i + 1 :]:
                yield from _swapped(code, access.index, one, other)


def _parameters(function: Function) -> Iterator[Candidate]:
    """Two parameters of a helper function swapped in its index: `m.data[col * m.stride + row]`."""
    code = function.code
    names = re.findall(r"(\w+)\s*(?=[,)])", function.head[function.head.find("(") :])
    for listed in below(function.body, "subscript_argument_list"):
        used = list(dict.fromkeys(code.of(each) for each in below(listed, "identifier") if code.of(each) in names))
        used = [name for name in used if not re.search(rf"\b{name}\s*(?:\.|->)", code.of(listed))]
        if len(used) == 2 and listed.named_child_count == 1:
            yield from _swapped(code, listed.named_children[0], *used)


def _brackets(function: Function) -> Iterator[tuple[Candidate, bool]]:
    """The two indices of an access swapped, and whether they now run against the order of their loops, or threadIdx.x
    against the order of memory."""
    code = function.code
    threads = {"threadIdx.x", *re.findall(r"\b(\w+)\s*=\s*threadIdx\.x\s*[,;]", code.of(function.body))}
    for node in below(function.body, "subscript_expression"):
        inner, second = node.child_by_field_name("argument"), node.child_by_field_name("indices")
        if inner is None or second is None or inner.type != "subscript_expression":
            continue
        first = inner.child_by_field_name("indices")
        array = inner.child_by_field_name("argument")
        if first is None or array is None or array.type != "identifier" or code.of(first) == code.of(second):
            continue
        line = code.line(node.start_byte)
        new = f"{code.of(array)}{code.of(second)}{code.of(first)}"
        edits = (Edit(code.path, first.start_byte, first.end_byte, code.of(second)),
                 Edit(code.path, second.start_byte, second.end_byte, code.of(first)))  # fmt: skip
        counters = [_counter(code, each) for each in above(node) if each.type == "for_statement"]  # the innermost first
        names = [code.of(each)[1:-1] for each in (first, second)]
        places = [counters.index(name) if name in counters else -1 for name in names]
        against = 0 <= places[0] < places[1] or (names[0] in threads and names[1] not in threads)
        yield Candidate("swapped-index", f"the indices of `{code.of(node)}` in line {line} are swapped",
                        f"write `{new}` in line {line}", edits), against  # fmt: skip


def _counter(code: Code, loop: Node) -> str:
    """The variable that a loop declares."""
    start = loop.child_by_field_name("initializer")
    declared = next(below(start, "init_declarator"), None) if start is not None else None
    named = declared.child_by_field_name("declarator") if declared is not None else None
    return code.of(named) if named is not None else ""


def swapped_arrays(program: Program) -> Iterator[Candidate]:
    """`Bs[ty][k] * As[k][tx]` for `As[ty][k] * Bs[k][tx]`: the two arrays of a product swapped."""
    for function in program.reached:
        code = function.code
        for node in below(function.body, "binary_expression", "call_expression"):
            one, two = _factors(code, node)
            if one is None or two is None or code.of(one) == code.of(two):
                continue
            line, a, b = code.line(node.start_byte), code.of(one), code.of(two)
            edits = (Edit(code.path, one.start_byte, one.end_byte, b), Edit(code.path, two.start_byte, two.end_byte, a))
            yield Candidate("swapped-arrays", f"line {line} swaps {a} and {b}: "
                            f"`{' '.join(code.of(node).split())[:80]}`", f"swap {a} and {b} in line {line}",
                            edits)  # fmt: skip


def _factors(code: Code, node: Node) -> tuple[Node | None, Node | None]:
    """The names of the two arrays whose elements are multiplied, by `*` or as the first two arguments of an fma."""
    if node.type == "binary_expression":
        sign = node.child_by_field_name("operator")
        if sign is None or code.of(sign) != "*":
            return None, None
        return _array(node.child_by_field_name("left")), _array(node.child_by_field_name("right"))
    called, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if called is None or listed is None or "fma" not in code.of(called) or listed.named_child_count != 3:
        return None, None
    return _array(listed.named_children[0]), _array(listed.named_children[1])


def _array(node: Node | None) -> Node | None:
    """The name of the array whose element an expression is."""
    is_element = False
    while node is not None and node.type == "subscript_expression":
        node, is_element = node.child_by_field_name("argument"), True
    return node if is_element and node is not None and node.type == "identifier" else None


def _swapped(code: Code, index: Node, one: str, other: str) -> Iterator[Candidate]:
    nodes = [node for node in below(index, "identifier") if code.of(node) in (one, other)]
    if one == other or len({code.of(node) for node in nodes}) != 2:
        return
    swap, line = {one: other, other: one}, code.line(index.start_byte)
    edits = tuple(Edit(code.path, node.start_byte, node.end_byte, swap[code.of(node)]) for node in nodes)
    cause = f"{one} and {other} are swapped in the index `{code.of(index)}` in line {line}"
    yield Candidate("swapped-index", cause, f"swap them in line {line}", edits)  # fmt: skip
