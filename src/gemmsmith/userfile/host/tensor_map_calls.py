"""Where host code encodes the tensor map that a launch passes: the call of ``cuTensorMapEncodeTiled``, or of the entry
point that the driver gave, however many helper functions are between."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from gemmsmith.userfile.host.function_bodies import body_tree, returns
from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.host.host_frame import Frame, Sizes
from gemmsmith.userfile.host.host_values import CalledScope, HostScope, LambdaScope
from gemmsmith.userfile.host.values import UnknownValueError
from gemmsmith.userfile.launches.launch_text import arguments, launched, split_template
from gemmsmith.userfile.text.declared import innermost, parameters, text_of
from gemmsmith.userfile.text.parts import FunctionSource, SourceFile
from gemmsmith.userfile.text.syntax import descend, words

if TYPE_CHECKING:
    from tree_sitter import Node

_EVERYWHERE: frozenset[str] = frozenset()
_ARGUMENTS = 12  # of cuTensorMapEncodeTiled
_IM2COL_ARGUMENTS = 15  # of cuTensorMapEncodeIm2col
_DEEPEST = 12  # calls and variables followed
_COPIES = re.compile(r"(?:cudaMemcpy\w*|memcpy|cuMemcpy\w*)$")
_CAST = re.compile(
    r"^(?:\(\s*(?:const\s+)?[\w:]+\s*(?:const\s*)?\*+\s*\)|(?:reinterpret|static|const)_cast\s*<[^()]*>|std\s*::\s*move)\s*"
)


@dataclass(frozen=True)
class EncodeCall:
    """The arguments as texts of ``scope``, and where the call is."""

    arguments: tuple[str, ...]
    scope: HostScope
    line: int
    text: str

    @property
    def is_im2col(self) -> bool:
        """Whether it is ``cuTensorMapEncodeIm2col``, which has three arguments more."""
        return len(self.arguments) == _IM2COL_ARGUMENTS

    @property
    def place(self) -> str:
        """The place: "matmul.cuh:43"."""
        return f"{self.scope.frame.source.path.name}:{self.line}"


@dataclass(frozen=True)
class _Write:
    """Something that may write a variable: ``value`` is assigned to it, or it is argument ``index`` of a call."""

    start: int
    target: str
    value: str = ""
    called: str = ""
    given: tuple[str, ...] = ()
    index: int = 0
    line: int = 0
    text: str = ""


def encode_call(text: str, scope: HostScope, depth: int = 0) -> EncodeCall | None:
    """The call that encodes the map that ``text`` stands for in ``scope``; None if the source does not show it."""
    text = bare(text)
    if depth > _DEEPEST or not text:
        return None
    if re.fullmatch(r"[\w:.<>,\s*+/()-]+?\s*\(.*\)", text):
        return _returned(text, scope, depth)
    path = path_of(text)
    if not re.fullmatch(r"[A-Za-z_][\w.]*(?:\[\w+\])?", path):
        return None
    if scope.frame.function is not None:
        for write in reversed(_writes_of(path, scope.frame.function, scope.frame.start)):
            if (found := _written(write, scope, depth)) is not None:
                return found
        try:
            passed = scope.passed_for(path)
        except UnknownValueError:
            passed = None
        if passed is not None:
            return encode_call(passed[0], passed[1], depth + 1)
        if isinstance(scope, LambdaScope):
            return encode_call(path, scope.outer(), depth + 1)
    return _at_file_scope(path, scope, depth)


def bare(text: str) -> str:
    """``text`` without address operators, casts and parentheses."""
    text = text.strip()
    while True:
        less = _CAST.sub("", text).lstrip("&* ").strip()
        if less.startswith("(") and _closes_at_end(less):
            less = less[1:-1].strip()
        if less == text:
            return text
        text = less


def _closes_at_end(text: str) -> bool:
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


# --- what writes a variable


def _writes_of(path: str, function: FunctionSource, end: int) -> list[_Write]:
    return [each for each in _writes(function) if each.start < end and each.target == path]


@lru_cache(maxsize=256)
def _writes(function: FunctionSource) -> tuple[_Write, ...]:
    """Everything in a function's body that may write a variable, in order."""
    code, body, shift = body_tree(function)
    found: list[_Write] = []
    for node in descend(body, _EVERYWHERE):
        found += _writes_at(code, node, node.start_byte - shift, function.body_line)
    return tuple(sorted(found, key=lambda each: each.start))


def _writes_at(code: str, node: Node, start: int, first_line: int) -> Iterator[_Write]:
    if node.type == "init_declarator":
        name = innermost(node.child_by_field_name("declarator"))
        value = words(text_of(code, node.child_by_field_name("value")))
        if name is not None:
            yield _Write(start, text_of(code, name), value)
    elif node.type == "assignment_expression":
        left = text_of(code, node.child_by_field_name("left"))
        value = words(text_of(code, node.child_by_field_name("right")))
        yield _Write(start, path_of(left.lstrip("* ")), value)
    elif node.type == "call_expression":
        called = words(text_of(code, node.child_by_field_name("function")))
        given = arguments(code, node.child_by_field_name("arguments"))
        line = first_line + node.start_point[0]
        for index, text in enumerate(given):
            target = path_of(bare(text))
            if re.fullmatch(r"[A-Za-z_][\w.]*(?:\[\w+\])?", target):
                yield _Write(start, target, "", called, given, index, line, words(text_of(code, node)))


