"""The value of a variable of host code that several statements change before a launch: they are carried out in order.

    int splits = 1;
    while (splits < 16 && tiles * splits * 2 <= sms) splits *= 2;
    int chunk = (K + splits - 1) / splits;
    splits = (K + chunk - 1) / chunk;

Only whole numbers and dim3 that the function itself declares are followed. What is not understood leaves what it may
have changed without a value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.host.changed_values import PlaceScope, spelled
from gemmsmith.userfile.host.function_bodies import SHIFT, body_of
from gemmsmith.userfile.host.host_choices import assigned_in, path_of
from gemmsmith.userfile.host.values import UnknownValueError, Value, converted, evaluate, number
from gemmsmith.userfile.text.declared import text_of, variables
from gemmsmith.userfile.text.parts import FunctionSource
from gemmsmith.userfile.text.syntax import descend, words

if TYPE_CHECKING:
    from tree_sitter import Node

_ANYWHERE: frozenset[str] = frozenset()
_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST_STEPS = 5_000  # statements
_UNKNOWN = "?"  # no expression
_LOOPS = frozenset(("while_statement", "for_statement", "do_statement"))
_LEAVES = frozenset(("return_statement", "throw_statement", "goto_statement"))
_OF_LOOP = frozenset(("break_statement", "continue_statement"))


class _LeftError(Exception):
    """A statement that leaves what is carried out: the place is not reached by it."""


class _EndsError(Exception):
    """``break`` or ``continue``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


@lru_cache(maxsize=512)
def counted(function: FunctionSource, start: int) -> frozenset[str]:
    """Variables that a loop before the place changes, parameters that are assigned what they were, clamped, and those
    that depend on them."""
    code, body = body_of(function.body)
    before = [node for node in descend(body, _ANYWHERE) if node.end_byte <= start + SHIFT]
    found = {name for node in before if node.type in _LOOPS for name in assigned_in(code, node)}
    parameters = {each.name for each in function.parameters}
    texts = [(each.name, each.value) for node in before if node.type == "declaration" for each in variables(code, node)]
    texts += [(path_of(text_of(code, node.child_by_field_name("left"))), text_of(code, node))
              for node in before if node.type == "assignment_expression"]  # fmt: skip
    found |= {name for name, text in texts if name in parameters and _WORD.findall(text).count(name) > 1}
    for _ in texts:
        more = {name for name, text in texts if found.intersection(_WORD.findall(text))} - found
        if not more:
            break
        found |= more
    return frozenset(found)


def executed(at: PlaceScope, name: str) -> Value | None:
    """The value that a local variable has at a place; None where that is not known."""
    function = at.frame.function
    if function is None:
        return None
    code, body = body_of(function.body)
    run = _Run(at, code, at.frame.start + SHIFT)
    try:
        run.block(body)
    except (_LeftError, _EndsError, RecursionError):
        return None
    text = run.known.get(name, _UNKNOWN)
    return None if text == _UNKNOWN else evaluate(text, at)


