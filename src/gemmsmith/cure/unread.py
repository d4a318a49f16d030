"""C that is read when beta = 0: `beta * C[i]` only where beta is not 0."""

from __future__ import annotations

from collections.abc import Iterator

from gemmsmith.cure.accesses import global_accesses
from gemmsmith.cure.code import Program
from gemmsmith.cure.edit import Candidate, Edit


def beta_tested(program: Program) -> Iterator[Candidate]:
    """Every product of beta and an element of C behind a test of beta."""
    beta = program.names.get("beta", "")
    edits: dict[Edit, None] = {}
    lines: list[int] = []
    text = ""
    for access in global_accesses(program):
        code, product = access.code, access.node.parent
        sign = product.child_by_field_name("operator") if product is not None else None
        if access.role != "C" or access.is_store or product is None or sign is None or code.of(sign) != "*":
            continue
        sides = [product.child_by_field_name(part) for part in ("left", "right")]
        if beta and any(side is not None and code.of(side) == beta for side in sides):
            text = text or f"({beta} == 0 ? 0 : {code.of(product)})"
            edits[Edit(code.path, product.start_byte, product.start_byte, f"({beta} == 0 ? 0 : ")] = None
            edits[Edit(code.path, product.end_byte, product.end_byte, ")")] = None
            lines.append(code.line(product.start_byte))
    if edits:
        where = f"line{'s' * (len(set(lines)) > 1)} {', '.join(map(str, dict.fromkeys(lines)))}"
        yield Candidate("c-read", f"{where} multiplies C by {beta} without looking at it", f"write `{text}` in {where}",
                        tuple(edits))  # fmt: skip
