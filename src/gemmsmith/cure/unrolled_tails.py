"""Loops over K that take several terms at a time: the last K % 4 of them need a loop of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Function, Program, below
from gemmsmith.cure.edit import Candidate
from gemmsmith.cure.slots import Slot, chain, children
from gemmsmith.cure.wording import flat

if TYPE_CHECKING:
    from tree_sitter import Node

_STEP = re.compile(r"(\w+)\s*\+=\s*(\w+)")
_ADDS = re.compile(r"\w[\w.\[\]]*\s*(?:\+=|=\s*(?:__)?fma\w*\s*\()")


def missing_tails(program: Program) -> Iterator[Candidate]:
    """`for (; i + 3 < K; i += 4) { s += a[i]; s += a[i + 1]; … }` gets a loop over the last terms, of `s += a[i]`."""
    extent = program.names.get("K", "")
    for function in program.reached if extent else ():
        for loop in below(function.body, "for_statement"):
            made = _tail(function, loop, extent)
            if made is not None:
                yield made


def _tail(function: Function, loop: Node, extent: str) -> Candidate | None:
    code = function.code
    update, test, body = (loop.child_by_field_name(part) for part in ("update", "condition", "body"))
    step = _STEP.fullmatch(code.of(update).strip()) if update is not None else None
    if step is None or test is None or body is None or not re.search(rf"\b{extent}\b", code.of(test)):
        return None
    counter, by = step[1], step[2]
    if not re.search(rf"\b{counter}\b", code.of(test)) or by == "1" or "sync" in code.of(body):
        return None
    statements = children(body) if body.type == "compound_statement" else [body]
    texts = [code.of(each).strip() for each in statements]
    uses = [text for text in texts if re.search(rf"\b{counter}\b", text)]
    if len(uses) < 2 or len(uses) != len(texts) or not all(_ADDS.match(text) for text in uses):
        return None
    # The terms of one k: those that name no other k than the counter itself, `a[i]` and not `a[i + 1]`.
    first = [text for text in uses if not re.search(rf"\b{counter}\s*\+\s*[1-9]", text)]
    block, place = next(iter(chain(loop, function)), (None, 0))
    if block is None or not first:
        return None
    start = loop.child_by_field_name("initializer")
    declares = start is not None and start.type == "declaration"
    begins = f"int {counter} = {extent} / {by} * {by}" if declares else ""
    terms = first[0] if len(first) == 1 else "{ " + " ".join(first) + " }"
    text, slot = f"for ({begins}; {counter} < {extent}; ++{counter}) {terms}", Slot(code, block, place)
    line = code.line(loop.start_byte)
    return Candidate("missing-tail", f"the loop in line {line}, `{flat(code.of(test))}`, takes {by} terms at a time, "
                     f"and nothing adds the last {extent} % {by} of them",
                     f"insert `{flat(text, 120)}` after line {slot.after_line}", (slot.insertion(text),))  # fmt: skip
