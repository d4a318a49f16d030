"""Launches through a table of kernels, of structs that hold one, or through a function that returns one.

static const Gemm table[] = {gemm<8>, gemm<16>};             table[i]<<<grid, block>>>(A, B, C, M, N, K);
Version versions[] = {{"small", gemm<8>, 8}, …};             for (auto& v : versions) v.run<<<…>>>(…);
std::map<int, Gemm> by_tile = {{8, gemm<8>}, …};             by_tile.at(tile)<<<…>>>(…);
Gemm pick(int tile) { switch (tile) { case 8: return gemm<8>; … } }

Each element that names the kernel is one way to launch it; the variables that choose it then have its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gemmsmith.userfile.host.function_bodies import body_tree, calls_of, returns
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.launches.launch_text import launched, split_template
from gemmsmith.userfile.text.declared import Variable, innermost, text_of
from gemmsmith.userfile.text.syntax import descend, words

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPRESSION = re.compile(
    r"(?P<base>\w+)(?P<index>(?:\s*\[[^\[\]]*\]|\s*\.\s*at\s*\([^()]*\))*)(?:\s*(?:\.|->)\s*(?P<member>\w+))?"
)
_INDEX = re.compile(r"\[([^\[\]]*)\]|\.\s*at\s*\(([^()]*)\)")
# versions[i], (versions)[0]
_ELEMENT = re.compile(
    r"\(?\s*[&*]?\s*(\w+)\s*\)?\s*((?:\[[^\[\]]*\]|\.\s*at\s*\([^()]*\))+)"
)  # versions[i], (versions)[0]
_CALL = re.compile(r"((?:\w+\s*::\s*)*\w+)\s*\((.*)\)", re.S)
_EQUALS = re.compile(r"\(?\s*(\w+)\s*==\s*(-?\w+)\s*\)?")
_BRANCHES = frozenset({"if_statement", "else_clause", "case_statement"})


@dataclass(frozen=True)
class Entry:
    """An element of a table that names a kernel: the spelled kernel, and the frame in which it was chosen."""

    spelled: str
    template: tuple[str, ...]
    frame: Frame


def entries(expression: str, frame: Frame, name: str) -> Iterator[Entry]:
    """The kernels called ``name`` that a launched expression may mean at ``frame``."""
    expression = launched(expression)[0].strip()
    if (call := _CALL.fullmatch(expression)) is not None and not re.search(r"\.\s*at\s*$", call[1]):
        yield from _returned(call[1].rsplit("::", 1)[-1], split_template(call[2]), frame, name)
        return
    found = _EXPRESSION.fullmatch(expression)
    if found is None:
        return
    base, index = found["base"], [a or b for a, b in _INDEX.findall(found["index"])]
    owner = f"{base}{found['index']}"
    variable = frame.locals.variables.get(base)
    if not index and variable is not None and (element := _ELEMENT.fullmatch(variable.value)) is not None:
        # a variable that refers to an element, or walks through all of them
        loops = variable.value.startswith("(")
        base, index = element[1], [] if loops else [a or b for a, b in _INDEX.findall(element[2])]
        yield from _elements(base, index or [""], owner, frame, name)
    elif index:
        yield from _elements(base, index, owner, frame, name)
    elif not found["member"] and (bound := _bound(base, frame)) is not None:
        yield from _unpacked(*bound, frame, name)


def _elements(base: str, index: list[str], owner: str, frame: Frame, name: str) -> Iterator[Entry]:
    """Elements of the table ``base`` that name the kernel; ``owner`` is how the launch spells the element."""
    table = _table(base, frame)
    if table is None:
        return
    kind, text = table
    for path, element, parts in _naming(text, len(index), name):
        places = dict(zip(index, map(str, path), strict=False))
        kernel = next(part for part in parts if _names(part, name))
        chosen = [(owner, kind, element)]
        if _is_map(kind) and len(parts) == 2 and len(index) == 1:
            places = {index[0]: parts[0]}
        chosen += [(variable, "", value) for variable, value in places.items() if variable.isidentifier()]
        yield _entry(kernel, frame, chosen)


def _unpacked(names: list[str], table: str, frame: Frame, name: str) -> Iterator[Entry]:
    """``for (auto [label, kernel, tile] : table)``: each name has its part of the element."""
    found = _table(table, frame)
    for _, _, parts in _naming(found[1], 1, name) if found is not None else ():
        kernel = next(part for part in parts if _names(part, name))
        yield _entry(kernel, frame, [(each, "", part) for each, part in zip(names, parts, strict=False)])


def _returned(called: str, arguments: list[str], frame: Frame, name: str) -> Iterator[Entry]:
    """Kernels that a function returns, with the arguments that its conditions ask for."""
    for source in frame.sources:
        for function in source.functions:
            if function.name != called or len(function.parameters) < len(arguments):
                continue
            passed = {p.name: text for p, text in zip(function.parameters, arguments, strict=False)}
            for start, text in returns(function):
                inner = Frame(source, frame.project, function, start)
                asked = [_EQUALS.fullmatch(condition) for condition, holds in inner.locals.conditions if holds]
                values = [(passed.get(each[1], ""), "", each[2]) for each in asked if each is not None]
                if _names(text, name):
                    yield _entry(text, frame, [each for each in values if each[0].isidentifier()])
            return


def assigned(variable: str, frame: Frame, name: str) -> Iterator[Entry]:
    """Kernels that branches before the launch assign to ``variable``, with what else the same branch assigns."""
    if frame.function is None:
        return
    code, body, shift = body_tree(frame.function)
    for node in descend(body, frozenset()):
        if node.type != "assignment_expression" or node.start_byte - shift >= frame.start:
            continue
        left, right = (text_of(code, node.child_by_field_name(side)) for side in ("left", "right"))
        if left.strip() != variable or not _names(right, name):
            continue
        branch = _branch(node)
        if branch is not None:
            inner = replace(frame, start=node.start_byte - shift).locals.conditions
            asked = [
                _EQUALS.fullmatch(text)
                for text, holds in inner
                if holds and (text, holds) not in frame.locals.conditions
            ]
            values = [(each[1], "", each[2]) for each in asked if each is not None]
            yield _entry(right, frame, [*values, *_assignments(code, branch)])


def passed_to_lambda(parameter: str, frame: Frame, name: str) -> Iterator[Entry]:
    """Kernels that calls of the lambda around the launch pass for ``parameter``, with the other arguments."""
    if frame.function is None:
        return
    code, body, shift = body_tree(frame.function)
    around = [node for node in descend(body, frozenset()) if node.type == "lambda_expression"
              and node.start_byte <= frame.start + shift < node.end_byte]  # fmt: skip
    for node in reversed(around):
        outer, listed = node.parent, node.child_by_field_name("declarator")
        parameters = listed.child_by_field_name("parameters") if listed is not None else None
        own = outer.child_by_field_name("declarator") if outer is not None and outer.type == "init_declarator" else None
        if own is None or parameters is None:
            continue
        found = (innermost(each.child_by_field_name("declarator")) for each in parameters.named_children)
        names = [text_of(code, each) if each is not None else "" for each in found]
        for _, _, arguments in calls_of(frame.function, text_of(code, own)) if parameter in names else ():
            given = dict(zip(names, arguments, strict=False))
            if parameter in given and _names(given[parameter], name):
                chosen = [(each, "", text) for each, text in given.items() if each and each != parameter]
                yield _entry(given[parameter], frame, chosen)


def _branch(node: Node) -> Node | None:
    """The innermost case, or branch of an if, around a statement."""
    outer = node.parent
    while outer is not None and outer.type not in ("function_definition", "lambda_expression"):
        around = outer.parent.type if outer.parent is not None else ""
        if outer.type == "case_statement" or (outer.type == "compound_statement" and around in _BRANCHES):
            return outer
        outer = outer.parent
    return None


def _assignments(code: str, branch: Node) -> Iterator[tuple[str, str, str]]:
    for node in branch.named_children:
        inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
        if inner.type == "assignment_expression":
            left, right = (words(text_of(code, inner.child_by_field_name(side))) for side in ("left", "right"))
            if left.isidentifier() and text_of(code, inner.child_by_field_name("operator")) == "=":
                yield left, "", right


def _entry(kernel: str, frame: Frame, chosen: list[tuple[str, str, str]]) -> Entry:
    spelled, template = _meant(kernel)
    return Entry(spelled, template, replace(frame, chosen=(*frame.chosen, *chosen)))


def _table(base: str, frame: Frame) -> tuple[str, str] | None:
    """Type and initializer of a variable of the function, the file or its headers."""
    local: Variable | None = frame.locals.variables.get(base)
    if local is not None and _list(local.value) is not None:
        return local.type, local.value
    for source in frame.sources:
        for store in (source.constants, source.variables):
            if base in store and _list(store[base]) is not None:
                declared = re.search(rf"([\w:<>,\s*&]+?)\s*\b{re.escape(base)}\s*(?:\[[^\]]*\]\s*)*[={{]", source.text)
                return declared[1] if declared is not None else "", store[base]
    return None


def _naming(text: str, levels: int, name: str) -> Iterator[tuple[list[int], str, list[str]]]:
    """Elements of an initializer, ``levels`` lists deep, that name the kernel: place, text and parts."""
    inner = _list(text)
    if inner is None:
        return
    elements = split_template(inner)
    if levels == 1 and len(elements) == 1 and _list(elements[0]) is not None and _nested(elements[0]):
        elements = split_template(_list(elements[0]) or "")  # std::array<Entry, 2>{{{…}, {…}}}
    for place, element in enumerate(elements):
        if levels > 1:
            for path, whole, parts in _naming(element, levels - 1, name):
                yield [place, *path], whole, parts
            continue
        within = _list(element) if not _names(element, name) else None
        parts = split_template(within) if within is not None else [element]
        if any(_names(part, name) for part in parts):
            yield [place], element, parts


def _nested(text: str) -> bool:
    return all(_list(part) is not None for part in split_template(_list(text) or ""))


def _list(text: str) -> str | None:
    """What is between the brackets of ``{…}``, ``Type{…}``, read as ``Type(…)``, and ``std::make_pair(…)``."""
    match = re.fullmatch(r"[\w:<>,\s*]*?\{(.*)\}|[A-Za-z_][\w:<>,\s*]*?\((.*)\)", text.strip(), re.S)
    return None if match is None else match[1] if match[1] is not None else match[2]


def _names(text: str, name: str) -> bool:
    return _meant(text)[0].rsplit("::", 1)[-1] == name


def _meant(text: str) -> tuple[str, tuple[str, ...]]:
    """The kernel of a part of an element, with its template arguments; ``.run = gemm<8>`` has the member before it."""
    return launched(re.sub(r"^\.\s*\w+\s*=\s*", "", text.strip()))


def _bound(name: str, frame: Frame) -> tuple[list[str], str] | None:
    """The names of a structured binding with ``name`` in it, and the table that its loop walks through."""
    body = frame.function.body[: frame.start] if frame.function is not None else ""
    for match in reversed(list(re.finditer(r"\bauto\s*&*\s*\[([\w\s,]+)\]\s*:\s*(\w+)\s*\)", body))):
        names = [each.strip() for each in match[1].split(",")]
        if name in names:
            return names, match[2]
    return None


def _is_map(kind: str) -> bool:
    return bool(re.search(r"\bmap\b", kind))
