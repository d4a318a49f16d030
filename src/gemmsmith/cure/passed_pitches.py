"""The distance between rows of a shared array that is passed with it, as to `load_matrix_sync`, must be the one that
the array is stored with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.shared_arrays import declared_rows, shared_accesses
from gemmsmith.cure.wording import changed, flat

if TYPE_CHECKING:
    from tree_sitter import Node

_CONSTANT = re.compile(r"\d+|[A-Z]\w*(?:\s*\+\s*\w+)?")
_ROW = re.compile(r".*\*\s*(?P<pitch>\d+|[A-Z]\w*|\([A-Z]\w*\s*\+\s*\w+\))\s*(?:\+.*)?")


def passed_pitches(program: Program) -> Iterator[Candidate]:
    """`load_matrix_sync(b, sb, 16)` becomes `load_matrix_sync(b, sb, 24)` where `sb[i * 24 + j]` is stored."""
    pitches = _pitches(program)
    for function in program.reached:
        code = function.code
        for node in below(function.body, "argument_list"):
            arrays = {name for name in map(code.of, below(node, "identifier")) if name in pitches}
            for given in node.named_children if len(arrays) == 1 else ():
                for pitch in pitches[next(iter(arrays))] if _is_constant(given, code.of(given)) else ():
                    if pitch != flat(code.of(given)):
                        yield _replaced(code, given, next(iter(arrays)), pitch)


def _is_constant(node: Node, text: str) -> bool:
    return node.type in ("number_literal", "identifier", "binary_expression") and bool(_CONSTANT.fullmatch(text))


def _pitches(program: Program) -> dict[str, list[str]]:
    """By array, the distances between its rows: as declared, or as in `sb[row * PITCH + column]`."""
    found = {name: [rows] for name, rows in declared_rows(program).items()}
    for function in program.reached:
        for access in shared_accesses(program, function):
            match = _ROW.fullmatch(access.text(0)) if len(access.indices) == 1 else None
            if match:
                pitch = match["pitch"].strip("()")
                known = found.setdefault(access.array, [])
                known.extend([] if pitch in known else [pitch])
    return found


def _replaced(code: Code, given: Node, array: str, pitch: str) -> Candidate:
    line, old = code.line(given.start_byte), flat(code.of(given))
    return Candidate("wrong-pitch", f"line {line} passes {old} as the distance between rows of {array}, and they are "
                     f"{pitch} apart", f"write `{pitch}` for `{old}` in line {line}: `{changed(code, given, pitch)}`",
                     (Edit(code.path, given.start_byte, given.end_byte, pitch),))  # fmt: skip