def _written(write: _Write, scope: HostScope, depth: int) -> EncodeCall | None:
    at = scope.moved(write.start)
    if not write.called:
        return encode_call(write.value, at, depth + 1) if re.search(r"[A-Za-z_]", write.value) else None
    short, template = _called(write.called)
    if _COPIES.match(short):
        return encode_call(write.given[1], at, depth + 1) if write.index == 0 and len(write.given) > 1 else None
    for inner, function in _functions(short, template, write.given, at):
        if write.index < len(function.parameters):
            end = inner.moved(len(function.body))
            if (found := encode_call(function.parameters[write.index].name, end, depth + 1)) is not None:
                return found
    many = _IM2COL_ARGUMENTS if "Im2col" in short else _ARGUMENTS
    if write.index == 0 and len(write.given) == many and _encodes(short, write.given):
        return EncodeCall(write.given, at, write.line, write.text)
    return None


def _called(text: str) -> tuple[str, tuple[str, ...]]:
    """The name of a called function without its scope, and its template arguments or those of its class."""
    name, template = launched(text)
    if not template and (match := re.fullmatch(r"[^<]*<(.*)>\s*::\s*(\w+)", name, re.S)):
        return match[2], tuple(split_template(match[1]))
    return re.split(r"::|\.|->", name)[-1].strip(), template


def _encodes(name: str, given: tuple[str, ...]) -> bool:
    """Whether a call is the driver's: by its name, or by the enumerators that it is given."""
    return "TensorMapEncode" in name or sum("CU_TENSOR_MAP_" in text for text in given) >= 2


# --- functions


def _functions(
    name: str, template: tuple[str, ...], given: tuple[str, ...], scope: HostScope
) -> Iterator[tuple[HostScope, FunctionSource]]:
    """The scopes of the functions and lambdas that a call may mean, the nearest first."""
    if (made := _lambda(name, scope)) is not None:
        start, function = made
        frame = replace(scope.frame, function=function, start=0, arguments=given, template=())
        yield LambdaScope(frame, scope.moved(start)), function
        return
    around = scope.frame.function.scope if scope.frame.function is not None else ""
    known: list[tuple[SourceFile, FunctionSource]] = [
        (source, function) for source in scope.frame.sources for function in source.functions
        if function.name == name and not function.device
        and sum(not p.default for p in function.parameters) <= len(given) <= len(function.parameters)
    ]  # fmt: skip
    known.sort(key=lambda each: each[1].scope != around)
    for source, function in known:
        frame = Frame(source, scope.frame.project, function, 0, scope.frame, given, template)
        yield CalledScope(frame, scope), function


def _lambda(name: str, scope: HostScope) -> tuple[int, FunctionSource] | None:
    """A lambda of the function around that a variable holds, and where it is written."""
    function = scope.frame.function
    if function is None or f"{name}" not in function.body or "[" not in function.body:
        return None
    code, body, shift = body_tree(function)
    for node in descend(body, _EVERYWHERE):
        if node.type != "init_declarator":
            continue
        held, value = innermost(node.child_by_field_name("declarator")), node.child_by_field_name("value")
        if value is None or value.type != "lambda_expression" or held is None or text_of(code, held) != name:
            continue
        declarator, inside = value.child_by_field_name("declarator"), value.child_by_field_name("body")
        if declarator is not None and inside is not None:
            text = text_of(code, inside)[1:-1]
            line = function.body_line + inside.start_point[0]
            made = FunctionSource(name, "", text, line, line, parameters(code, declarator), None, function.scope)
            return node.start_byte - shift, made
    return None


def _returned(text: str, scope: HostScope, depth: int) -> EncodeCall | None:
    """The map that a call returns."""
    called, _, rest = _split_call(text)
    short, template = _called(called)
    for inner, function in _functions(short, template, rest, scope):
        for start, value in returns(function):
            if (found := encode_call(value, inner.moved(start), depth + 1)) is not None:
                return found
    return None


def _split_call(text: str) -> tuple[str, str, tuple[str, ...]]:
    """The called expression and the arguments of the last pair of parentheses."""
    from gemmsmith.userfile.text.preprocessor import arguments_of

    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[:at].strip(), text, tuple(arguments_of(text[at + 1 : -1]))
    return text, text, ()


def _at_file_scope(path: str, scope: HostScope, depth: int) -> EncodeCall | None:
    """A variable at file scope, which some other function fills."""
    for source in scope.frame.sources:
        for function in source.functions:
            if function.device or function is scope.frame.function or path not in function.body:
                continue
            frame = Frame(source, scope.frame.project, function, len(function.body))
            other = HostScope(frame, scope.given, Sizes({}, scope.sizes.usual), scope.asked)
            for write in reversed(_writes_of(path, function, len(function.body))):
                if (found := _written(write, other, depth + 1)) is not None:
                    return found
    return None