class _Run:
    """One run up to the place. ``known``: the variables assigned so far, as text; ``_UNKNOWN`` of those without a
    value."""

    def __init__(self, at: PlaceScope, code: str, place: int) -> None:
        self.at, self.code, self.place = at, code, place
        self.known: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.steps = 0
        function = at.frame.function
        for each in function.parameters if function is not None else ():
            if at.frame.locals.assigns(each.name) and each.name not in at.sizes.bound:
                self.types[each.name] = each.type
                try:
                    self.known[each.name] = spelled(at.before_changes(each.name)) or _UNKNOWN
                except GemmsmithError:
                    self.known[each.name] = _UNKNOWN

    def block(self, node: Node) -> bool:
        """Carry out the statements in ``node``; whether the place was reached."""
        return any(self.statement(child) for child in node.named_children)

    def statement(self, node: Node) -> bool:
        """Carry out one statement; whether the place is in it, or before it."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _LeftError
        if node.start_byte >= self.place:
            return True
        inside = node.end_byte > self.place
        if node.type in ("compound_statement", "else_clause", "case_statement", "try_statement"):
            return self.block(node) or inside
        if node.type == "declaration":
            self._declare(node)
        elif node.type == "expression_statement":
            self._expression(node.named_children[0] if node.named_children else None)
        elif node.type == "if_statement":
            return self._choose(node, inside)
        elif node.type in _LOOPS and not inside:
            self._repeat(node)
        elif node.type in _LEAVES:
            raise _LeftError
        elif node.type in _OF_LOOP:
            raise _EndsError(node.type)
        elif inside:  # a loop's first round
            return self._into(node)
        else:
            self._forget(node)
        return inside

    def _into(self, node: Node) -> bool:
        """Go on to the place in a statement that may do more than is followed."""
        self._forget(node)
        if node.type == "switch_statement":
            cases = [each for each in descend(node, _ANYWHERE) if each.type == "case_statement"]
            return any(self.block(each) for each in cases if each.start_byte < self.place < each.end_byte)
        first = node.child_by_field_name("initializer")
        if node.type in _LOOPS and first is not None and first.end_byte <= self.place:
            self.statement(first)
        for child in node.named_children:
            if child.start_byte < self.place < child.end_byte:
                return self.statement(child)
        return True

    def _declare(self, node: Node) -> None:
        for each in variables(self.code, node):
            if each.name in self.at.sizes.bound:
                continue  # an extent, whatever number it has
            self.types[each.name] = each.type
            self.known[each.name] = self._text(each.value, each.type) if each.value else _UNKNOWN

    def _expression(self, node: Node | None) -> None:
        if node is None:
            return
        if node.type == "comma_expression":
            for child in node.named_children:
                self._expression(child)
        elif node.type == "assignment_expression":
            self._assign(node)
        elif node.type == "update_expression":
            name = text_of(self.code, node.child_by_field_name("argument"))
            sign = "+" if "++" in text_of(self.code, node) else "-"
            self._set(name, f"{name} {sign} 1")
        else:
            self._forget(node)
            for name in self.known:  # filled by a call
                if f"&{name}" in text_of(self.code, node).replace(" ", ""):
                    self.known[name] = _UNKNOWN

    def _assign(self, node: Node) -> None:
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        if right is not None and right.type == "assignment_expression":
            self._assign(right)
            right = right.child_by_field_name("left")
        operator = text_of(self.code, node.child_by_field_name("operator")).removesuffix("=").strip()
        name, value = text_of(self.code, left), words(text_of(self.code, right))
        self._set(name, f"{name} {operator} ({value})" if operator else value)

    def _set(self, name: str, text: str) -> None:
        """Give a variable a value; what is not its own name, as an axis of it, leaves the whole without one."""
        own = path_of(name)
        if own in self.at.sizes.bound:
            return
        if own in self.types:
            self.known[own] = self._text(text, self.types[own])
        elif (owner := own.partition(".")[0].partition("[")[0]) in self.known:
            self.known[owner] = _UNKNOWN
        elif own.isidentifier():  # a parameter of the function
            self.known[own] = self._text(text, "")

    def _text(self, text: str, kind: str) -> str:
        try:
            value = evaluate(text, self.at.where(self.known))
            return spelled(converted(kind, value) if kind else value) or _UNKNOWN
        except GemmsmithError:
            return _UNKNOWN

    def _holds(self, node: Node) -> bool | None:
        """Whether the condition of a statement holds; None where that is not known."""
        condition = node.child_by_field_name("condition")
        try:
            return bool(number(evaluate(words(text_of(self.code, condition)), self.at.where(self.known))))
        except (UnknownValueError, TypeError):
            return None

    def _choose(self, node: Node, inside: bool) -> bool:
        branches = [node.child_by_field_name(each) for each in ("consequence", "alternative")]
        if inside:
            around = (each for each in branches if each is not None and each.start_byte <= self.place < each.end_byte)
            chosen = next(around, None)
            return chosen is None or self.statement(chosen)
        holds = self._holds(node)
        if holds is None:
            if any(each.type in _OF_LOOP for each in descend(node, _ANYWHERE)):
                raise _LeftError
            self._forget(node)
        elif (chosen := branches[not holds]) is not None:
            self.statement(chosen)
        return False

    def _repeat(self, node: Node) -> None:
        """A loop before the place."""
        first, step, body = (node.child_by_field_name(each) for each in ("initializer", "update", "body"))
        if first is not None and first.type == "declaration":
            self._declare(first)
        else:
            self._expression(first)
        again: bool | None = True if node.type == "do_statement" else self._holds(node)
        while again:
            before = dict(self.known)
            try:
                if body is not None:
                    self.statement(body)
            except _LeftError:
                self._forget(node)
                return
            except _EndsError as ends:
                if ends.kind == "break_statement":
                    return
            self._expression(step)
            self.steps += 1
            if self.steps > _MOST_STEPS or self.known == before:  # a loop without end
                raise _LeftError
            again = self._holds(node)
        if again is None:
            self._forget(node)

    def _forget(self, node: Node) -> None:
        """What a statement may change has no value that is known."""
        for name in assigned_in(self.code, node):
            if name not in self.at.sizes.bound:
                self.known[name] = _UNKNOWN
