"""What a function of host code declares and decides before a given place: variables, aliases, conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from gemmsmith.userfile.host.filling_calls import FillingCall, filling_calls
from gemmsmith.userfile.host.function_bodies import SHIFT, body_of
from gemmsmith.userfile.host.host_choices import NO_VALUE, WhileLoop, as_expression, assigned_in, path_of, while_loop
from gemmsmith.userfile.host.host_guards import check_name, condition_text, known_after, leaves_case
from gemmsmith.userfile.host.local_lambdas import lambda_arguments
from gemmsmith.userfile.text.conditional_branches import NO_BRANCHES, Branches
from gemmsmith.userfile.text.declared import Variable, enumerators, innermost, text_of, unbound, variables
from gemmsmith.userfile.text.parts import FunctionSource
from gemmsmith.userfile.text.syntax import descend, last_name, words

if TYPE_CHECKING:
    from tree_sitter import Node

_ANYWHERE: frozenset[str] = frozenset()
_NAME = re.compile(r"[A-Za-z_]\w*")
_CHOICES = frozenset({"if_statement", "switch_statement", "call_expression", "binary_expression"})
_WHOLE = frozenset(("bool", "int", "unsigned", "unsigned int", "long", "size_t", "std::size_t", "int64_t", "uint32_t"))
_LONGEST = 4096  # of a value as text
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})


@dataclass
class LocalScope:
    """Names visible at a place in a function's body.

    variables   by name, with the value last assigned on the way there
    members     ``config.gridDim`` and the like, assigned on the way there
    changed     values assigned in branches that may have run; None: an unknown one
    choices     of those whose last changes are the branches of an if: their value as one expression, and the number of
                changes that it covers
    loops       of those that one while loop changes, and nothing else
    passed      of a lambda's parameters: what a call of it passes, and where that call is
    filled      the last call that is passed a variable, and that certainly runs
    aliases     local ``using`` and ``typedef`` names
    conditions  those of the ``if`` and ``switch`` statements around the place, and whether they hold there
    checked     conditions that hold, or do not, since host code goes on only then: asserts, early returns
    lines       where each of both kinds is written
    checks      the name of the check that tells a condition
    outdated    those with a variable that was assigned after them, and before the place
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    members: dict[str, Variable] = field(default_factory=dict)
    changed: dict[str, list[str | None]] = field(default_factory=dict)
    choices: dict[str, tuple[str, int]] = field(default_factory=dict)
    loops: dict[str, WhileLoop] = field(default_factory=dict)
    passed: dict[str, tuple[str, int]] = field(default_factory=dict)
    filled: dict[str, FillingCall] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    conditions: list[tuple[str, bool]] = field(default_factory=list)
    checked: list[tuple[str, bool]] = field(default_factory=list)
    lines: dict[tuple[str, bool], int] = field(default_factory=dict)
    checks: dict[tuple[str, bool], str] = field(default_factory=dict)
    outdated: set[tuple[str, bool]] = field(default_factory=set)

    def with_values(self, values: Iterable[tuple[str, str, str]]) -> LocalScope:
        """The same scope, where these names (with types and texts) have these values."""
        given = {name: (kind, text) for name, kind, text in values}
        own = dict(self.variables)
        for name, (kind, text) in given.items():
            known = own.get(name)
            line, shown = (known.line, known.text) if known is not None else (0, text)
            kind = kind or (known.type if known is not None else "")
            own[name] = Variable(name, kind, text, False, line, shown)
        changed = {name: texts for name, texts in self.changed.items() if name not in given}
        choices = {name: choice for name, choice in self.choices.items() if name not in given}
        loops = {name: loop for name, loop in self.loops.items() if name not in given}
        filled = {name: call for name, call in self.filled.items() if name not in given}
        return replace(self, variables=own, changed=changed, choices=choices, loops=loops, filled=filled)

    def is_changed(self, name: str) -> bool:
        """Whether more of a variable than single members may have changed."""
        parts = sum(len(texts) for path, texts in self.changed.items() if path.startswith(f"{name}."))
        return len(self.changed.get(name, ())) > parts

    def assigns(self, name: str) -> bool:
        """Whether ``name``, or an axis or a member of it, is assigned on the way."""
        return (
            name in self.variables
            or name in self.changed
            or any(member == name or member.startswith(f"{name}.") for member in self.members)
        )


@lru_cache(maxsize=512)
def local_scope(function: FunctionSource, start: int) -> LocalScope:
    """The scope at offset ``start`` of the function's body."""
    code, body = body_of(function.body)
    walk = _Walk(code, start + SHIFT, function.body_line, function.branches)
    for name, value in function.built:
        walk.scope.variables[name] = Variable(name, "", value, False, function.line, f"{name}({value})")
    return walk.run(body)


