"""Guards that are missing: stores to C and loads of A and B beyond the edges of the matrices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import SHAPES, GlobalAccess, global_accesses
from gemmsmith.cure.code import Program, above
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.slots import Slot, chain, children
from gemmsmith.cure.tails import short_loops

if TYPE_CHECKING:
    from tree_sitter import Node


def missing_guards(program: Program) -> Iterator[Candidate]:
    """Stores to C and loads of A and B without a guard: each alone, all of them, and an early return."""
    accesses = [access for access in global_accesses(program)
                if access.row and not access.is_pointer and not is_guarded(program, access)]  # fmt: skip
    stores = [access for access in accesses if access.is_store and access.role in ("C", "D")]
    loads = [access for access in accesses if not access.is_store and access.role in ("A", "B")]
    if stores:
        yield from _early_return(program, stores[0])
        guarded = [edit for store in stores[:1] for edit in guarded_store(program, store)]
        if guarded:
            yield _guard("the store", stores[0].line, guarded)
    yield from _half_guarded(program, loads)
    conditional = [(load, edits) for load in loads if (edits := guarded_load(program, load))]
    for load, edits in conditional:
        yield _guard("the load", load.line, edits)
    together = [edit for store in stores for edit in guarded_store(program, store)]
    together += [edit for _, edits in conditional for edit in edits]
    whole = Candidate("missing-guard", f"nothing guards the accesses in lines {_lines(stores, loads)} at the edges of "
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
    added = {load: found for load in loads if (found := lacking(program, load))}
    if not added:
        return
    lines = ", ".join(map(str, sorted({load.line for load in added})))
    texts = list(dict.fromkeys(f"`{text}`" for text, _ in added.values()))
    missing, many = " and ".join(texts), "," in lines
    guards = Candidate("missing-guard", f"the guard{'s' * many} in line{'s' * many} {lines} look{'s' * (not many)} at "
                       f"one extent only: {missing} {'are' if len(texts) > 1 else 'is'} missing",
                       f"add {missing} there", tuple(edit for _, edit in added.values()))  # fmt: skip
    yield guards
    for tail in short_loops(program):
        if tail.kind == "missing-tail" and not (both := tail + guards).clashes:
            yield both


def lacking(program: Program, access: GlobalAccess, but: Node | None = None) -> tuple[str, Edit] | None:
    """The comparison that the condition around a load lacks, and the edit that adds it; None: it has both, or none.
    ``but`` is a condition that does not count."""
    wanted = [part for part in inside(program, access).split(" && ") if part]
    for node in above(access.node):
        if node.type not in ("conditional_expression", "if_statement") or (but is not None and node.id == but.id):
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
    return Candidate("missing-guard", f"nothing guards {what} in line {line} at the edges of the matrix",
                     f"add `{text.rstrip(' ?').strip()}` in line {line}", tuple(edits))  # fmt: skip


def inside(program: Program, access: GlobalAccess) -> str:
    """`row < M && col < N` in the user's names; empty where an extent has no name."""
    rows, columns = (program.names.get(role, "") for role in SHAPES[access.role])
    if program.names.get("layout") == "col":
        rows, columns = columns, rows
    if not rows or not columns:
        return ""
    return f"{_operand(access.row)} < {rows} && {_operand(access.column)} < {columns}"


def is_guarded(program: Program, access: GlobalAccess, but: Node | None = None) -> bool:
    """Whether an ``if`` around the access, other than ``but``, has both comparisons already."""
    wanted = ["".join(part.split()) for part in inside(program, access).split(" && ") if part]
    node = access.statement.parent
    while wanted and node is not None:
        test = node.child_by_field_name("condition") if node.type == "if_statement" else None
        if test is not None and (but is None or node.id != but.id):
            said = "".join(access.code.of(test).split())
            if all(part in said for part in wanted):
                return True
        node = node.parent
    return False


def _operand(text: str) -> str:
    return text if re.fullmatch(r"[\w.\[\]\s+*()-]+", text) else f"({text})"


def guarded_store(program: Program, access: GlobalAccess) -> list[Edit]:
    test, statement = inside(program, access), access.statement
    if not test or statement.type != "expression_statement":
        return []
    return [Edit(access.code.path, statement.start_byte, statement.start_byte, f"if ({test}) ")]


def guarded_load(program: Program, access: GlobalAccess) -> list[Edit]:
    test, node = inside(program, access), access.node
    parent = node.parent
    if not test or (parent is not None and parent.type in ("pointer_expression", "conditional_expression")):
        return []
    start, end, path = node.start_byte, node.end_byte, access.code.path
    return [Edit(path, start, start, f"({test} ? "), Edit(path, end, end, " : 0)")]


def _early_return(program: Program, store: GlobalAccess) -> Iterator[Candidate]:
    """`if (row >= M || col >= N) return;` after both are declared."""
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
