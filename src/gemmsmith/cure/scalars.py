"""Scalars: alpha or beta left out, at the wrong place, or used twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import global_accesses
from gemmsmith.cure.code import Code, Program, below
from gemmsmith.cure.edit import Candidate, Edit

if TYPE_CHECKING:
    from tree_sitter import Node


def unused_scalars(program: Program) -> Iterator[Candidate]:
    """alpha or beta that the kernel takes and never uses."""
    kernel = program.kernel
    if kernel is None:
        return
    code, body = kernel.code, kernel.code.of(kernel.body)
    alpha, beta = program.names.get("alpha", ""), program.names.get("beta", "")
    lacks_alpha = bool(alpha) and not re.search(rf"\b{alpha}\b", body)
    lacks_beta = bool(beta) and not re.search(rf"\b{beta}\b", body)
    for access in global_accesses(program):
        parent = access.node.parent
        if access.role not in ("C", "D") or not access.is_store or parent is None or access.code is not code:
            continue
        right, operator = parent.child_by_field_name("right"), parent.child_by_field_name("operator")
        if right is None or operator is None or code.of(operator) != "=":
            continue
        yield from _misplaced(code, right, alpha, beta)
        old, line, target = code.of(right), code.line(right.start_byte), code.of(access.node)
        product = _scaled(code, right, alpha, beta) if lacks_alpha else old
        new = f"{product} + {beta} * {target}" if lacks_beta else product
        if new != old:
            missing = " and ".join(
                name for name, is_missing in ((alpha, lacks_alpha), (beta, lacks_beta)) if is_missing
            )
            yield Candidate("missing-scalar", f"the kernel takes {missing} and never uses it",
                            f"write `{target} = {new}` in line {line}",
                            (Edit(code.path, right.start_byte, right.end_byte, new),))  # fmt: skip


def repeated_scalars(program: Program) -> Iterator[Candidate]:
    """alpha or beta as a factor at several places: without one of them."""
    names = [name for role in ("alpha", "beta") if (name := program.names.get(role, ""))]
    for name in names:
        factors = [(function.code, node, other) for function in program.reached
                   for node in below(function.body, "binary_expression")
                   if (other := _other_factor(function.code, node, name)) is not None]  # fmt: skip
        squared = any(code.of(other) == name for code, _, other in factors)
        for code, node, other in factors if len(factors) > 1 or squared else ():
            line = code.line(node.start_byte)
            yield Candidate("repeated-scalar", f"{name} multiplies more than once, in line {line} too",
                            f"write `{' '.join(code.of(other).split())[:60]}` without {name} in line {line}",
                            (Edit(code.path, node.start_byte, node.end_byte, code.of(other)),))  # fmt: skip


def _other_factor(code: Code, node: Node, name: str) -> Node | None:
    """What a product multiplies by ``name``."""
    sign = node.child_by_field_name("operator")
    sides = [node.child_by_field_name(part) for part in ("left", "right")]
    if sign is None or code.of(sign) != "*":
        return None
    for one, other in (sides, sides[::-1]):
        if one is not None and code.of(one) == name:
            return other
    return None


def _misplaced(code: Code, right: Node, alpha: str, beta: str) -> Iterator[Candidate]:
    """`alpha * (sum + beta * c)`, where alpha belongs to the sum alone; or beta to C alone."""
    for node in below(right, "binary_expression"):
        sides = [node.child_by_field_name(part) for part in ("left", "right")]
        sign = node.child_by_field_name("operator")
        if not alpha or not beta or None in sides or sign is None or code.of(sign) != "*":
            continue
        for scalar, other in (sides, sides[::-1]):
            if scalar is None or other is None or other.type != "parenthesized_expression":
                continue
            inner = other.named_children[0]
            plus, name = inner.child_by_field_name("operator"), code.of(scalar)
            left, last = inner.child_by_field_name("left"), inner.child_by_field_name("right")
            if name not in (alpha, beta) or plus is None or left is None or last is None or code.of(plus) != "+":
                continue
            held = [re.search(rf"\b{beta}\b", code.of(side)) is not None for side in (left, last)]
            owners = [not each for each in held] if name == alpha else [not held[0], held[0]]
            if name == alpha and sum(held) != 1:
                continue
            for mine in [owners] if name == alpha else [[True, False], [False, True]]:
                parts = [f"{name} * {_factor(code, side)}" if own else code.of(side)
                         for side, own in zip((left, last), mine, strict=True)]  # fmt: skip
                new, line = " + ".join(parts), code.line(node.start_byte)
                one = left if mine[0] else last
                yield Candidate("misplaced-scalar", f"line {line} multiplies both terms by {name}, which belongs to "
                                f"`{code.of(one)}` alone", f"write `{new}` in line {line}",
                                (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _scaled(code: Code, node: Node, alpha: str, beta: str) -> str:
    """alpha times an expression, but for the term with beta."""
    left, right, sign = (node.child_by_field_name(part) for part in ("left", "right", "operator"))
    if node.type == "binary_expression" and left is not None and right is not None and sign is not None and beta:
        held = [re.search(rf"\b{beta}\b", code.of(side)) is not None for side in (left, right)]
        if code.of(sign) == "+" and held == [False, True]:
            return f"{alpha} * {_factor(code, left)} + {code.of(right)}"
        if code.of(sign) == "+" and held == [True, False]:
            return f"{code.of(left)} + {alpha} * {_factor(code, right)}"
    return f"{alpha} * {_factor(code, node)}"


def _factor(code: Code, node: Node) -> str:
    return f"({code.of(node)})" if node.type in ("binary_expression", "conditional_expression") else code.of(node)
