"""Values in a Python file that is not run: constants, strings after formatting, and expressions as C++ writes them."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass

_DEEPEST = 8
_NUMBER_TYPES = frozenset(
    ("int", "int32", "uint32", "int64", "uint64", "intc", "float32", "float64", "float", "float16")
)
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Div: "/", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip


_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class _Setting:
    """A name set to a value, None if that is not known: a parameter, one of several that are unpacked."""

    name: str
    value: ast.expr | None
    scope: int
    line: int


class PythonValues:
    """What names stand for at a place of a module: the last value before it in its function, else in the module.

    ``scope`` is a number of a function, 0 is the module.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._settings: list[_Setting] = []
        self.scopes: dict[ast.AST, int] = {}
        self._scope, self._line = 0, 1 << 30
        self._count = 0
        waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
        while waiting:
            node, scope = waiting.pop()
            self.scopes[node] = scope
            inner = scope
            if isinstance(node, _Function):
                self._count += 1
                inner = self._count
                every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                self._settings += [_Setting(each.arg, None, inner, node.lineno) for each in every]
            self._settings += self._set_by(node, scope)
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
        self._settings.sort(key=lambda each: each.line)

    @staticmethod
    def _set_by(node: ast.AST, scope: int) -> list[_Setting]:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if not isinstance(target, (ast.Tuple, ast.List)):
                return [_Setting(ast.unparse(target), node.value, scope, node.lineno)]
            several = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else []
            values = several if len(several) == len(target.elts) else [None] * len(target.elts)
            return [_Setting(ast.unparse(each), value, scope, node.lineno)
                    for each, value in zip(target.elts, values, strict=True)]  # fmt: skip
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return [_Setting(ast.unparse(node.target), node.value, scope, node.lineno)]
        if isinstance(node, (ast.AugAssign, ast.For)):
            return [_Setting(ast.unparse(node.target), None, scope, node.lineno)]
        return []

    def at(self, node: ast.expr) -> PythonValues:
        """The same, as names are at an expression."""
        other = copy.copy(self)
        other._scope, other._line = self.scopes.get(node, 0), node.lineno
        return other

    def _value(self, name: str) -> ast.expr | None:
        own = [each for each in self._settings if each.name == name and each.scope == self._scope]
        before = [each for each in own if each.line <= self._line] or own
        found = before or [each for each in self._settings if each.name == name and each.scope == 0]
        return found[-1].value if found else None

    def assigned(self, node: ast.expr) -> ast.expr:
        """What a name is set to; the expression itself if it is none, or that is not known."""
        for _ in range(_DEEPEST):
            value = self._value(ast.unparse(node)) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if value is None:
                break
            node = value
        return node

    def integer(self, node: ast.expr, depth: int = 0) -> int | None:
        """The value of an expression of constants; None if it is not known."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
        if isinstance(node, ast.Name) and depth < _DEEPEST and (value := self._value(node.id)) is not None:
            return self.integer(value, depth + 1)
        if isinstance(node, ast.BinOp) and depth < _DEEPEST:
            left, right = self.integer(node.left, depth + 1), self.integer(node.right, depth + 1)
            if left is None or right is None or max(abs(left), abs(right)) > 1 << 40:
                return None
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.FloorDiv() if right:
                    return left // right
        return None

    # --- strings

    def text(self, node: ast.expr) -> str:
        """A string; an f-string with the values of its expressions, or their text where these are not known."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else ""
        if not isinstance(node, ast.JoinedStr):
            return ""
        parts = []
        for piece in node.values:
            if isinstance(piece, ast.FormattedValue):
                parts.append(self._shown(piece.value))
            elif isinstance(piece, ast.Constant):
                parts.append(str(piece.value))
        return "".join(parts)

    def _shown(self, node: ast.expr) -> str:
        value = self.integer(node)
        if value is not None:
            return str(value)
        set_to = self.assigned(node)
        if isinstance(set_to, ast.Constant):
            return str(set_to.value)
        return re.sub(r"\W", "_", ast.unparse(node))

    def changed(self, node: ast.expr) -> tuple[int, str] | None:
        """A string after ``%`` or ``.replace``, with the line of the string itself; None for other expressions."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            before = self._string(node.left)
            return None if before is None else (before[0], self._formatted(before[1], node.right))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "replace":
            return None
        before = self._string(node.func.value)
        if before is None or len(node.args) != 2:
            return None
        old, new = (self._shown(each) if not isinstance(each, ast.Call) else self._cast(each) for each in node.args)
        return before[0], before[1].replace(old, new) if old else before[1]

    def _cast(self, call: ast.Call) -> str:
        """str(TILE), as text."""
        return self._shown(call.args[0]) if len(call.args) == 1 else ast.unparse(call)

    def _string(self, node: ast.expr) -> tuple[int, str] | None:
        node = self.assigned(node)
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            text = self.text(node)
            return (node.lineno, text) if text else None
        return self.changed(node)

    def _formatted(self, text: str, given: ast.expr) -> str:
        given = self.assigned(given)
        if isinstance(given, ast.Dict):
            known = {key.value: self._shown(value) for key, value in zip(given.keys, given.values, strict=True)
                     if isinstance(key, ast.Constant)}  # fmt: skip
            text = re.sub(r"%\((\w+)\)[dsi]", lambda match: known.get(match[1], match[1]), text)
        else:
            values = [self._shown(each) for each in (given.elts if isinstance(given, ast.Tuple) else [given])]
            text = re.sub(r"%[dsi]", lambda match: values.pop(0) if values else match[0], text)
        return text.replace("%%", "%")

    # --- expressions

    def as_c(self, node: ast.expr) -> str:
        """An expression as C++ writes it: whole divisions, ceil as one, arrays and shapes as names."""
        if (rounded := self._rounded_up(node)) is not None:
            above, below = rounded
            return f"(({above} + {below} - 1) / {below})"
        match node:
            case ast.Constant(value=bool() as value):
                return "true" if value else "false"
            case ast.Constant(value=None):
                return "nullptr"
            case ast.Constant(value=int() | float() as value):
                return repr(value)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return f"({self.as_c(left)} {_OPERATORS[type(op)]} {self.as_c(right)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self.as_c(operand)}"
            case ast.Call(args=[only]) if _called(node) in (*_NUMBER_TYPES, "In", "Out", "InOut"):
                return self.as_c(only)
            case ast.Attribute(value=value, attr=attr) if attr in ("gpudata", "ptr", "data", "size_t"):
                return self.as_c(value)
            case ast.Call(func=ast.Attribute(value=value, attr="data_ptr")):
                return self.as_c(value)
            case ast.Name(id=name):
                return name
            case ast.Subscript(value=value, slice=ast.Constant(value=int() as place)):
                whole = self.assigned(value)
                if isinstance(whole, (ast.Tuple, ast.List)) and -len(whole.elts) <= place < len(whole.elts):
                    return self.as_c(whole.elts[place])
        return re.sub(r"\W+", "_", ast.unparse(node)).strip("_") or "unknown"

    def _rounded_up(self, node: ast.expr) -> tuple[str, str] | None:
        """Dividend and divisor of math.ceil(n / t), int(np.ceil(n / t)) and -(-n // t)."""
        inner = node
        while isinstance(inner, ast.Call) and len(inner.args) == 1 and _called(inner) in ("int", "ceil"):
            if _called(inner) == "ceil" and isinstance(inner.args[0], ast.BinOp):
                division = inner.args[0]
                if isinstance(division.op, (ast.Div, ast.FloorDiv)):
                    return self.as_c(division.left), self.as_c(division.right)
            inner = inner.args[0]
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=above),
                                                              op=ast.FloorDiv(), right=below)):  # fmt: skip
                return self.as_c(above), self.as_c(below)
        return None


def _called(call: ast.Call) -> str:
    """The last name of what is called: int32 of numpy.int32."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
