"""Comparisons in guards and loops: `<=` for `<`, extents swapped, one extent for another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.wording import flat, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_GUARDS = 6
_LOGICAL = {"||": ("&&", "<"), "&&": ("||", ">")}  # with the comparison that both sides then have
FLIPPED = {"<=": "<", ">": ">=", "<": "<=", ">=": ">"}


def comparisons(program: Program, fault: Fault, *, tighter: bool) -> Iterator[Candidate]:
    """Each comparison made tighter (`<=` → `<`, `>` → `>=` before a return) or looser, those around the fault first."""
    found = []
    for function in program.reached:
        for node in below(function.body, "binary_expression"):
            operator = node.child_by_field_name("operator")
            sign = function.code.of(operator) if operator is not None else ""
            if operator is None or sign not in FLIPPED or (sign in ("<=", ">")) != tighter:
                continue
            found.append((not _encloses(node, function, fault), is_loop(node), function, node, operator, sign))
    found.sort(key=lambda item: item[:2])
    signs = [_Sign(function.code, node, operator) for _, _, function, node, operator, _ in found]
    alike: dict[str, list[_Sign]] = {}
    for each in signs:
        alike.setdefault(each.text, []).append(each)
    # The same guard at the load and at the store is wrong at both.
    yield from (_flipped(same, tighter) for same in alike.values() if len(same) > 1)
    yield from (_flipped([each], tighter) for each in signs)
    guards = [each for each in signs if not is_loop(each.node)]
    if len(alike) > 1 and 1 < len(guards) <= _MOST_GUARDS:
        yield _flipped(guards, tighter)


@dataclass(frozen=True)
class _Sign:
    """A comparison, and its operator."""

    code: Code
    node: Node
    operator: Node

    @property
    def text(self) -> str:
        return flat(self.code.of(self.node))

    @property
    def flipped(self) -> str:
        start, end = self.operator.start_byte, self.operator.end_byte
        text = self.code.text
        return text[self.node.start_byte : start] + FLIPPED[text[start:end]] + text[end : self.node.end_byte]

    @property
    def edit(self) -> Edit:
        return Edit(
            self.code.path, self.operator.start_byte, self.operator.end_byte, FLIPPED[self.code.of(self.operator)]
        )


def _flipped(signs: list[_Sign], tighter: bool) -> Candidate:
    """All of them the other way round."""
    ordered = sorted(signs, key=lambda sign: sign.node.start_byte)
    lines = {sign.code.line(sign.node.start_byte) for sign in ordered}
    many, where = len(lines) > 1, in_lines(lines)
    what = "the loop bound" if all(is_loop(sign.node) for sign in signs) else "the guard"
    texts = dict.fromkeys(sign.text for sign in ordered)
    new = dict.fromkeys(flat(sign.flipped) for sign in ordered)
    return Candidate(
        "comparison",
        f"{what}{'s' * many} of {where} {'let' if many else 'lets'} {'one too many' if tighter else 'one too few'} "
        f"through: {' and '.join(f'`{text}`' for text in texts)}",
        f"write {' and '.join(f'`{text}`' for text in new)} in {where}",
        tuple(sign.edit for sign in ordered),
    )


def logical_operators(program: Program) -> Iterator[Candidate]:
    """`row < M || col < N` for `&&`, and `row >= M && col >= N` before a `return` for `||`."""
    for function in program.reached:
        code = function.code
        for each in below(function.body, "binary_expression"):
            parts = [each.child_by_field_name(part) for part in ("left", "operator", "right")]
            left, sign, right = (code.of(part) if part is not None else "" for part in parts)
            other, compares = _LOGICAL.get(sign, ("", ""))
            if not other or parts[1] is None or not all(compares in side for side in (left, right)):
                continue
            line, new = code.line(each.start_byte), flat(f"{left} {other} {right}")
            cause = f"the guard in line {line} has `{sign}`; it should be `{other}`: `{flat(code.of(each))}`"
            yield Candidate("logical-operator", cause, f"write `{new}` in line {line}",
                            (Edit(code.path, parts[1].start_byte, parts[1].end_byte, other),))  # fmt: skip


def is_loop(node: Node) -> bool:
    parent = next((each for each in above(node) if each.type.endswith("_statement")), None)
    return parent is not None and parent.type in ("for_statement", "while_statement", "do_statement")


def _encloses(node: Node, function: Function, fault: Fault) -> bool:
    """Whether the statement with this condition holds a line that the fault names."""
    code = function.code
    lines = [line for name, line in fault.places if code.path.name == name.rsplit("/", 1)[-1]]
    statement = next((each for each in above(node) if each.type.endswith("_statement")), node)
    return any(code.line(statement.start_byte) <= line <= code.last_line(statement) for line in lines)


def swapped_guards(program: Program) -> Iterator[Candidate]:
    """A condition with M and N, or any two extents, swapped: `row < N && col < M`."""
    names = [program.names[role] for role in ("M", "N", "K") if role in program.names]
    for function in program.reached:
        code = function.code
        for node in below(function.body, "condition_clause", "conditional_expression"):
            test = node.child_by_field_name("condition") if node.type == "conditional_expression" else node
            if test is None:
                continue
            used = [each for each in below(test, "identifier") if code.of(each) in names]
            for i, one in enumerate(used):
                for other in used[i + 1 :]:
                    if code.of(one) != code.of(other):
                        yield _swapped(code, test, one, other)
            for one in used:
                for name in names:
                    if name != code.of(one):
                        yield _replaced(code, test, one, name)


def loop_extents(program: Program) -> Iterator[Candidate]:
    """`for (…; i < N; …)` becomes `for (…; i < K; …)`: another extent as the end of a loop."""
    names = [program.names[role] for role in ("K", "N", "M") if role in program.names]
    for function in program.reached:
        code = function.code
        for loop in below(function.body, "for_statement", "while_statement"):
            test = loop.child_by_field_name("condition")
            if test is None:
                continue
            for one in below(test, "identifier"):
                if code.of(one) in names:
                    yield from (_replaced(code, test, one, name) for name in names if name != code.of(one))


def _swapped(code: Code, test: Node, one: Node, other: Node) -> Candidate:
    line = code.line(one.start_byte)
    a, b = code.of(one), code.of(other)
    edits = (Edit(code.path, one.start_byte, one.end_byte, b), Edit(code.path, other.start_byte, other.end_byte, a))
    return Candidate("swapped-guard", f"the guard in line {line} has {a} and {b} swapped: `{flat(code.of(test))}`",
                     f"swap {a} and {b} in line {line}", edits)  # fmt: skip


def _replaced(code: Code, test: Node, one: Node, name: str) -> Candidate:
    line, old = code.line(one.start_byte), code.of(one)
    return Candidate("wrong-extent", f"line {line} compares with {old}; it should be {name}: `{flat(code.of(test))}`",
                     f"write `{name}` for `{old}` in line {line}",
                     (Edit(code.path, one.start_byte, one.end_byte, name),))  # fmt: skip
