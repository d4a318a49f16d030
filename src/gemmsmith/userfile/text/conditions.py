"""Whether the condition of an ``#if`` holds, by the macros that the file defines above it.

A name that is neither defined in the file nor known is left open where a header of the project may define it; else it
is 0, as the compiler takes it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

# What the compiler defines. The architecture is taken to be new enough for what asks for it.
_KNOWN = {"__CUDA_ARCH__": 900, "__CUDACC__": 1, "__CUDACC_VER_MAJOR__": 13, "__CUDACC_VER_MINOR__": 0,
          "CUDART_VERSION": 13000, "CUDA_VERSION": 13000, "__cplusplus": 201703, "true": 1, "false": 0}  # fmt: skip
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\()")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_LEVELS = 8
_LONGEST = 400  # characters of a condition
_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def condition_value(text: str, macros: Mapping[str, str], *, all_known: bool = False) -> bool | None:
    """Whether ``text`` holds; None where a name in it is not known.

    macros     bodies of those without parameters
    all_known  no header defines others: what is not in ``macros`` is 0
    """
    words = {name: str(value) for name, value in _KNOWN.items()} | macros  # type: ignore[operator]
    text = _DEFINED.sub(lambda m: str(int((m[1] or m[2]) in words)), text)
    for _ in range(_LEVELS):
        new = _WORD.sub(lambda m: f"({words[m[0]]})" if words.get(m[0]) else m[0], text)
        if new == text or len(new) > _LONGEST:
            break
        text = new
    if all_known:
        text = _WORD.sub("0", text)
    text = re.sub(r"!(?!=)", " not ", _SUFFIX.sub(r"\1", text)).replace("&&", " and ").replace("||", " or ")
    try:
        return bool(_value(ast.parse(re.sub(r"(?<!/)/(?!/)", "//", text).strip(), mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BoolOp):
        return _either(node) if isinstance(node.op, ast.Or) else _both(node)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand)
        return int(not inner) if isinstance(node.op, ast.Not) else -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        return int(_OPERATORS[type(node.ops[0])](_value(node.left), _value(node.comparators[0])))
    raise ValueError("not known")


def _either(node: ast.BoolOp) -> int:
    """One side that holds is enough, whatever is not known of the others."""
    known = [_known(value) for value in node.values]
    if any(known):
        return 1
    if None in known:
        raise ValueError("not known")
    return 0


def _both(node: ast.BoolOp) -> int:
    known = [_known(value) for value in node.values]
    if any(value == 0 for value in known if value is not None):
        return 0
    if None in known:
        raise ValueError("not known")
    return 1


def _known(node: ast.AST) -> int | None:
    try:
        return _value(node)
    except ValueError:
        return None
