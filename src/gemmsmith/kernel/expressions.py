"""Small integer expressions such as ``ceil(N/BN)`` or ``BM*BN/(TM*TN)``: read once, evaluated without eval.

``/`` is exact: its result must be an integer in the end, or be rounded by ``ceil`` or ``floor``; ``//`` truncates.
Conditions are ``BM % WM == 0 and WM >= 16``, choices ``a if c else b`` or ``select(n, first, second, ...)``.
``evaluate_c`` reads the same arithmetic in C++: casts, suffixes, sizeof, integer division.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gemmsmith.errors import UsageError

_Evaluator = Callable[[Mapping[str, int]], Any]
_SHOWN = 60  # letters of an expression in a message


def _exact_quotient(a: Any, b: Any) -> Any:
    quotient, rest = divmod(a, b)
    return Fraction(a) / Fraction(b) if rest else quotient


def _ceil_quotient(a: Any, b: Any) -> Any:
    return -(-a // b)


def _shift(by: int) -> int:
    if not 0 <= by < 63:
        raise ValueError(f"a shift by {by}")
    return by


def _select(number: int, *values: Any) -> Any:
    if not 1 <= number <= len(values):
        raise ValueError(f"select({number}, ...) of {len(values)} values")
    return values[number - 1]


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: _exact_quotient, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: lambda a, b: a << _shift(b), ast.RShift: lambda a, b: a >> _shift(b),
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor, "min": min, "max": max,
    "gcd": math.gcd, "select": _select,
}  # fmt: skip
# CEIL_DIV, ceil_div, cdiv, div_up, divUp, iDivUp, div_round_up, ceildiv: all round a quotient up.
_ROUNDS_UP = re.compile(r"i?(?:c_?div|(?=\w*div)(?=\w*(?:ceil|up))\w+)", re.I)

_SIZES = {
    "float": 4, "int": 4, "unsigned": 4, "double": 8, "half": 2, "__half": 2, "nv_bfloat16": 2, "__nv_bfloat16": 2,
    "half2": 4, "__half2": 4, "float2": 8, "float4": 16, "char": 1, "size_t": 8, "uint32_t": 4,
}  # fmt: skip
_WORD = r"(?:unsigned|signed|long|short|int|u?int\d+_t|uint|size_t|float|double)"
_CAST = re.compile(
    rf"\b(?:static|reinterpret|const)_cast\s*<[^<>]*>|\(\s*(?:const\s+)?{_WORD}(?:\s+{_WORD})*\s*\)|\b{_WORD}\s*(?=[(])"
)


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The integer value of ``text`` with ``names``, or an error that shows what is wrong."""
    value = _value(text, names)
    if type(value) is int:
        return value
    if value != int(value):
        raise UsageError(f"{text!r} is {value}, not an integer", f"round it, for example ceil({text.strip()})")
    return int(value)


class Formulas:
    """Several expressions that are evaluated together, with less time per expression than ``evaluate`` takes."""

    def __init__(self, *texts: str) -> None:
        self._texts, self._readers = texts, [_read(text) for text in texts]

    def __call__(self, names: Mapping[str, int]) -> list[int]:
        try:
            values = [read(names) for read in self._readers]
            if type(sum(values)) is int:
                return values
        except (KeyError, ArithmeticError, ValueError, TypeError):
            pass
        return [evaluate(text, names) for text in self._texts]  # the error says what is wrong with which


def holds(text: str, names: Mapping[str, int]) -> bool:
    """Whether the condition ``text`` is true with ``names``."""
    return bool(_value(text, names))


def with_arithmetic(text: str, names: Mapping[str, int]) -> str:
    """The expression, the same with numbers for names, and its value: ``BM·BK = 32·8 = 256``; of a name: ``BM=32``."""
    if text.isidentifier():
        return f"{text}={names[text]}"
    plain = text.replace("//", "/").replace("*", "·")
    filled = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: str(names.get(m[0], m[0])), plain)
    return f"{plain} = {filled} = {shown_value(text, names)}"


def shown_value(text: str, names: Mapping[str, int]) -> str:
    """The value for people: 8192, but 65,536; a fraction if it is one."""
    value = _value(text, names)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _value(text: str, names: Mapping[str, int]) -> Any:
    try:
        return _read(text)(names)
    except KeyError as error:
        reason = f"unknown name {error.args[0]!r} (known: {', '.join(sorted(names))})"
    except SyntaxError as error:
        reason = error.msg  # without Python's own place in it
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        reason = str(error)
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    raise UsageError(f"cannot evaluate {short!r}: {reason}", "write integers, names, + - * / // %, ceil()") from None


@lru_cache(maxsize=4096)
def _read(text: str) -> _Evaluator:
    """``text`` as nested functions: specifications are evaluated for every call, and read once."""
    return _evaluator(ast.parse(text.strip(), mode="eval").body)


def _evaluator(node: ast.AST) -> _Evaluator:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return lambda _: number
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.BinOp(left, kind, right) if type(kind) in _BINARY:
            return _applied(_BINARY[type(kind)], left, right)
        case ast.UnaryOp(ast.USub(), operand):
            negated = _evaluator(operand)
            return lambda names: -negated(names)
        case ast.Call(ast.Name(id=name), arguments, keywords):
            return _call(name, arguments, bool(keywords), node)
        case ast.Compare(left, kinds, others) if all(type(kind) in _COMPARED for kind in kinds):
            sides = [left, *others]
            each = [_applied(_COMPARED[type(k)], sides[i], sides[i + 1]) for i, k in enumerate(kinds)]
            return each[0] if len(each) == 1 else _all(each)
        case ast.BoolOp(kind, operands):
            return (_any if isinstance(kind, ast.Or) else _all)([_evaluator(operand) for operand in operands])
        case ast.IfExp(condition, yes, no):
            asked, first, second = map(_evaluator, (condition, yes, no))
            return lambda names: first(names) if asked(names) else second(names)
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")


def _all(conditions: list[_Evaluator]) -> _Evaluator:
    first, *others = conditions
    rest = _all(others) if len(others) > 1 else others[0]
    return lambda names: bool(first(names) and rest(names))


def _any(conditions: list[_Evaluator]) -> _Evaluator:
    first, *others = conditions
    rest = _any(others) if len(others) > 1 else others[0]
    return lambda names: bool(first(names) or rest(names))


def _applied(function: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr) -> _Evaluator:
    a, b = _evaluator(left), _evaluator(right)
    match left, right:  # the common cases, with fewer calls
        case ast.Name(id=first), ast.Name(id=second):
            return lambda names: function(names[first], names[second])
        case ast.Constant(value=number), _:
            return lambda names: function(number, b(names))
        case _, ast.Constant(value=number):
            return lambda names: function(a(names), number)
        case ast.Name(id=first), _:
            return lambda names: function(names[first], b(names))
        case _, ast.Name(id=second):
            return lambda names: function(a(names), names[second])
    return lambda names: function(a(names), b(names))


def _call(name: str, arguments: list[ast.expr], keywords: bool, node: ast.Call) -> _Evaluator:
    called = _ceil_quotient if _ROUNDS_UP.fullmatch(name) else _FUNCTIONS.get(name)
    if called is None:
        raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")
    if keywords:
        raise ValueError("functions take no keywords")
    match arguments:
        case [ast.BinOp(left, ast.Div(), right)] if name in ("ceil", "ceilf"):
            return _applied(_ceil_quotient, left, right)  # without a fraction in between
    given = [_evaluator(argument) for argument in arguments]
    return lambda names: called(*[argument(names) for argument in given])


def rounds_up(name: str) -> bool:
    """Whether a function of this name rounds a quotient up: CEIL_DIV, cdiv, div_up."""
    return _ROUNDS_UP.fullmatch(name) is not None


def c_as_python(text: str) -> str:
    """A C++ integer expression in the notation of ``evaluate``; a member ``a.b`` becomes the name ``a__dot_b``."""
    text = re.sub(r"\bsizeof\s*\(\s*(\w+)\s*\)", lambda m: str(_SIZES.get(m[1], m[0])), text)
    floating = re.search(r"\b(?:float|double)\b|\d\.|\.\d", text)
    text = re.sub(r"\b(\d+)\.0*[fF]?(?![\w.])", r"\1", _CAST.sub("", text))
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"(?:\b\w+)?::", "", text)
    while (plain := re.sub(r"\b([A-Za-z_]\w*)\s*(?:\.|->)\s*([A-Za-z_]\w*)", r"\1__dot_\2", text)) != text:
        text = plain
    text = text if floating else re.sub(r"//?", "//", text)
    return " ".join((_with_choices(text) if "?" in text else text).split())


def _with_choices(text: str) -> str:
    """``c ? a : b`` as ``(a if c else b)``, inside parentheses too; conditions in Python's words."""
    levels = [""]
    for char in text:
        if char == "(":
            levels.append("")
        elif char == ")" and len(levels) > 1:
            inner = levels.pop()
            levels[-1] += f"({_choice(inner)})"
        else:
            levels[-1] += char
    if len(levels) > 1:
        raise UsageError(f"cannot read {text!r}: a ( without its )")
    return _choice(levels[0])


def _choice(text: str) -> str:
    """The same for a text whose parentheses have been read."""
    parts, marks, depth = [""], "", 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char in "?:," and depth == 0:
            marks += char
            parts.append("")
        else:
            parts[-1] += char

    def joined(first: int, last: int) -> str:
        return parts[first] + "".join(marks[i - 1] + parts[i] for i in range(first + 1, last + 1))

    if (at := marks.find(",")) >= 0:
        return f"{_choice(joined(0, at))}, {_choice(joined(at + 1, len(marks)))}"
    if not marks:
        return text.replace("&&", " and ").replace("||", " or ")
    opened = 0
    for i, mark in enumerate(marks):
        opened += 1 if mark == "?" else -1
        if opened == 0 and i > 0:
            yes, no = joined(1, i), joined(i + 1, len(marks))
            return f"(({_choice(yes)}) if ({_choice(parts[0])}) else ({_choice(no)}))"
    raise UsageError(f"cannot read {text!r}: a ? without its :")


def evaluate_c(text: str, names: Mapping[str, int]) -> int:
    """The value of a C++ integer expression; its division truncates unless the operands are floating-point."""
    return evaluate(c_as_python(text), names)


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


class Names(Mapping[str, int]):
    """Integers by name: known ones, then texts that are evaluated on demand, then sizes by their usual name.

    ``sized`` says whether a size of the problem was asked for.
    """

    def __init__(
        self,
        known: Mapping[str, int],
        texts: Mapping[str, str],
        bound: Mapping[str, frozenset[int]] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.known, self.texts, self.bound, self.sizes = known, texts, bound or {}, sizes or {}
        self.sized = False
        self._open: set[str] = set()

    def __getitem__(self, name: str) -> int:
        if name not in self:
            raise KeyError(name)
        if name in self.bound:
            self.sized = True
            if len(self.bound[name]) > 1:
                raise UsageError(f"{name} stands for several sizes")
            return min(self.bound[name])
        if name in self.known:
            return self.known[name]
        if name in self.texts and name not in self._open:
            self._open.add(name)
            try:
                return evaluate_c(self.texts[name], self)
            except UsageError:
                if name not in self.sizes:
                    raise
            finally:
                self._open.discard(name)
        if name not in self.sizes:
            raise UsageError(f"{name} has no value")
        self.sized = True
        return self.sizes[name]

    def __contains__(self, name: object) -> bool:
        return any(name in group for group in (self.bound, self.known, self.texts, self.sizes))

    def __iter__(self) -> Iterator[str]:
        return iter({**self.bound, **self.known, **self.texts, **self.sizes})

    def __len__(self) -> int:
        return len(list(iter(self)))


def constants(known: Mapping[str, int], texts: Mapping[str, str]) -> dict[str, int]:
    """``known`` and all of ``texts`` that are integers."""
    names, found = Names(known, texts), dict(known)
    for name in texts:
        try:
            found.setdefault(name, names[name])
        except (UsageError, RecursionError):
            continue  # not an integer the launch could depend on
    return found