@dataclass
class _Walk:
    code: str
    place: int
    first_line: int
    branches: Branches = NO_BRANCHES
    scope: LocalScope = field(default_factory=LocalScope)

    def run(self, body: Node) -> LocalScope:
        node: Node | None = body
        while node is not None:
            node = self._level(node)
        return self.scope

    def _level(self, node: Node) -> Node | None:
        """Record what comes before the place among ``node``'s children; the child with the place in it."""
        self._enter(node)
        for child in node.named_children:
            if child.start_byte >= self.place:
                return None
            if child.end_byte > self.place:
                return child
            if node.type in _CHOICES or (node.type in _LOOPS and child.type != "declaration"):
                continue  # another branch; what a loop does after its first round
            if not self._is_excluded(child):
                self._passed(child)
        return None

    def _is_excluded(self, node: Node) -> bool:
        """Whether the preprocessor leaves ``node`` out wherever it keeps the place."""
        return bool(self.branches.lines) and self.branches.exclude(*self._lines(node))

    def _lines(self, node: Node) -> tuple[int, int]:
        """The lines of ``node`` and of the place."""
        return self.first_line + node.start_point[0], self.first_line + self.code.count("\n", 0, self.place)

    def _enter(self, node: Node) -> None:
        """Conditions and variables that ``node`` brings for what is inside."""
        if node.type == "if_statement":
            condition = node.child_by_field_name("condition")
            then = node.child_by_field_name("consequence")
            if condition is not None and then is not None and condition.end_byte <= self.place:
                holds = then.start_byte <= self.place < then.end_byte
                self._decided(condition_text(self.code, node), holds, condition)
        elif node.type == "case_statement":
            self._case(node)
        elif node.type == "for_range_loop":
            name = innermost(node.child_by_field_name("declarator"))
            right = node.child_by_field_name("right")
            if name is not None and right is not None:
                self._set(text_of(self.code, name), f"({words(text_of(self.code, right))})[0]", node)
        elif node.type == "lambda_expression":
            for parameter, passed in lambda_arguments(self.code, node).items():
                self.scope.variables.pop(parameter, None)
                self.scope.passed.pop(parameter, None)
                if passed is not None:
                    self.scope.passed[parameter] = (passed[0], passed[1] - SHIFT)

    def _case(self, node: Node) -> None:
        """The condition of a case, or that none of the others is met, for ``default``."""
        switch = node.parent.parent if node.parent else None
        condition = switch.child_by_field_name("condition") if switch is not None else None
        if condition is None or node.parent is None:
            return
        tested = words(text_of(self.code, condition)).strip()
        tested = tested[1:-1].strip() if re.fullmatch(r"\(\s*[\w.]+\s*\)", tested) else tested
        cases = [each for each in node.parent.named_children if each.type == "case_statement"]
        asked = [self._asked(tested, each) for each in cases]  # empty for ``default``
        place = cases.index(node)
        first = place
        while first > 0 and not leaves_case(self.code, cases[first - 1]):  # it falls through to the next
            first -= 1
        if all(asked[first : place + 1]):
            self._decided(" || ".join(asked[first : place + 1]), True, node)
            return
        for text in asked[:first] + asked[place + 1 :]:
            if text:
                self._decided(text, False, node)

    def _asked(self, tested: str, case: Node) -> str:
        value = case.child_by_field_name("value")
        return f"{tested} == {words(text_of(self.code, value))}" if value is not None else ""

    def _decided(self, text: str, holds: bool, node: Node) -> None:
        self.scope.conditions.append((text, holds))
        self.scope.lines[text, holds] = self.first_line + node.start_point[0]

    def _passed(self, node: Node) -> None:
        """A statement that has run, or may have run, before the place."""
        self._outdate(node)
        self._told(node)
        assigned = assigned_in(self.code, node) if node.type == "if_statement" else ()
        for name, call in filling_calls(self.code, node):
            if name not in assigned:
                call.start -= SHIFT
                self.scope.filled[name] = call

    def _told(self, node: Node) -> None:
        """What a statement tells of values and conditions."""
        is_compiled = not self.branches.lines or not self.branches.adds_nothing(*self._lines(node))
        for known in known_after(self.code, node) if is_compiled and not self._leads_on(node) else ():
            self.scope.checked.append(known)
            self.scope.checks[known] = check_name(self.code, node)
            self.scope.lines[known] = self.first_line + node.start_point[0]
        if node.type == "declaration":
            for variable in unbound(variables(self.code, node)):
                line = self.first_line + variable.line
                self.scope.variables[variable.name] = Variable(
                    variable.name, variable.type, variable.value, variable.const, line, variable.text
                )
                self.scope.changed.pop(variable.name, None)
                self.scope.choices.pop(variable.name, None)
                self.scope.loops.pop(variable.name, None)
                self.scope.filled.pop(variable.name, None)
                self._designated(node, variable.name)
            self._addresses(node)
            self._enumerators(node)
        elif node.type == "enum_specifier":
            self._enumerators(node)
        elif node.type in ("alias_declaration", "type_definition"):
            name = innermost(node.child_by_field_name("name") or node.child_by_field_name("declarator"))
            kind = node.child_by_field_name("type")
            if name is not None:
                self.scope.aliases[text_of(self.code, name)] = words(text_of(self.code, kind))
        elif node.type == "expression_statement":
            expression = node.named_children[0] if node.named_children else None
            if expression is not None and expression.type == "assignment_expression":
                self._assignment(expression)
            elif expression is not None and expression.type == "update_expression" and self._is_known(expression):
                counter = path_of(text_of(self.code, expression.child_by_field_name("argument")))
                sign = "-" if "--" in text_of(self.code, expression) else "+"
                self._set(counter, f"({self.scope.variables[counter].value}) {sign} 1", expression)
            elif expression is not None:
                self._may_change(expression)
        elif node.type == "if_statement":
            chosen = {each: self._chosen(node, each) for each in assigned_in(self.code, node)}
            self._may_change(node)
            for each, text in chosen.items():
                if text:
                    self.scope.choices[each] = (text, len(self.scope.changed.get(each, ())))
        elif node.type == "while_statement" and (loop := while_loop(self.code, node)) is not None:
            is_changed = bool(self.scope.changed.get(loop.name))
            self._may_change(node)
            if not is_changed:
                self.scope.loops[loop.name] = loop
        else:
            self._may_change(node)

    def _outdate(self, node: Node) -> None:
        """Conditions that ask for a variable which ``node`` assigns tell nothing of its value at the place."""
        assigned = set(assigned_in(self.code, node))
        for known in (*self.scope.conditions, *self.scope.checked):
            if assigned & set(_NAME.findall(known[0])):
                self.scope.outdated.add(known)

    def _leads_on(self, node: Node) -> bool:
        """Whether a goto in ``node`` leads to a label before the place."""
        labels = {text_of(self.code, each.child_by_field_name("label")) for each in descend(node, _ANYWHERE)
                  if each.type == "goto_statement"} if "goto" in text_of(self.code, node) else set()  # fmt: skip
        ahead = self.code[node.end_byte : self.place]
        return any(re.search(rf"\b{re.escape(label)}\s*:(?!:)", ahead) for label in labels)

    def _chosen(self, node: Node, name: str) -> str:
        """The value of ``name`` after an if as one expression; '' if the branches do more than assign it plainly."""
        store = self.scope.members if "." in name else self.scope.variables
        before, known = store.get(name), self.scope.changed.get(name, [])
        choice = self.scope.choices.get(name)
        if known and (choice is None or choice[1] != len(known)):
            return ""
        value = choice[0] if choice is not None and known else before.value if before is not None else ""
        kind = before.type if before is not None and before.type in _WHOLE else ""
        return as_expression(self.code, node, name, value or NO_VALUE, kind)

    def _enumerators(self, node: Node) -> None:
        for inner in descend(node, _ANYWHERE):
            if inner.type == "enum_specifier":
                for name, value in enumerators(self.code, inner):
                    self._set(name, value, inner)

    def _assignment(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = text_of(self.code, node.child_by_field_name("operator"))
        if left is None or right is None or (operator != "=" and not self._is_known(left)):
            self._may_change(node)
            return
        if left.type == "call_expression" and last_name(text_of(self.code, left.named_children[0])) == "tie":
            given = left.child_by_field_name("arguments")
            for i, each in enumerate(given.named_children if given is not None else ()):
                self._set(path_of(text_of(self.code, each)), f"std::get<{i}>({words(text_of(self.code, right))})", node)
            return
        if right.type == "assignment_expression":  # block.x = block.y = 16: the inner one first
            self._assignment(right)
            while right is not None and right.type == "assignment_expression":
                right = right.child_by_field_name("right")
            if right is None:
                return
        name, value = path_of(text_of(self.code, left)), words(text_of(self.code, right))
        before = self.scope.variables.get(name)
        if before is not None and before.value and name not in self.scope.changed:  # x = max(x, 1)
            value = re.sub(rf"(?<![\w.:>]){re.escape(name)}\b(?!\s*\()", lambda _: f"({before.value})", value)
            if operator != "=":  # whole |= N % 4 == 0
                held = f"(({before.value}) ? 1 : 0)" if before.type == "bool" else f"({before.value})"
                value = f"{held} {operator.removesuffix('=')} ({value})"
        self._set(name, value, node)
        self._addresses(right)

    def _is_known(self, left: Node) -> bool:
        """Whether what is changed is a flag or a whole number whose value is told where it is declared."""
        changed = left.child_by_field_name("argument") if left.type == "update_expression" else left
        name = path_of(text_of(self.code, changed))
        known = self.scope.variables.get(name)
        is_whole = known is not None and (known.type in _WHOLE or not known.type)  # no type: of a parameter
        return known is not None and is_whole and bool(known.value) and name not in self.scope.changed

    def _set(self, name: str, value: str, node: Node) -> None:
        store = self.scope.members if re.search(r"[.\[]", name) else self.scope.variables
        known = store.get(name)
        line = self.first_line + node.start_point[0]
        if store is self.scope.variables and known is not None and known.value and name not in self.scope.changed:
            self._keep_old(known)
        store[name] = Variable(name, known.type if known else "", value, False, line, words(text_of(self.code, node)))
        self.scope.changed.pop(name, None)
        self.scope.choices.pop(name, None)
        self.scope.loops.pop(name, None)
        if (call := self.scope.filled.get(re.split(r"[.\[]", name)[0])) is not None:
            call.since.add(name)
        if store is self.scope.variables:
            self.scope.filled.pop(name, None)
            for member in [m for m in self.scope.members if m.startswith(f"{name}.")]:
                del self.scope.members[member]

    def _keep_old(self, changed: Variable) -> None:
        """What was computed of a whole number keeps the value that this had: ``per`` of ``slices = (K + per - 1) /
        per`` after ``per = K / slices``."""
        name = re.compile(rf"(?<![\w.:>]){re.escape(changed.name)}\b(?!\s*[(.\[])")
        for other in [*self.scope.variables.values()] if changed.type in _WHOLE else ():
            if other.name != changed.name and other.type in _WHOLE and name.search(other.value):
                value = name.sub(lambda _: f"({changed.value})", other.value)
                if len(value) <= _LONGEST:
                    self.scope.variables[other.name] = replace(other, value=value)

    def _designated(self, node: Node, name: str) -> None:
        """``cudaLaunchConfig_t c{.gridDim = g}``."""
        for pair in descend(node, _ANYWHERE):
            if pair.type == "initializer_pair":
                field_name = text_of(self.code, pair.child_by_field_name("designator")).lstrip(".").strip()
                self._set(f"{name}.{field_name}", words(text_of(self.code, pair.child_by_field_name("value"))), pair)

    def _may_change(self, node: Node) -> None:
        """Assignments in a statement that is not certain to run, or runs more than once."""
        own = {v.name for n in descend(node, _ANYWHERE) if n.type == "declaration" for v in variables(self.code, n)}
        for inner in descend(node, _ANYWHERE):
            if inner.type == "assignment_expression":
                plain = text_of(self.code, inner.child_by_field_name("operator")) == "="
                value = words(text_of(self.code, inner.child_by_field_name("right"))) if plain else None
                self._changed(text_of(self.code, inner.child_by_field_name("left")), value, own)
            elif inner.type == "update_expression":
                self._changed(text_of(self.code, inner.child_by_field_name("argument")), None, own)
        self._addresses(node)

    def _changed(self, left: str, value: str | None, own: set[str]) -> None:
        """``own`` are variables that end with the statement."""
        name = path_of(left)
        if re.split(r"[.\[]", name)[0] in own:
            return
        self.scope.filled.pop(re.split(r"[.\[]", name)[0], None)
        for one in {name, re.split(r"[.\[]", name)[0]}:
            self.scope.changed.setdefault(one, []).append(value if one == name else None)

    def _addresses(self, node: Node) -> None:
        """Variables whose address is passed on: their values are whatever the callee stores."""
        for inner in descend(node, _ANYWHERE):
            if inner.type == "pointer_expression" and text_of(self.code, inner).startswith("&"):
                parent = inner.parent
                if parent is not None and parent.type == "argument_list":
                    name = path_of(text_of(self.code, inner.child_by_field_name("argument")))
                    known = _answer(text_of(self.code, parent.parent))
                    if name.isidentifier() and known:
                        self._set(name, known, inner)
                    elif name.isidentifier():
                        self.scope.changed.setdefault(name, []).append(None)


def _answer(call: str) -> str:
    """What a query of the device stores, by the name that stands for it."""
    if call.startswith("cudaDeviceGetAttribute") and "MultiProcessorCount" in call:
        return "multiProcessorCount"
    return "1" if call.startswith("cudaOccupancyMaxActiveBlocksPerMultiprocessor") else ""
