"""Loops over K that leave out the tail, or go beyond: `K / BK` tiles, `k + BK <= K`, `K - 1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.bounds import FLIPPED, is_loop
from gemmsmith.cure.code import Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import flat

if TYPE_CHECKING:
    from tree_sitter import Node

# Several elements at once: a dot product of bytes, or a vector.
_WORDS = re.compile(
    r"__dp[24]a|\b(?:float|double|int|uint|char|half)[234]\b|reinterpret_cast|\w+(?:4|Vec|vec|packed)\s*\["
)

_WIDEST = 16  # elements of a vector
_COUNTED = re.compile(r"/|(?:div|ceil|DIV|CEIL)\w*\s*\(")


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
            elif sign in "+-" and (is_loop(node) or _in_comparison(code, node)):
                yield Candidate("loop-bound", f"line {line} compares with `{code.of(node)}`; it should be {extent}",
                                f"write `{extent}` in line {line}",
                                (Edit(code.path, left.end_byte, node.end_byte, ""),))  # fmt: skip
        yield from _whole_steps(function, names)
        yield from _short_of_one(function, names)
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
            yield Candidate("missing-tail", f"the loop in line {line} ends before the last, partial tile: "
                            f"`{code.of(node)}`", f"write `{new}` in line {line}",
                            (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _short_of_one(function: Function, names: list[str]) -> Iterator[Candidate]:
    """`s < PARTS - 1` as a loop's condition, where PARTS is no extent of the product."""
    code = function.code
    for loop in below(function.body, "for_statement", "while_statement"):
        test = loop.child_by_field_name("condition")
        for node in below(test, "binary_expression") if test is not None else ():
            operator, right = node.child_by_field_name("operator"), node.child_by_field_name("right")
            if operator is None or right is None or code.of(operator) not in ("<", "!="):
                continue
            sign, count, one = (right.child_by_field_name(part) for part in ("operator", "left", "right"))
            if sign is None or count is None or one is None or (code.of(sign), code.of(one)) != ("-", "1"):
                continue
            if count.type == "identifier" and code.of(count) not in names:
                line = code.line(node.start_byte)
                yield Candidate("loop-bound", f"the loop in line {line} leaves out the last of {code.of(count)}: "
                                f"`{code.of(node)}`", f"write `{code.of(count)}` in line {line}",
                                (Edit(code.path, count.end_byte, right.end_byte, ""),))  # fmt: skip


def fewer_tiles(program: Program) -> Iterator[Candidate]:
    """`tiles = K / BK - 1`, also with a division that rounds up, becomes `tiles = K / BK`."""
    declared = (
        (function.code, node) for function in program.reached for node in below(function.body, "init_declarator")
    )
    for code, node in declared:
        value = node.child_by_field_name("value")
        parts = [
            value.child_by_field_name(part) if value is not None else None for part in ("operator", "left", "right")
        ]
        sign, count, one = (code.of(part) if part is not None else "" for part in parts)
        if parts[1] is not None and value is not None and (sign, one) == ("-", "1") and _COUNTED.search(count):
            line = code.line(value.start_byte)
            yield Candidate("loop-bound", f"line {line} counts one tile too few: `{flat(code.of(value))}`",
                            f"write `{flat(count)}` in line {line}",
                            (Edit(code.path, parts[1].end_byte, value.end_byte, ""),))  # fmt: skip


def wrong_steps(program: Program, *, computed: bool) -> Iterator[Candidate]:
    """Loops that go too far at once: `k += 2 * TILE` (``computed``), or `k += BM` where the tile is BK deep."""
    for function in program.reached:
        code = function.code
        text = code.of(function.body)
        sizes = list(dict.fromkeys(re.findall(r"\[\s*([A-Z]\w*)\s*(?:\+\s*\d+\s*)?\]", text)))
        for loop in below(function.body, "for_statement", "while_statement"):
            update = loop.child_by_field_name("update")
            for node in below(update if update is not None else loop, "assignment_expression"):
                sign, right = node.child_by_field_name("operator"), node.child_by_field_name("right")
                if sign is None or right is None or code.of(sign) != "+=" or not _counts(code, loop, node):
                    continue
                if (right.type == "binary_expression") != computed:
                    continue
                old, line = code.of(right), code.line(node.start_byte)
                parts = [code.of(each) for each in below(right, "identifier", "number_literal") if each.id != right.id]
                for new in dict.fromkeys((*_threads(code, loop), *parts, *sizes)):
                    if new != old and new != "1":
                        start = code.line(loop.start_byte)
                        yield Candidate("loop-step", f"the loop in line {start} steps by `{old}`; it should step by "
                                        f"`{new}`", f"write `{new}` for `{old}` in line {line}",
                                        (Edit(code.path, right.start_byte, right.end_byte, new),))  # fmt: skip


def numbered_steps(program: Program) -> Iterator[Candidate]:
    """`w += 4` becomes `++w`, `w += 2` and `w += 8`: the words of a vector are counted, not its elements; and `++k`
    becomes `k += 4` where four elements are read at once."""
    for function in program.reached:
        code = function.code
        for loop in below(function.body, "for_statement"):
            update = loop.child_by_field_name("update")
            if update is None or not _starts_at_zero(code, loop) or "sync" in code.of(loop):
                continue
            line, old = code.line(update.start_byte), flat(code.of(update))
            stepped = re.fullmatch(r"(\w+)\s*\+=\s*(\d+)", old)
            counted = re.fullmatch(r"(?:\+\+\s*(\w+)|(\w+)\s*\+\+)", old)
            name, by = (stepped[1], int(stepped[2])) if stepped else ("", 1)
            if counted and _WORDS.search(code.of(loop)):
                name = counted[1] or counted[2]
            for new in (1, by // 2, by * 2) if stepped and by <= _WIDEST else (4, 2, 8, 16) if name else ():
                if new not in (0, by):
                    text = f"{name} += {new}" if new > 1 else f"++{name}"
                    yield Candidate("loop-step", f"the loop in line {line} steps by {by}; it should step by {new}: "
                                    f"{'some of the terms are left out' if new < by else 'it reads too much'}",
                                    f"write `{text}` for `{old}` in line {line}",
                                    (Edit(code.path, update.start_byte, update.end_byte, text),))  # fmt: skip


def counted_words(program: Program) -> Iterator[Candidate]:
    """`w < K` becomes `w < K / 4` in a loop over words of four elements."""
    extent = program.names.get("K", "")
    for function in program.reached if extent else ():
        code = function.code
        for loop in below(function.body, "for_statement"):
            test = loop.child_by_field_name("condition")
            right = test.child_by_field_name("right") if test is not None else None
            if right is None or code.of(right) != extent or not _WORDS.search(code.of(loop)):
                continue
            line = code.line(right.start_byte)
            for by in (4, 2, 8, 16):
                yield Candidate("counted-words", f"the loop in line {line} runs over {extent} words, but {extent} "
                                f"elements are only {extent} / {by} words",
                                f"write `{extent} / {by}` for `{extent}` in line {line}",
                                (Edit(code.path, right.start_byte, right.end_byte, f"{extent} / {by}"),))  # fmt: skip


def _starts_at_zero(code: Code, loop: Node) -> bool:
    start = loop.child_by_field_name("initializer")
    return start is not None and re.search(r"=\s*0\s*;?$", code.of(start)) is not None


def _threads(code: Code, loop: Node) -> tuple[str, ...]:
    """The threads of the block, where a loop starts at the number of a thread (`for (int i = tid; …)`); the blocks of
    the grid, where it starts at the block's."""
    start = loop.child_by_field_name("initializer")
    text = code.of(start) if start is not None else ""
    if block := re.search(r"=\s*blockIdx\.([xyz])\s*;?$", text):
        return (f"gridDim.{block[1]}",)
    return ("blockDim.x", "blockDim.x * blockDim.y") if re.search(r"threadIdx|\bt?id\b|lane|tid", text) else ()


def _counts(code: Code, loop: Node, node: Node) -> bool:
    """Whether an assignment changes the variable that the loop's condition looks at."""
    test, left = loop.child_by_field_name("condition"), node.child_by_field_name("left")
    return (
        test is not None
        and left is not None
        and re.search(rf"\b{re.escape(code.of(left))}\b", code.of(test)) is not None
    )


def _in_subscript(node: Node) -> bool:
    return any(each.type == "subscript_argument_list" for each in above(node))


def _in_comparison(code: Code, node: Node) -> bool:
    parent = node.parent
    operator = parent.child_by_field_name("operator") if parent is not None else None
    return operator is not None and code.of(operator) in FLIPPED


def _loop_starts(function: Function) -> Iterator[Candidate]:
    code = function.code
    for loop in below(function.body, "for_statement"):
        start = loop.child_by_field_name("initializer")
        for each in below(start, "init_declarator", "assignment_expression") if start is not None else ():
            value = each.child_by_field_name("value") or each.child_by_field_name("right")
            if value is not None and code.of(value) == "1":
                line = code.line(value.start_byte)
                yield Candidate("loop-start", f"the loop in line {line} starts at 1 and leaves out element 0",
                                f"start at 0 in line {line}",
                                (Edit(code.path, value.start_byte, value.end_byte, "0"),))  # fmt: skip
