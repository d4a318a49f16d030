"""One of a pair, where the other belongs: x and y of a thread, components of a vector, low and high, row and column
major."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import global_accesses
from gemmsmith.cure.code import Code, Function, Program, below, binary_expressions
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.shared_arrays import shared_accesses
from gemmsmith.cure.wording import changed, flat

if TYPE_CHECKING:
    from tree_sitter import Node

_BUILT_IN = re.compile(r"(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])")
_COMPONENTS = "xyzw"
_LAYOUTS = {"row_major": "col_major", "col_major": "row_major",
            "mem_row_major": "mem_col_major", "mem_col_major": "mem_row_major"}  # fmt: skip
_HALVES = re.compile(r"__(low|high)(2float|2half|s2half2|2bfloat16)$")
_OTHER_HALF = {"low": "high", "high": "low"}
_MOST_THREADS = 16


def mismatched_axes(program: Program) -> Iterator[Candidate]:
    """`blockIdx.y * blockDim.x` becomes `blockIdx.y * blockDim.y`; `blockIdx.y * T + threadIdx.x` becomes
    `blockIdx.y * T + threadIdx.y`."""
    for function in program.reached:
        code = function.code
        for node, sign, left, right in binary_expressions(code, function.body, ("*", "+")):
            block, other = _axis(code, left, "blockIdx"), _built_in(code, right)
            if sign == "*":
                block, other = (block, other) if block else (_axis(code, right, "blockIdx"), _built_in(code, left))
            wanted = "blockDim" if sign == "*" else "threadIdx"
            if not block or other is None or other[0] != wanted or other[1] == block:
                continue
            what, _, place = other
            yield _replaced(code, place, f"{what}.{block}", "mismatched-axis",
                            f"line {code.line(node.start_byte)} has blockIdx.{block} with {code.of(place)}: "
                            f"`{flat(code.of(node))}`")  # fmt: skip


def repeated_components(program: Program) -> Iterator[Candidate]:
    """`a.z * b.z + a.w * b.z` becomes `a.z * b.z + a.w * b.w`: a component that is read twice, where another one of the
    vector is never read."""
    for function in program.reached:
        code, read = function.code, _components(function)
        widths = {name: _width(function, name, [field for field, _ in found]) for name, found in read.items()}
        for name, found in read.items():
            times = Counter(field for field, _ in found)
            missing = [field for field in _COMPONENTS[: widths[name]] if field not in times]
            for field, node in reversed(found):
                for new in missing if times[field] > 1 else ():
                    yield _replaced(code, node, f"{name}.{new}", "wrong-component",
                                    f"line {code.line(node.start_byte)} reads {name}.{field} once more, and nothing "
                                    f"reads {name}.{new}")  # fmt: skip


def other_halves(program: Program) -> Iterator[Candidate]:
    """`__low2float(b)` becomes `__high2float(b)` where a function has the same call twice; then anywhere."""
    for function in program.reached:
        code = function.code
        calls = [node for node in below(function.body, "call_expression")
                 if (called := node.child_by_field_name("function")) is not None
                 and _HALVES.fullmatch(code.of(called))]  # fmt: skip
        times = Counter(flat(code.of(node)) for node in calls)
        for node in sorted(calls, key=lambda node: (times[flat(code.of(node))] == 1, -node.start_byte)):
            called = node.child_by_field_name("function")
            match = _HALVES.fullmatch(code.of(called)) if called is not None else None
            if called is not None and match is not None:
                old, line = match[1], code.line(node.start_byte)
                yield _replaced(code, called, f"__{_OTHER_HALF[old]}{match[2]}", "wrong-half",
                                f"line {line} takes the {old} half of a pair; it should take the {_OTHER_HALF[old]} "
                                "one")  # fmt: skip


def other_layouts(program: Program) -> Iterator[Candidate]:
    """`wmma::col_major` becomes `wmma::row_major`, and the other way round, at each fragment and store."""
    for function in program.reached:
        code = function.code
        for node in below(function.body, "type_identifier", "identifier"):
            new = _LAYOUTS.get(code.of(node))
            if new is not None:
                old, line = code.of(node), code.line(node.start_byte)
                yield _replaced(code, node, new, "wrong-fragment-layout",
                                f"line {line} says {old}, but the matrix that is loaded or stored there is "
                                f"{new}")  # fmt: skip


def other_threads(program: Program) -> Iterator[Candidate]:
    """`B[(k0 + tx) * N + col]` becomes `B[(k0 + ty) * N + col]`: the other axis of the thread, in one index."""
    made = 0
    for function in program.reached:
        code, pairs = function.code, _thread_pairs(function)
        indices = [access.index for access in global_accesses(program) if access.function is function]
        indices += [index for access in shared_accesses(program, function) for index in access.indices]
        for index in indices:
            for node in below(index, "identifier", "field_expression"):
                new = pairs.get(code.of(node))
                if new is None or made >= _MOST_THREADS:
                    continue
                made += 1
                old, line = code.of(node), code.line(node.start_byte)
                yield _replaced(code, node, new, "wrong-thread-axis",
                                f"line {line} uses {old} in an index; it should be {new}")  # fmt: skip


def _thread_pairs(function: Function) -> dict[str, str]:
    """The variables of a thread's two axes: tx and ty, or `t % 16` and `t / 16`, each with the other."""
    code, values = function.code, {}
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is not None and value is not None and named.type == "identifier":
            values[code.of(named)] = flat(code.of(value))
    found = {"threadIdx.x": "threadIdx.y", "threadIdx.y": "threadIdx.x"}
    for one, first in values.items():
        for two, second in values.items():
            crossed = re.sub(r"threadIdx\.([xy])", lambda axis: f"threadIdx.{'y' if axis[1] == 'x' else 'x'}", first)
            parted = re.sub(r"[%/]", lambda sign: "/" if sign[0] == "%" else "%", first)
            if one != two and second in (crossed, parted) and "threadIdx" in first and "blockIdx" not in first:
                found[one] = two
    return found


def _built_in(code: Code, node: Node) -> tuple[str, str, Node] | None:
    match = _BUILT_IN.fullmatch(code.of(node))
    return (match[1], match[2], node) if match else None


def _axis(code: Code, node: Node, what: str) -> str:
    """The axis of `blockIdx.y`, or of the block in a product such as `blockIdx.y * T`; empty if there is none."""
    found = {match[2] for match in _BUILT_IN.finditer(code.of(node)) if match[1] == what}
    is_product = node.type == "field_expression" or (
        node.type == "binary_expression" and "+" not in code.of(node) and "/" not in code.of(node)
    )
    return found.pop() if len(found) == 1 and is_product else ""


def _components(function: Function) -> dict[str, list[tuple[str, Node]]]:
    """The components of vector variables that a function reads, by the variable's text."""
    code = function.code
    found: dict[str, list[tuple[str, Node]]] = {}
    for node in below(function.body, "field_expression"):
        vector, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
        parent = node.parent
        is_written = parent is not None and parent.type == "assignment_expression" and parent.children[0].id == node.id
        if vector is None or field is None or is_written or _BUILT_IN.fullmatch(code.of(node)):
            continue
        if code.of(field) in tuple(_COMPONENTS):
            found.setdefault(code.of(vector), []).append((code.of(field), node))
    return found


def _width(function: Function, name: str, read: list[str]) -> int:
    """How many components a vector has: by its declared type, else as many as are read."""
    code, base = function.code, name.partition("[")[0]
    for node in below(function.body, "declaration"):
        kind = node.child_by_field_name("type")
        width = re.search(r"[a-z_]([234])$", code.of(kind)) if kind is not None else None
        declared = code.text[kind.end_byte : node.end_byte] if kind is not None else ""
        if width is not None and re.search(rf"(?:^|,)[\s*&]*{re.escape(base)}\b", declared):
            return int(width[1])
    return max(_COMPONENTS.index(field) for field in read) + 1


def _replaced(code: Code, node: Node, new: str, kind: str, cause: str) -> Candidate:
    line, old = code.line(node.start_byte), code.of(node)
    return Candidate(kind, cause, f"write `{new}` for `{old}` in line {line}: `{changed(code, node, new)}`",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip
