"""Evaluate small integer expressions such as ``ceil(N/BN)`` or ``(BM*BN)/(TM*TN)``, without eval.

Division is exact until ``ceil`` or ``floor`` rounds it; C's truncating division can be had with ``//``.
``evaluate_c`` reads the same arithmetic as C++ writes it: casts, suffixes, sizeof, integer division.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from gemmsmith.errors import UsageError

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: lambda a, b: Fraction(a) / Fraction(b), ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: lambda a, b: a << _shift(b), ast.RShift: lambda a, b: a >> _shift(b),
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor, "min": min, "max": max,
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
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise UsageError(f"cannot evaluate {text!r}: {error}", "write integers, names, + - * / // %, ceil()") from None
    if value != int(value):
        raise UsageError(f"{text!r} is {value}, not an integer", f"round it, for example ceil({text.strip()})")
    return int(value)


def c_as_python(text: str) -> str:
    """A C++ integer expression in the notation of ``evaluate``; a member ``a.b`` becomes the name ``a__dot_b``."""
    text = re.sub(r"\bsizeof\s*\(\s*(\w+)\s*\)", lambda m: str(_SIZES.get(m[1], m[0])), text)
    floating = re.search(r"\b(?:float|double)\b|\d\.|\.\d", text)
    text = re.sub(r"\b(\d+)\.0*[fF]?(?![\w.])", r"\1", _CAST.sub("", text))
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"(?:\b\w+)?::", "", text)
    while (plain := re.sub(r"\b([A-Za-z_]\w*)\s*(?:\.|->)\s*([A-Za-z_]\w*)", r"\1__dot_\2", text)) != text:
        text = plain
    return " ".join((text if floating else re.sub(r"//?", "//", text)).split())


def evaluate_c(text: str, names: Mapping[str, int]) -> int:
    """The value of a C++ integer expression; its division truncates unless it is one of floating-point numbers."""
    return evaluate(c_as_python(text), names)


def _shift(by: int) -> int:
    if not 0 <= by < 63:
        raise ValueError(f"a shift by {by}")
    return by


def _function(name: str) -> Callable[..., Any] | None:
    if _ROUNDS_UP.fullmatch(name):
        return lambda a, b: math.ceil(Fraction(a) / Fraction(b))
    return _FUNCTIONS.get(name)


def _value(node: ast.AST, names: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"unknown name {node.id!r} (known: {', '.join(sorted(names))})")
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (called := _function(node.func.id)):
        if node.keywords:
            raise ValueError("functions take no keywords")
        return called(*[_value(argument, names) for argument in node.args])
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")


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
    """Integers by name: those known, then those whose text has yet to be evaluated, then sizes by their usual name.

    ``sized`` tells whether a size of the problem was asked for.
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
    """All of ``texts`` that are integers, and what is known."""
    names, found = Names(known, texts), dict(known)
    for name in texts:
        try:
            found.setdefault(name, names[name])
        except (UsageError, RecursionError):
            continue  # not an integer the launch could depend on
    return found
