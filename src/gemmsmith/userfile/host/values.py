"""The value of a C++ expression: integers, quotients, dim3, arrays; names and functions come from a scope."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.syntax import expression, words

if TYPE_CHECKING:
    from tree_sitter import Node

Number = int | Fraction
Value = Number | tuple["Value", ...]


class UnknownValueError(UsageError):
    """An expression without a value that the source tells."""


class Scope(Protocol):
    """Where names get their values; each raises ``UnknownValueError`` for what it does not know."""

    def value(self, name: str) -> Value: ...
    def whole(self, text: str) -> Value | None: ...
    def meant(self, spelled: Number) -> Number: ...
    def call(self, name: str, template: Sequence[str], arguments: Sequence[str]) -> Value: ...
    def size_of(self, text: str) -> int: ...


_INTEGERS = re.compile(
    r"(?:(?:const|unsigned|signed|long|short|int|char|bool|size_t|ssize_t|uint|ushort|ulong|(?:cu)?u?int\d+_t|ptrdiff_t"
    r"|dim3::\w+|auto)\s*)+"
)
# What is compared before ``&&``: ``n < 8 && k > 0`` reads as a template ``n<8 && k>`` else.
_COMPARED = re.compile(r"(?:^|(?<=[(?,])|(?<=&&)|(?<=\|\|))([^()&|?,<]*<(?![<=])[^()&|?,<]*)(?=&&|\|\|)")
_SEEMS_CAST = re.compile(r"(?<![\w)\]>])\(\s*([A-Za-z_]\w*)\s*\)(?=\s*[-+*&])")
# An array's address as a number: all that host code asks of it is whether it is a multiple, which it is for whole
# allocations. Zero is a multiple of all.
_WORD = r"(?:std::)?u?intptr_t"
_ADDRESS = re.compile(rf"\(\s*{_WORD}\s*\)\s*(?:[A-Za-z_]\w*(?!\w*\s*[(\[])|\(\s*[A-Za-z_]\w*\s*\))"
                      rf"|reinterpret_cast\s*<\s*(?:{_WORD}|(?:std::)?(?:size_t|uint64_t)|unsigned\s+long(?:\s+long)?)\s*>"
                      r"\s*\(\s*[A-Za-z_]\w*\s*\)")  # fmt: skip
_FLOATS = re.compile(r"(?:(?:const|long|float|double)\s*)+")


def evaluate(text: str, scope: Scope) -> Value:
    """The value of ``text``; raises ``UnknownValueError``."""
    if text.startswith("{") and text.endswith("}"):
        text = f"dim3{text}"
    text = _ADDRESS.sub("0", text)
    found = expression(_without_seeming_casts(_COMPARED.sub(r"(\1)", text), scope))
    if found is None:
        raise UnknownValueError(f"{text!r} is not an expression")
    try:
        return _value(found[1], found[0], scope)
    except (ArithmeticError, ValueError, TypeError, IndexError) as error:
        raise UnknownValueError(f"cannot evaluate {text!r}: {error}") from None
    except RecursionError:
        raise UnknownValueError(f"{text[:40]!r} is nested too deeply") from None


def _without_seeming_casts(text: str, scope: Scope) -> str:
    """``(n) + (b) / 2`` without the parentheses of ``n``: without types at hand it reads as a cast of ``+(b) / 2``."""

    def bare(match: re.Match[str]) -> str:
        if _INTEGERS.fullmatch(match[1]) or _FLOATS.fullmatch(match[1]):
            return match[0]
        try:
            return match[0] if isinstance(scope.value(match[1]), tuple) else f" {match[1]} "
        except UsageError:
            return match[0]

    return _SEEMS_CAST.sub(bare, text)


def evaluate_int(text: str, scope: Scope) -> int:
    value = evaluate(text, scope)
    if isinstance(value, tuple):
        raise UnknownValueError(f"{text!r} is not a number")
    return math.trunc(value)


def number(value: Value) -> Number:
    if isinstance(value, tuple):
        raise TypeError("a dim3 where a number is needed")
    return value


def literal(text: str) -> Number:
    """A number as C++ spells it."""
    text = text.replace("'", "").lower()
    if text.startswith("0x"):
        return int(text.rstrip("ulz"), 16)
    if text.startswith("0b"):
        return int(text.rstrip("ulz"), 2)
    if re.search(r"[.ef]", text):
        return Fraction(text.rstrip("fl"))
    digits = text.rstrip("ulz")
    return int(digits, 8 if len(digits) > 1 and digits.startswith("0") else 10)


def _value(node: Node, code: str, scope: Scope) -> Value:
    reader = _READERS.get(node.type)
    if reader is None:
        raise UnknownValueError(f"{words(text_of(code, node))!r} is not arithmetic")
    if node.type in _WHOLE and (known := scope.whole(text_of(code, node))) is not None:
        return known
    return reader(node, code, scope)


_WHOLE = frozenset({"binary_expression", "call_expression", "subscript_expression"})


def _child(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise UnknownValueError("an incomplete expression")
    return child


def _binary(node: Node, code: str, scope: Scope) -> Value:
    operator = text_of(code, node.child_by_field_name("operator"))
    left = number(_value(_child(node, "left"), code, scope))
    if operator in ("&&", "and") and not left:
        return 0
    if operator in ("||", "or") and left:
        return 1
    right = number(_value(_child(node, "right"), code, scope))
    function = _BINARY.get(operator)
    if function is None:
        raise UnknownValueError(f"operator {operator}")
    return function(left, right)


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    return Fraction(a) / Fraction(b)


def _remainder(a: Number, b: Number) -> Number:
    return a - b * _quotient(math.trunc(a), math.trunc(b))


def _shift(a: Number, by: Number) -> int:
    if not 0 <= by < 63:
        raise ValueError(f"a shift by {by}")
    return math.trunc(a) << int(by)


_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _quotient, "%": _remainder,
    "<<": _shift, ">>": lambda a, b: math.trunc(a) >> int(b), "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b), "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)), "and": lambda a, b: int(bool(a and b)), "or": lambda a, b: int(bool(a or b)),
    "&": lambda a, b: int(a) & int(b), "|": lambda a, b: int(a) | int(b), "^": lambda a, b: int(a) ^ int(b),
}  # fmt: skip


def _unary(node: Node, code: str, scope: Scope) -> Value:
    operator = text_of(code, node.child_by_field_name("operator"))
    value = number(_value(_child(node, "argument"), code, scope))
    match operator:
        case "-":
            return -value
        case "+":
            return value
        case "!" | "not":
            return int(not value)
        case "~":
            return ~int(value)
    raise UnknownValueError(f"operator {operator}")


def converted(kind: str, value: Value) -> Value:
    """``value`` as type ``kind``."""
    if isinstance(value, tuple):
        return value
    if _FLOATS.fullmatch(kind):
        return Fraction(value)
    if kind.split()[-1:] == ["bool"]:
        return int(bool(value))
    return math.trunc(value) if _INTEGERS.fullmatch(kind) else value


def _conditional(node: Node, code: str, scope: Scope) -> Value:
    holds = _value(_child(node, "condition"), code, scope)
    return _value(_child(node, "consequence" if holds else "alternative"), code, scope)


def _cast(node: Node, code: str, scope: Scope) -> Value:
    return converted(words(text_of(code, _child(node, "type"))), _value(_child(node, "value"), code, scope))


def _arguments(node: Node | None) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"] if node is not None else []


def _call(node: Node, code: str, scope: Scope) -> Value:
    called = _child(node, "function")
    given = _arguments(node.child_by_field_name("arguments"))
    name, template = _called(text_of(code, called))
    short = name.rsplit("::", 1)[-1]
    if short.endswith("_cast") and template and len(given) == 1:
        return converted(template[0], _value(given[0], code, scope))
    if called.type == "primitive_type" or _INTEGERS.fullmatch(name) or _FLOATS.fullmatch(name):
        return converted(name, _value(given[0], code, scope)) if given else 0
    if short in ("dim3", "uint3", "make_uint3", "make_int3", "int3"):
        return _dim3([_value(each, code, scope) for each in given])
    if short in _FUNCTIONS and (len(given) == 1) == (short in _OF_ONE):  # ceil(a, b) is the file's own
        return _FUNCTIONS[short](*[number(_value(each, code, scope)) for each in given])
    return scope.call(name, template, [words(text_of(code, each)) for each in given])


def _called(text: str) -> tuple[str, list[str]]:
    from gemmsmith.userfile.launches.launch_text import split_template

    text = words(text)
    name, opened, rest = text.partition("<")
    if opened and rest.endswith(">"):
        return name.strip(), split_template(rest[:-1])
    return text, []


def _dim3(parts: Sequence[Value]) -> Value:
    if len(parts) == 1 and isinstance(parts[0], tuple):
        return parts[0]
    values = [math.trunc(number(part)) for part in parts[:3]]
    return (*values, *[1] * (3 - len(values)))


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor, "min": min, "max": max,
    "fmin": min, "fmax": max, "abs": abs, "fabs": abs, "fabsf": abs, "gcd": lambda a, b: math.gcd(int(a), int(b)),
    "sqrt": lambda a: Fraction(math.sqrt(a)), "sqrtf": lambda a: Fraction(math.sqrt(a)),
    "log2": lambda a: Fraction(math.log2(a)), "pow": lambda a, b: a ** min(b, 62),
    **dict.fromkeys(("round", "roundf", "lround", "lroundf", "llround"), lambda a: math.floor(a + Fraction(1, 2))),
    **dict.fromkeys(("rint", "rintf", "lrint", "lrintf", "llrint", "nearbyint", "nearbyintf"), lambda a: round(a)),
    **dict.fromkeys(("trunc", "truncf"), math.trunc),
}  # fmt: skip
_OF_TWO = frozenset(("min", "max", "fmin", "fmax", "gcd", "pow"))
_OF_ONE = frozenset(_FUNCTIONS) - _OF_TWO


def _size(node: Node, code: str, scope: Scope) -> Value:
    inner = node.child_by_field_name("type") or node.child_by_field_name("value")
    text = words(text_of(code, inner))
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    return scope.size_of(text)


def _field(node: Node, code: str, scope: Scope) -> Value:
    path = path_of(text_of(code, node))
    try:
        return scope.value(path)
    except UnknownValueError:
        axis = path.rsplit(".", 1)[-1]
        if axis not in ("x", "y", "z", "w"):
            raise
    whole = _value(_child(node, "argument"), code, scope)
    if not isinstance(whole, tuple):
        raise UnknownValueError(f"{path} has no value")
    return whole["xyzw".index(axis)]


def _subscript(node: Node, code: str, scope: Scope) -> Value:
    try:
        return scope.value(path_of(text_of(code, node)))  # an element that is assigned
    except UnknownValueError:
        array = _value(_child(node, "argument"), code, scope)
    indices = _arguments(node.child_by_field_name("indices"))
    if not isinstance(array, tuple) or len(indices) != 1:
        raise UnknownValueError("an array without values")
    return array[int(number(_value(indices[0], code, scope)))]


def _list(node: Node, code: str, scope: Scope) -> Value:
    return tuple(_value(child, code, scope) for child in _arguments(node))


def _compound(node: Node, code: str, scope: Scope) -> Value:
    kind = words(text_of(code, node.child_by_field_name("type")))
    parts = [_value(child, code, scope) for child in _arguments(node.child_by_field_name("value"))]
    if kind.rsplit("::", 1)[-1] == "dim3":
        return _dim3(parts)
    if len(parts) == 1:
        return converted(kind, parts[0])
    return tuple(parts) if parts else _empty(kind, scope)


def _empty(kind: str, scope: Scope) -> Value:
    """``T{}``: zero, or the number that the type carries (``Int<128>{}``, ``_128{}`` of CuTe, integral constants)."""
    name, template = _called(kind)
    short = name.rsplit("::", 1)[-1]
    if template and short in ("Int", "C", "constant", "integral_constant", "bool_constant"):
        return evaluate(template[-1], scope)
    if re.fullmatch(r"_\d+", short):
        return int(short[1:])
    if _INTEGERS.fullmatch(kind) or _FLOATS.fullmatch(kind):
        return 0
    return scope.call(f"{short}{{}}", template, [])


def _name(node: Node, code: str, scope: Scope) -> Value:
    return scope.value(words(text_of(code, node)).replace(" ", ""))


_READERS: dict[str, Callable[[Node, str, Scope], Value]] = {
    "number_literal": lambda node, code, scope: scope.meant(literal(text_of(code, node))),
    "true": lambda *_: 1, "false": lambda *_: 0,
    "identifier": _name, "qualified_identifier": _name, "field_identifier": _name, "type_identifier": _name,
    "parenthesized_expression": lambda node, code, scope: _value(node.named_children[-1], code, scope),
    "binary_expression": _binary, "unary_expression": _unary, "conditional_expression": _conditional,
    "cast_expression": _cast, "call_expression": _call, "sizeof_expression": _size, "field_expression": _field,
    "subscript_expression": _subscript, "initializer_list": _list, "compound_literal_expression": _compound,
}  # fmt: skip
