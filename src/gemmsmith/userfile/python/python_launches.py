"""Launches in a Python file as host code in C++: of CuPy, PyCUDA and torch, one line each.

kernel((grid_x, grid_y), (16, 16), (a, b, c, n))          CuPy
kernel(a, b, c, np.int32(n), grid=(…), block=(16, 16, 1)) PyCUDA
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from gemmsmith.userfile.python.python_values import PythonValues

_SHARED = ("shared_mem", "shared", "smem")


def launches_of(tree: ast.Module, values: PythonValues, kernels: Collection[str]) -> Iterator[tuple[int, str]]:
    """The line of each launch that is understood, and a C++ function that makes it."""
    meant = _variables(tree, kernels)
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Call) and (kernel := _kernel(node.func, meant, kernels)):
            here = values.at(node)
            parts = _parts(node, here)
            if parts is not None:
                yield node.lineno, _function(number, kernel, *parts, here)


def _variables(tree: ast.Module, kernels: Collection[str]) -> dict[str, str]:
    """Which kernel a variable holds: what it is set to names one, as get_function("matmul") does."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            name = _named(node.value, kernels)
            if name:
                found.setdefault(ast.unparse(node.targets[0]), name)
    return found


def _named(call: ast.Call, kernels: Collection[str]) -> str:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    names = (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return next((name for name in names if name in kernels), "")


def _kernel(function: ast.expr, meant: dict[str, str], kernels: Collection[str]) -> str:
    if isinstance(function, ast.Call):  # RawKernel(code, "matmul")(…)
        return _named(function, kernels)
    return meant.get(ast.unparse(function), "")


Parts = tuple[ast.expr, ast.expr, ast.expr | None, list[ast.expr]]


def _parts(call: ast.Call, values: PythonValues) -> Parts | None:
    """Grid, block, shared memory and arguments; None where it is no launch."""
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    shared = next((named[name] for name in _SHARED if name in named), None)
    if "block" in named:  # PyCUDA's grid is one block unless it is given
        listed = values.assigned(named["args"]) if "args" in named else None
        given = list(listed.elts) if isinstance(listed, (ast.Tuple, ast.List)) else list(call.args)
        return named.get("grid", ast.Constant(1)), named["block"], shared, given
    if len(call.args) >= 3:
        listed = values.assigned(call.args[2])
        if isinstance(listed, (ast.Tuple, ast.List)):
            return call.args[0], call.args[1], shared, list(listed.elts)
    return None


def _function(
    number: int, kernel: str, grid: ast.expr, block: ast.expr, shared: ast.expr | None, given: list[ast.expr],
    values: PythonValues,
) -> str:  # fmt: skip
    how = [_extent(each, values) for each in (grid, block)]
    memory = values.as_c(shared) if shared is not None else "0"
    arguments = [values.as_c(each) for each in given]
    sizes = set(re.findall(r"[A-Za-z_]\w*", " ".join((*how, memory)))) | {
        name for name, each in zip(arguments, given, strict=True) if isinstance(each, ast.Call) and name.isidentifier()
    }
    known: dict[str, str] = {}
    waiting = sorted(name for name in sizes if name.isidentifier())
    while waiting:
        name = waiting.pop()
        set_to = values.assigned(ast.Name(name))  # names that are not set stay what callers pass
        if name in known or isinstance(set_to, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple)):
            continue
        text = values.as_c(set_to)
        if re.fullmatch(r"[\w\s+*/()%-]+", text) and len(known) < 32:
            known[name] = text
            waiting += [word for word in re.findall(r"[A-Za-z_]\w*", text) if word not in known and word != name]
            sizes |= set(re.findall(r"[A-Za-z_]\w*", text))
    open_names = [name for name in dict.fromkeys((*arguments, *sorted(sizes))) if name.isidentifier()
                  and name not in known and name not in ("true", "false", "nullptr")]  # fmt: skip
    taken = ", ".join(f"int {name}" if name in sizes else f"float* {name}" for name in open_names)
    held = " ".join(f"int {name} = {known[name]};" for name in _in_order(known))
    return (f"void python_launch_{number}({taken}) {{ {held} {kernel}<<<dim3({how[0]}), dim3({how[1]}), {memory}>>>"
            f"({', '.join(arguments)}); }}")  # fmt: skip


def _in_order(known: dict[str, str]) -> list[str]:
    """The names, each after those that its value asks for."""
    done: list[str] = []

    def add(name: str, depth: int = 0) -> None:
        if name in known and name not in done and depth <= len(known):
            for word in re.findall(r"[A-Za-z_]\w*", known[name]):
                if word != name:
                    add(word, depth + 1)
            if name not in done:
                done.append(name)

    for name in known:
        add(name)
    return done


def _extent(node: ast.expr, values: PythonValues) -> str:
    node = values.assigned(node)
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return ", ".join(values.as_c(each) for each in parts)
