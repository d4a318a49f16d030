"""Pointers into a matrix: how far a loop moves them on, and where a block starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import LEADING, SHAPES, extents, global_accesses, operands
from gemmsmith.cure.code import LOOPS, Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import flat

if TYPE_CHECKING:
    from tree_sitter import Node


def steps_of_loops(program: Program) -> Iterator[Candidate]:
    """`b += TILE` in a loop becomes `b += TILE * N`: a pointer into B goes on by whole rows; and `a += TILE * K`
    becomes `a += TILE`."""
    roles, known = operands(program), set(extents(program))
    for function in program.reached:
        code, own = function.code, {**roles, **_derived(function, roles)}
        for node in below(function.body, "assignment_expression"):
            left, sign, right = (node.child_by_field_name(part) for part in ("left", "operator", "right"))
            if left is None or sign is None or right is None or code.of(sign) != "+=" or code.of(left) not in own:
                continue
            if not any(each.type in LOOPS for each in above(node) if each.start_byte > function.body.start_byte):
                continue
            role, old, line = own[code.of(left)], flat(code.of(right)), code.line(node.start_byte)
            has_extent = bool(set(re.findall(r"[A-Za-z_]\w*", old)) & known)
            if role == "B" and not has_extent:
                for leading in _leading(program, role):
                    new = f"{old} * {leading}" if re.fullmatch(r"[\w *]+", old) else f"({old}) * {leading}"
                    yield _step(code, right, new, f"line {line} moves `{code.of(left)}` on by {old} elements, where "
                                f"{old} rows belong")  # fmt: skip
            elif role == "A" and has_extent and "+" not in old:
                short = " * ".join(part.strip() for part in old.split("*") if part.strip() not in known)
                yield _step(code, right, short or "1", f"line {line} moves `{code.of(left)}` on by whole rows, where "
                            "elements of one row belong")  # fmt: skip


def missing_block_terms(program: Program) -> Iterator[Candidate]:
    """`C += row0 * N` becomes `C += row0 * N + col0`: what B has of the block's column and C lacks."""
    for function in program.reached:
        code, blocks = function.code, _block_variables(function)
        moved = [access for access in global_accesses(program) if access.is_pointer and access.function is function]
        for mine in (access for access in moved if access.role in ("C", "D")):
            for other in (access for access in moved if access.role in ("A", "B")):
                lacking = [
                    name for name in blocks if _has(code.of(other.index), name) and not _has(code.of(mine.index), name)
                ]
                right = mine.node.child_by_field_name("right")
                if (
                    len(lacking) != 1
                    or right is None
                    or any(_uses_later(code, function, program, name) for name in lacking)
                ):
                    continue
                term, line = flat(code.of(other.index)), mine.line
                new = f"{flat(code.of(right))} + {term}"
                yield Candidate("missing-block-term", f"line {line} moves {program.names.get(mine.role, 'C')} to the "
                                f"block without its {lacking[0]}, which line {other.line} has for "
                                f"{program.names.get(other.role, '')}", f"write `{new}` in line {line}",
                                (Edit(code.path, right.start_byte, right.end_byte, new),))  # fmt: skip


def _has(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", text) is not None


def _uses_later(code: Code, function: Function, program: Program, name: str) -> bool:
    """Whether an element of C is chosen by this variable."""
    return any(_has(code.of(access.index), name) for access in global_accesses(program)
               if access.function is function and not access.is_pointer and access.role in ("C", "D"))  # fmt: skip


def _block_variables(function: Function) -> list[str]:
    """`blockIdx.x` and the variables that are set to it alone."""
    code, found = function.code, ["blockIdx.x", "blockIdx.y"]
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is not None and value is not None and re.fullmatch(r"blockIdx\.[xyz]", code.of(value)):
            found.append(code.of(named))
    return found


def _derived(function: Function, roles: dict[str, str]) -> dict[str, str]:
    """Pointers that are set to an operand and an offset: `const half* pb = b + ly * n;`."""
    code, found = function.code, {}
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        start = re.match(r"&?\s*([A-Za-z_]\w*)\s*(?:\+|\[|$)", code.of(value)) if value is not None else None
        if named is not None and start is not None and start[1] in roles and named.type == "pointer_declarator":
            found[re.sub(r"^[*&\s]+|__restrict__|\bconst\b", "", code.of(named)).strip(" *")] = roles[start[1]]
    return found


def _leading(program: Program, role: str) -> list[str]:
    """The names of the rows' length of an operand, its own first."""
    own = {"A": "lda", "B": "ldb", "C": "ldc", "D": "ldd"}.get(role, "")
    wanted = [program.names[each] for each in (own, SHAPES.get(role, ("", ""))[1]) if each in program.names]
    rest = [program.names[each] for each in ("N", "K", "M", *LEADING) if each in program.names]
    return list(dict.fromkeys((*wanted, *rest)))[:2]


def _step(code: Code, node: Node, new: str, cause: str) -> Candidate:
    line = code.line(node.start_byte)
    return Candidate("pointer-step", cause, f"write `{new}` in line {line}",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip
