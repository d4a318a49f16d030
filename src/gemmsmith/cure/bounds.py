"""Guards and loop bounds: `<=` for `<`, exchanged extents, one iteration too many or too few, no guard at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import SHAPES, GlobalAccess, global_accesses
from gemmsmith.cure.code import Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_GUARDS = 6
_FLIPPED = {"<=": "<", ">": ">=", "<": "<=", ">=": ">"}


def comparisons(program: Program, fault: Fault, *, tighter: bool) -> Iterator[Candidate]:
    """Each comparison made tighter (`<=` → `<`, `>` → `>=` before a return) or looser, those around the fault first."""
    found = []
    for function in program.reached:
        for node in below(function.body, "binary_expression"):
            operator = node.child_by_field_name("operator")
            sign = function.code.of(operator) if operator is not None else ""
            if operator is None or sign not in _FLIPPED or (sign in ("<=", ">")) != tighter:
                continue
            found.append((not _encloses(node, function, fault), _is_loop(node), function, node, operator, sign))
    found.sort(key=lambda item: item[:2])
    signs = [_Sign(function.code, node, operator) for _, _, function, node, operator, _ in found]
    alike: dict[str, list[_Sign]] = {}
    for each in signs:
        alike.setdefault(each.text, []).append(each)
    # The same guard at the load and at the store is wrong at both.
    yield from (_flipped(same, tighter) for same in alike.values() if len(same) > 1)
    yield from (_flipped([each], tighter) for each in signs)
    guards = [each for each in signs if not _is_loop(each.node)]
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
        return _flat(self.code.of(self.node))

    @property
    def flipped(self) -> str:
        start, end = self.operator.start_byte, self.operator.end_byte
        text = self.code.text
        return text[self.node.start_byte : start] + _FLIPPED[text[start:end]] + text[end : self.node.end_byte]

    @property
    def edit(self) -> Edit:
        return Edit(
            self.code.path, self.operator.start_byte, self.operator.end_byte, _FLIPPED[self.code.of(self.operator)]
        )


def _flipped(signs: list[_Sign], tighter: bool) -> Candidate:
    """All of them the other way round."""
    ordered = sorted(signs, key=lambda sign: sign.node.start_byte)
    lines = [str(line) for line in dict.fromkeys(sign.code.line(sign.node.start_byte) for sign in ordered)]
    many = len(lines) > 1
    where = f"line{'s' * many} {' and '.join(filter(None, (', '.join(lines[:-1]), lines[-1])))}"
    what = "the loop bound" if all(_is_loop(sign.node) for sign in signs) else "the guard"
    texts = dict.fromkeys(sign.text for sign in ordered)
    new = dict.fromkeys(_flat(sign.flipped) for sign in ordered)
    return Candidate(
        "comparison",
        f"{what}{'s' * many} of {where} {'let' if many else 'lets'} {'one too many' if tighter else 'one too few'} "
        f"through: {' and '.join(f'`{text}`' for text in texts)}",
        f"write {' and '.join(f'`{text}`' for text in new)} in {where}",
        tuple(sign.edit for sign in ordered),
    )


def _is_loop(node: Node) -> bool:
    parent = next((each for each in above(node) if each.type.endswith("_statement")), None)
    return parent is not None and parent.type in ("for_statement", "while_statement", "do_statement")


def _encloses(node: Node, function: Function, fault: Fault) -> bool:
    """Whether the statement with this condition holds a line that the fault names."""
    code = function.code
    lines = [line for name, line in fault.places if code.path.name == name.rsplit("/", 1)[-1]]
    statement = next((each for each in above(node) if each.type.endswith("_statement")), node)
    return any(code.line(statement.start_byte) <= line <= code.last_line(statement) for line in lines)


def exchanged_guards(program: Program) -> Iterator[Candidate]:
    """A condition with M and N, or any two extents, exchanged: `row < N && col < M`."""
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
                        yield _exchanged(code, test, one, other)
            for one in used:
                for name in names:
                    if name != code.of(one):
                        yield _replaced(code, test, one, name)


def _exchanged(code: Code, test: Node, one: Node, other: Node) -> Candidate:
    line = code.line(one.start_byte)
    a, b = code.of(one), code.of(other)
    edits = (Edit(code.path, one.start_byte, one.end_byte, b), Edit(code.path, other.start_byte, other.end_byte, a))
    return Candidate("exchanged-guard", f"the guard of line {line} has {a} and {b} exchanged: `{_flat(code.of(test))}`",
                     f"exchange {a} and {b} in line {line}", edits)  # fmt: skip


def _replaced(code: Code, test: Node, one: Node, name: str) -> Candidate:
    line, old = code.line(one.start_byte), code.of(one)
    return Candidate("wrong-extent", f"line {line} compares with {old}, where {name} belongs: `{_flat(code.of(test))}`",
                     f"write `{name}` for `{old}` in line {line}",
                     (Edit(code.path, one.start_byte, one.end_byte, name),))  # fmt: skip


def _flat(text: str) -> str:
    return " ".join(text.split())[:80]


# --- guards that are not there


def missing_guards(program: Program) -> Iterator[Candidate]:
    """Stores to C and loads of A and B without a guard: each alone, all of them, and an early return."""
    accesses = [access for access in global_accesses(program)
                if access.row and not access.is_pointer and not _is_guarded(program, access)]  # fmt: skip
    stores = [access for access in accesses if access.is_store and access.role in ("C", "D")]
    loads = [access for access in accesses if not access.is_store and access.role in ("A", "B")]
    if stores:
        yield from _early_return(program, stores[0])
        guarded = [edit for store in stores[:1] for edit in _guarded_store(program, store)]
        if guarded:
            yield _guard("the store", stores[0].line, guarded)
    yield from _half_guarded(program, loads)
    conditional = [(load, edits) for load in loads if (edits := _guarded_load(program, load))]
    for load, edits in conditional:
        yield _guard("the load", load.line, edits)
    together = [edit for store in stores for edit in _guarded_store(program, store)]
    together += [edit for _, edits in conditional for edit in edits]
    whole = Candidate("missing-guard", f"nothing guards the accesses of lines {_lines(stores, loads)} at the edges of "
                      "the matrices", "guard them with comparisons of row and column", tuple(together))  # fmt: skip
    if len(together) > 1 and not whole.clashes:
        yield whole
        tail = list(short_loops(program))
        if tail:
            both = tail[0] + whole
            if not both.clashes:
                yield both


def _half_guarded(program: Program, loads: list[GlobalAccess]) -> Iterator[Candidate]:
    """Loads whose guard looks at one extent only, `row < M ? A[row * K + k] : 0`: with the other one, and where the
    loop leaves out the last, partial tile, together with that."""
    added = {load: found for load in loads if (found := _lacking(program, load))}
    if not added:
        return
    lines = ", ".join(map(str, sorted({load.line for load in added})))
    texts = list(dict.fromkeys(f"`{text}`" for text, _ in added.values()))
    missing, many = " and ".join(texts), "," in lines
    guards = Candidate("missing-guard", f"the guard{'s' * many} of line{'s' * many} {lines} look{'s' * (not many)} at "
                       f"one extent only: {missing} {'are' if len(texts) > 1 else 'is'} missing",
                       f"add {missing} there", tuple(edit for _, edit in added.values()))  # fmt: skip
    yield guards
    for tail in short_loops(program):
        if tail.kind == "missing-tail" and not (both := tail + guards).clashes:
            yield both


def _lacking(program: Program, access: GlobalAccess) -> tuple[str, Edit] | None:
    """The comparison that the condition around a load lacks, and the edit that adds it; None: it has both, or none."""
    wanted = [part for part in _inside(program, access).split(" && ") if part]
    for node in above(access.node):
        if node.type not in ("conditional_expression", "if_statement"):
            continue
        test, code = node.child_by_field_name("condition"), access.code
        if test is None or access.node.start_byte < test.end_byte:
            continue
        said = "".join(code.of(test).split())
        missing = [part for part in wanted if "".join(part.split()) not in said]
        if len(missing) != 1 or len(wanted) != 2 or "||" in said:
            return None
        end = test.end_byte - (code.of(test).endswith(")") and code.of(test).startswith("("))
        return missing[0], Edit(code.path, end, end, f" && {missing[0]}")
    return None


def _lines(*groups: list[GlobalAccess]) -> str:
    lines = sorted({access.line for group in groups for access in group})
    return ", ".join(map(str, lines))


def _guard(what: str, line: int, edits: list[Edit]) -> Candidate:
    text = next(edit.text for edit in edits if "<" in edit.text).strip()
    return Candidate("missing-guard", f"nothing guards {what} of line {line} at the edges of the matrix",
                     f"add `{text.rstrip(' ?').strip()}` in line {line}", tuple(edits))  # fmt: skip


def _inside(program: Program, access: GlobalAccess) -> str:
    """`row < M && col < N` in the user's names; empty where an extent has no name."""
    rows, columns = (program.names.get(role, "") for role in SHAPES[access.role])
    if program.names.get("layout") == "col":
        rows, columns = columns, rows
    if not rows or not columns:
        return ""
    return f"{_operand(access.row)} < {rows} && {_operand(access.column)} < {columns}"


def _is_guarded(program: Program, access: GlobalAccess) -> bool:
    """Whether an ``if`` around the access has both comparisons already."""
    wanted = ["".join(part.split()) for part in _inside(program, access).split(" && ") if part]
    node = access.statement.parent
    while wanted and node is not None:
        test = node.child_by_field_name("condition") if node.type == "if_statement" else None
        if test is not None:
            said = "".join(access.code.of(test).split())
            if all(part in said for part in wanted):
                return True
        node = node.parent
    return False


def _operand(text: str) -> str:
    return text if re.fullmatch(r"[\w.\[\]\s+*()-]+", text) else f"({text})"


def _guarded_store(program: Program, access: GlobalAccess) -> list[Edit]:
    test, statement = _inside(program, access), access.statement
    if not test or statement.type != "expression_statement":
        return []
    return [Edit(access.code.path, statement.start_byte, statement.start_byte, f"if ({test}) ")]


def _guarded_load(program: Program, access: GlobalAccess) -> list[Edit]:
    test, node = _inside(program, access), access.node
    parent = node.parent
    if not test or (parent is not None and parent.type in ("pointer_expression", "conditional_expression")):
        return []
    start, end, path = node.start_byte, node.end_byte, access.code.path
    return [Edit(path, start, start, f"({test} ? "), Edit(path, end, end, " : 0)")]


