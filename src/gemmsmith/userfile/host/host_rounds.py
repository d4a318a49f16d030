"""The launches of a loop in host code, one for each round: on a panel of rows, a chunk of K, a tile of columns.

    for (int k = 0; k < K; k += 48) gemm<<<grid, block>>>(A + k, B + k * N, C, M, N, min(48, K - k), k > 0);

The statements around the launch are followed with integers and with offsets of pointers. What is not understood raises
``UsageError``; then the kernel is judged alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gemmsmith.errors import UsageError
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.userfile.host.function_bodies import body_tree
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import Number, evaluate, evaluate_int
from gemmsmith.userfile.launches.launch_triple import triple
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_roles import Roles
from gemmsmith.userfile.text.declared import text_of, variables
from gemmsmith.userfile.text.syntax import descend, words

if TYPE_CHECKING:
    from tree_sitter import Node

_EVERYWHERE: frozenset[str] = frozenset()
_EXTENTS = ("M", "N", "K")
_LEADING = ("lda", "ldb", "ldc")
_MOST_ROUNDS = 256
_NAME = re.compile(r"[A-Za-z_]\w*")
_ELEMENT = re.compile(r"&\s*\(?\s*(\w+)\s*\[(.*)\]\s*\)?$", re.S)
_MOVED = re.compile(r"\(?\s*(\w+)\s*\+\s*(.*?)\s*$", re.S)
_JUMPS = frozenset({"break_statement", "continue_statement", "return_statement", "goto_statement"})
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_OTHER_LOOPS = frozenset({"for_range_loop"})
_COMPUTED = {"+=": "+", "-=": "-", "*=": "*", "/=": "/"}


@dataclass(frozen=True)
class Round:
    """One launch: its geometry, and by the argument's place what differs from a launch for the whole product.

    numbers  integers; offsets: by how many elements a pointer is moved
    """

    grid: Dim3
    block: Dim3
    smem: int
    numbers: Mapping[int, int]
    offsets: Mapping[int, int]


def rounds(values: SiteValues, sizes: Mapping[str, int], pointers: frozenset[int], integers: frozenset[int]
           ) -> tuple[Round, ...]:  # fmt: skip
    """The launches that host code makes for a product of ``sizes``, in order.

    pointers, integers  places among the kernel's arguments
    """
    walk = _Rounds(values, sizes, pointers, integers)
    walk.run(walk.loop)
    if not walk.found:
        raise UsageError(f"{values.site.shown()}: its host code launches nothing for this product")
    return tuple(walk.found)


def divided(values: SiteValues) -> frozenset[str]:
    """The extents of which each round is passed a part that it computes itself, such as ``min(32, M - m)``."""
    walk = _Rounds(values, dict.fromkeys(("M", "N", "K", "lda", "ldb", "ldc"), 1), frozenset(), frozenset())

    def computed(text: str) -> bool:
        names = walk.names(text)
        sized = any(name in walk.bound.bound or name in walk.bound.usual for name in names - walk.inner)
        return bool(names & walk.carried or (names & walk.inner and sized))

    passed = zip(values.roles.roles, values.site.arguments, strict=False)
    return frozenset(role for role, text in passed if role in _EXTENTS and computed(text))


class _Break(Exception):  # noqa: N818 - control flow
    """``break``, on its way to its loop."""


class _Continue(Exception):  # noqa: N818 - control flow
    """``continue``, on its way to its loop."""


@dataclass
class _Rounds:
    values: SiteValues
    sizes: Mapping[str, int]
    pointers: frozenset[int]
    integers: frozenset[int]
    known: dict[str, int] = field(default_factory=dict)  # variables that the loops change or declare
    moved: dict[str, tuple[str, int]] = field(default_factory=dict)  # pointers among them: where they point to
    found: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        site = self.values.site
        if site.frame.function is None or self.values.roles.places:
            raise UsageError("no loop around the launch")
        self.code, body, shift = body_tree(site.frame.function)
        self.place = site.frame.start + shift
        around = [n for n in descend(body, _EVERYWHERE) if n.type in (*_LOOPS, *_OTHER_LOOPS) and self._holds(n)]
        if not around or any(n.type in _OTHER_LOOPS for n in around):
            raise UsageError("only for, while and do loops around a launch are followed")
        self.loop = around[0]
        self.carried = _assigned(self.code, self.loop)
        declared = (n for n in descend(self.loop, _EVERYWHERE) if n.type == "declaration")
        self.inner = self.carried | {each.name for node in declared for each in variables(self.code, node)}
        self.bound = self._bound(around)
        self._start(replace(site.frame, start=self.loop.start_byte - shift))

    def _start(self, before: Frame) -> None:
        """The values with which the loop begins."""
        for name in sorted(self.carried):
            variable = before.locals.variables.get(name)
            if variable is None or not variable.value:
                continue
            if "*" in variable.type:
                self.moved[name] = self._pointer(variable.value)
            else:
                sizes = Sizes(self.bound.bound, self.bound.usual, self.bound.expressions)
                self.known[name] = int(evaluate_int(name, HostScope(before, self.values.given, sizes, Asked(),
                                                                    self.values.overrides())))  # fmt: skip

    def _holds(self, node: Node) -> bool:
        return bool(node.start_byte <= self.place < node.end_byte)

    # --- names

    def _bound(self, around: list[Node]) -> Sizes:
        """The sizes by the names of host code. What is passed for an extent may be a part of it: the whole is then the
        size that its loop ends at."""
        site, roles = self.values.site, self.values.roles
        inside = [bool(self.names(text) & self.inner) for text in site.arguments]
        own = tuple("" if i < len(inside) and inside[i] else role for i, role in enumerate(roles.roles))
        sizes = SiteValues(site, Roles(own, roles.names), self.values.given).bound_sizes(self.sizes)
        bound = dict(sizes.bound)
        for i, role in enumerate(roles.roles):
            if role not in _EXTENTS or i >= len(inside) or not inside[i]:
                continue
            names = self.names(site.arguments[i])
            own_loops = [loop for loop in around if names & self._changed_by(loop)]
            for loop in own_loops or around[:1]:
                condition = text_of(self.code, loop.child_by_field_name("condition"))
                for name in self._sizes_in(condition, bound):
                    bound[name] = frozenset({self.sizes[role]})
        return Sizes(bound, sizes.usual, sizes.expressions)

    def names(self, text: str, depth: int = 0) -> set[str]:
        """Names in a text and in the values of the local variables among them."""
        found = set(_NAME.findall(text))
        if depth < 4:
            for name in list(found):
                variable = self.values.site.frame.locals.variables.get(name)
                if variable is not None and variable.value:
                    found |= self.names(variable.value, depth + 1)
        return found

    def _changed_by(self, loop: Node) -> set[str]:
        update = loop.child_by_field_name("update")
        return _assigned(self.code, loop if update is None else update)

    def _sizes_in(self, condition: str, bound: Mapping[str, frozenset[Number]]) -> list[str]:
        """Parameters of the function, or variables that hold a number, which stand for no size yet."""
        frame = self.values.site.frame
        assert frame.function is not None
        given = {each.name for each in frame.function.parameters}
        found = []
        for name in sorted(self.names(condition) - self.inner):
            variable = frame.locals.variables.get(name)
            plain = variable is not None and variable.value.isdecimal() and not variable.const
            if (name in given or plain) and name not in bound:
                found.append(name)
        return found if len(found) == 1 else []

    # --- values

    def _scope(self) -> HostScope:
        bound = {**self.bound.bound, **{name: frozenset({value}) for name, value in self.known.items()}}
        return HostScope(self.values.site.frame, self.values.given, Sizes(bound, self.bound.usual,
                         self.bound.expressions), Asked(), self.values.overrides())  # fmt: skip

    def _value(self, text: str) -> int:
        unknown = set(_NAME.findall(text)) & self.inner - self.known.keys()
        if unknown & self.moved.keys() or any(self._is_lost(name) for name in unknown):
            raise UsageError(f"{text} is not known")
        return int(evaluate_int(text, self._scope()))

    def _is_lost(self, name: str) -> bool:
        """Whether a variable of the loop has no value that the source tells at the launch."""
        variable = self.values.site.frame.locals.variables.get(name)
        return variable is None or not variable.value

    def _pointer(self, text: str) -> tuple[str, int]:
        """The array that a text points into, and the element."""
        text = text.strip()
        match = _ELEMENT.match(text) or _MOVED.match(text)
        base, offset = (match[1], self._value(match[2])) if match else (text, 0)
        if base in self.moved:
            start, before = self.moved[base]
            return start, before + offset
        if not base.isidentifier() or base in self.inner:
            raise UsageError(f"{text} is not understood")
        return base, offset

    # --- statements

    def run(self, node: Node) -> None:
        """Follow one statement."""
        match node.type:
            case "for_statement" | "while_statement" | "do_statement":
                self._loop(node)
            case "break_statement":
                raise _Break
            case "continue_statement":
                raise _Continue
            case "compound_statement" | "else_clause":
                for child in node.named_children:
                    self.run(child)
            case "declaration":
                for variable in variables(self.code, node):
                    self._set(variable.name, variable.value, "*" in variable.type)
            case "expression_statement":
                self._expression(node)
            case "if_statement":
                self._if(node)
            case kind if kind in _JUMPS or kind in _OTHER_LOOPS or kind == "switch_statement":
                raise UsageError(f"{kind} around a launch is not followed")
            case _:
                pass

    def _loop(self, loop: Node) -> None:
        first, condition, update = (loop.child_by_field_name(n) for n in ("initializer", "condition", "update"))
        body = loop.child_by_field_name("body")
        if condition is None or body is None:
            raise UsageError("a loop without condition is not followed")
        if not self._holds(loop) and not _assigned(self.code, loop):
            return
        if first is not None and first.type == "declaration":
            self.run(first)
        elif first is not None:
            self._change(first)
        for count in range(_MOST_ROUNDS):
            if not (loop.type == "do_statement" and count == 0) and not self._is_true(condition):
                return
            try:
                self.run(body)
            except _Break:
                return
            except _Continue:
                pass
            if update is not None:
                self._change(update)
        raise UsageError(f"the loop has more than {_MOST_ROUNDS} rounds")

    def _is_true(self, condition: Node) -> bool:
        value = condition.child_by_field_name("value")
        return bool(evaluate(words(text_of(self.code, condition if value is None else value)), self._scope()))

    def _if(self, node: Node) -> None:
        if not self._holds(node) and not _assigned(self.code, node) and not _jumps(node):
            return
        condition = node.child_by_field_name("condition")
        holds = condition is not None and self._is_true(condition)
        chosen = node.child_by_field_name("consequence" if holds else "alternative")
        if chosen is not None:
            self.run(chosen)

    def _expression(self, node: Node) -> None:
        if self._holds(node):
            self._launch()
            return
        for child in node.named_children:
            self._change(child)

    def _change(self, node: Node) -> None:
        if node.type == "comma_expression":
            for child in node.named_children:
                self._change(child)
            return
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        name = text_of(self.code, target)
        if node.type == "update_expression" and name.isidentifier():
            step = 1 if "++" in text_of(self.code, node) else -1
            self._move(name, "+", str(step))
        elif node.type == "assignment_expression" and name.isidentifier():
            operator = text_of(self.code, node.child_by_field_name("operator"))
            right = words(text_of(self.code, node.child_by_field_name("right")))
            if operator == "=":
                self._set(name, right, name in self.moved)
            elif operator in _COMPUTED:
                self._move(name, _COMPUTED[operator], right)
            else:
                raise UsageError(f"{operator} is not followed")

    def _set(self, name: str, text: str, pointer: bool) -> None:
        if pointer:
            self.moved[name] = self._pointer(text)
            return
        self.known.pop(name, None)
        with suppress(UsageError):  # a stream, a dim3: read where it is used
            self.known[name] = self._value(text)

    def _move(self, name: str, operator: str, text: str) -> None:
        frame = self.values.site.frame
        known = frame.function.parameters if frame.function is not None else ()
        if name in self.moved or any(p.name == name and "*" in p.type for p in known):
            start, before = self.moved.get(name, (name, 0))
            amount = self._value(text)
            self.moved[name] = start, before + (amount if operator == "+" else -amount)
            return
        self.known[name] = self._value(f"{self._value(name)} {operator} ({text})")

    def _launch(self) -> None:
        if len(self.found) >= _MOST_ROUNDS:
            raise UsageError(f"more than {_MOST_ROUNDS} launches")
        site = self.values.site
        grid, block = (triple(evaluate(text, self._scope())) for text in site.configuration[:2])
        smem = self._value(site.configuration[2]) if site.configuration[2] else 0
        numbers = {i: self._value(site.arguments[i]) for i in self.integers}
        for i, role in enumerate(self.values.roles.roles):
            if role in _LEADING and numbers.get(i, self.sizes[role]) != self.sizes[role]:
                raise UsageError(f"its host code passes {site.arguments[i]} for {role}: rows must be contiguous")
        offsets = {i: self._pointer(site.arguments[i])[1] for i in self.pointers}
        self.found.append(Round(grid, block, smem, numbers, offsets))


def _assigned(code: str, node: Node) -> set[str]:
    """Variables that a statement or expression changes."""
    found: set[str] = set()
    for inner in descend(node, _EVERYWHERE):
        if inner.type in ("assignment_expression", "update_expression"):
            target = inner.child_by_field_name("left") or inner.child_by_field_name("argument")
            found |= set(_NAME.findall(text_of(code, target))[:1])
    return found


def _jumps(node: Node) -> bool:
    return any(inner.type in _JUMPS for inner in descend(node, _EVERYWHERE))
