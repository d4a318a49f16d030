"""Numbers that choose what a kernel computes: it only compares them with constants, or asks for their bits.

``bool transB``, ``char ta`` beside ``ta == 'N'``, ``int order`` beside ``order & 2``: each value is another layout, or
another epilogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from gemmsmith.kernel.signature import Argument, Signature

_CODES = frozenset("iIbB?")  # integers, characters and bool
_MOST_BITS = 3
_TRANSPOSES = re.compile(
    r"(?:^|_)t(?:rans\w*|_?[ab12])?(?:_|$)|trans|(?:(?<![a-z])|row|col|re)order|layout|major(?![a-z])"
    r"|(?:^|_)op_?[ab]?(?:_|$)",
    re.I,
)


def mode_values(name: str, body: str) -> tuple[str, ...]:
    """The values, as texts of numbers, between which a kernel chooses by ``name``; empty where it does more with it."""
    word = re.escape(name)
    equal, bits = rf"{word}\s*[=!]=\s*(\d+)|(\d+)\s*[=!]=\s*{word}", rf"{word}\s*&\s*(\d+)"
    before, after = r"(?<![\w.])(?:", r")(?!\w)"
    # As a condition of its own, and not as the right side of a comparison: ``if (i < n && flag)``.
    alone = rf"(?:[(!&|?:]|(?<![=!<>])=)\s*{word}(?=\s*(?:\?|&&|\|\|))|[(&|]\s*{word}(?=\s*\))|!\s*{word}\b"
    rest = re.sub(alone, " ", re.sub(before + f"{equal}|{bits}" + after, " ", body))
    if not re.search(rf"(?<![\w.]){word}\b", body) or re.search(rf"(?<![\w.]){word}\b", rest):
        return ()
    if masks := sorted({int(mask) for mask in re.findall(before + bits + after, body)} - {0})[:_MOST_BITS]:
        return tuple(str(sum(chosen)) for chosen in product(*((0, mask) for mask in masks)))
    constants = [str(int(left or right)) for left, right in re.findall(before + equal + after, body)]
    switches = re.finditer(rf"\bswitch\s*\(\s*{word}\s*\)\s*\{{", body)
    constants += [str(int(case)) for each in switches for case in _cases(body[each.end() :])]
    return tuple(sorted(set(constants if len(set(constants)) > 1 else ["0", "1", *constants]), key=int))


def _cases(text: str) -> list[str]:
    """The numbers of the cases of a switch, of which ``text`` is what follows its brace."""
    depth, found = 1, []
    for match in re.finditer(r"[{}]|\bcase\s+(\d+)", text):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth == 0:
            break
        if match[1] and depth == 1:
            found.append(match[1])
    return found


def modes_of(argument: Argument, body: str, code: str) -> tuple[str, ...]:
    """The values that an argument chooses between; empty where it is no such number. ``body``: of the kernel, where
    characters are 0; ``code``: its file as it is written."""
    found = mode_values(argument.name, body) if argument.code in _CODES else ()
    if not found or argument.ctype != "char":
        return found
    asked = re.findall(rf"(?<![\w.]){re.escape(argument.name)}\s*[=!]=\s*'([A-Za-z])'", code)
    letters = asked if len(set(asked)) != 1 else [*"NT", *asked]
    return tuple(dict.fromkeys(str(ord(letter)) for letter in letters))


def chosen_by_callers(signature: Signature) -> list[Argument]:
    """The numbers with a value that was found by trying: host code leaves them to its callers."""
    return [argument for argument in signature.arguments if argument.role.isdecimal() and not argument.passed]


def with_values(signature: Signature, values: Mapping[Argument, str]) -> tuple[Signature, str]:
    """The signature with other values of such numbers, and these as text: "transA = 1, ta = 'N'"."""
    changed = tuple(replace(each, role=values.get(each, each.role)) for each in signature.arguments)
    said = ", ".join(f"{argument.name} = {shown_value(value, argument)}" for argument, value in values.items())
    return replace(signature, arguments=changed), said


def shown_value(value: str, argument: Argument) -> str:
    """A value as the source has it: 'N' of a character."""
    number = int(value)
    return f"'{chr(number)}'" if argument.ctype == "char" and chr(number).isalpha() else value


def transposes(name: str) -> bool:
    """Whether a number is named after how operands are stored: transA, tb, AB_order, op_a."""
    return _TRANSPOSES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) is not None