def _early_return(program: Program, store: GlobalAccess) -> Iterator[Candidate]:
    """`if (row >= M || col >= N) return;` after both are declared."""
    from gemmsmith.cure.slots import Slot, chain, children

    rows, columns = (program.names.get(role, "") for role in SHAPES[store.role])
    row, column, code = store.row, store.column, store.code
    if not rows or not columns or not row.isidentifier() or not column.isidentifier():
        return
    last = None
    for i, child in enumerate(children(store.function.body)):
        if child.type == "declaration" and re.search(rf"\b(?:{row}|{column})\s*=", code.of(child)):
            last = i
    if last is None or not chain(store.statement, store.function):
        return
    slot = Slot(code, store.function.body, last)
    text = f"if ({row} >= {rows} || {column} >= {columns}) return;"
    yield Candidate("missing-guard", "threads beyond the last row or column of the result go on",
                    f"insert `{text}` after line {slot.after_line}", (slot.insertion(text),))  # fmt: skip


# --- loops over K


def short_loops(program: Program) -> Iterator[Candidate]:
    """Loops that leave out the tail: `K / BK` tiles, `k + BK <= K`, `K - 1`; and loops that go beyond."""
    names = [program.names[role] for role in ("K", "M", "N") if role in program.names]
    for function in program.reached:
        code = function.code
        for node in below(function.body, "binary_expression"):
            operator, left, right = (node.child_by_field_name(part) for part in ("operator", "left", "right"))
            if operator is None or left is None or right is None or code.of(left) not in names:
                continue
            sign, line, extent, other = code.of(operator), code.line(node.start_byte), code.of(left), code.of(right)
            if sign == "/" and not _in_subscript(node):
                new = f"({extent} + {other} - 1) / {other}"
                yield Candidate("missing-tail", f"line {line} counts whole tiles only: `{code.of(node)}` leaves out "
                                "the last, partial one", f"write `{new}` in line {line}",
                                (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip
            elif sign in "+-" and (_is_loop(node) or _in_comparison(code, node)):
                yield Candidate("loop-bound", f"line {line} compares with `{code.of(node)}`, where {extent} belongs",
                                f"write `{extent}` in line {line}",
                                (Edit(code.path, left.end_byte, node.end_byte, ""),))  # fmt: skip
        yield from _whole_steps(function, names)
        yield from _loop_starts(function)


def _whole_steps(function: Function, names: list[str]) -> Iterator[Candidate]:
    """`k + BK <= K` as a loop's condition."""
    code = function.code
    for loop in below(function.body, "for_statement", "while_statement"):
        test = loop.child_by_field_name("condition")
        for node in below(test, "binary_expression") if test is not None else ():
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or right is None or code.of(right) not in names or left.type != "binary_expression":
                continue
            counter = left.child_by_field_name("left")
            if counter is None or counter.type != "identifier" or "+" not in code.of(left):
                continue
            new, line = f"{code.of(counter)} < {code.of(right)}", code.line(node.start_byte)
            yield Candidate("missing-tail", f"the loop of line {line} ends before the last, partial tile: "
                            f"`{code.of(node)}`", f"write `{new}` in line {line}",
                            (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _in_subscript(node: Node) -> bool:
    return any(each.type == "subscript_argument_list" for each in above(node))


def _in_comparison(code: Code, node: Node) -> bool:
    parent = node.parent
    operator = parent.child_by_field_name("operator") if parent is not None else None
    return operator is not None and code.of(operator) in _FLIPPED


def _loop_starts(function: Function) -> Iterator[Candidate]:
    code = function.code
    for loop in below(function.body, "for_statement"):
        start = loop.child_by_field_name("initializer")
        for each in below(start, "init_declarator", "assignment_expression") if start is not None else ():
            value = each.child_by_field_name("value") or each.child_by_field_name("right")
            if value is not None and code.of(value) == "1":
                line = code.line(value.start_byte)
                yield Candidate("loop-start", f"the loop of line {line} starts at 1 and leaves out element 0",
                                f"start at 0 in line {line}",
                                (Edit(code.path, value.start_byte, value.end_byte, "0"),))  # fmt: skip
