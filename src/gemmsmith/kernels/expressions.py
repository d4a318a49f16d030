"""Evaluate small integer expressions such as ``ceil(N/BN)`` or ``(BM*BN)/(TM*TN)``, without eval.

Division is exact until ``ceil`` or ``floor`` rounds it; C's truncating division can be had with ``//``.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from gemmsmith.errors import UsageError

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: lambda a, b: Fraction(a) / Fraction(b), ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil, "floor": math.floor, "min": min, "max": max,
    "ceil_div": lambda a, b: math.ceil(Fraction(a) / Fraction(b)), "cdiv": lambda a, b: math.ceil(Fraction(a) / b),
}  # fmt: skip


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The integer value of ``text`` with ``names``, or an error that shows what is wrong."""
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise UsageError(f"cannot evaluate {text!r}: {error}", "write integers, names, + - * / // %, ceil()") from None
    if value != int(value):
        raise UsageError(f"{text!r} is {value}, not an integer", f"round it, for example ceil({text.strip()})")
    return int(value)


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
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if node.keywords:
            raise ValueError("functions take no keywords")
        return _FUNCTIONS[node.func.id](*[_value(argument, names) for argument in node.args])
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")
