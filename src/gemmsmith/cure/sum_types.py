"""Accumulators of a type that does not hold the sum: `int sum` of floats, `float sum` of doubles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.cure.code import LOOPS, Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit

_INTEGERS = ("int", "unsigned", "unsigned int", "long", "long long", "short", "char", "int32_t", "int64_t", "size_t")
_SHORT = ("short", "unsigned short", "int16_t", "uint16_t", "char", "signed char", "int8_t", "uint8_t")
_NARROWER = {"int": _SHORT, "int32_t": _SHORT, "float": _INTEGERS, "half": _INTEGERS, "__half": _INTEGERS,
             "__nv_bfloat16": _INTEGERS, "double": (*_INTEGERS, "float", "half", "__half")}  # fmt: skip
_SUMS_OF = {"half": "float", "__half": "float", "__nv_bfloat16": "float"}


def narrow_sums(program: Program) -> Iterator[Candidate]:
    """A local variable that products are added to gets the type of C's elements (float for 16-bit ones)."""
    kernel = program.kernel
    element = _element(kernel, program.names.get("C", program.names.get("D", ""))) if kernel is not None else ""
    narrower = _NARROWER.get(element, ())
    for function in program.reached if narrower else ():
        code, body = function.code, function.code.of(function.body)
        for node in below(function.body, "declaration"):
            kind = node.child_by_field_name("type")
            is_counter = node.parent is not None and node.parent.type in LOOPS
            if kind is None or code.of(kind) not in narrower or "__shared__" in code.of(node) or is_counter:
                continue
            names = re.findall(
                r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?==|,|;)", code.text[kind.end_byte : node.end_byte]
            )
            sums = [name for name in names if re.search(rf"\b{name}\b(?:\s*\[[^\]]*\])*\s*\+=[^;]*\*", body)]
            if not sums:
                continue
            line, old, new = code.line(node.start_byte), code.of(kind), _SUMS_OF.get(element, element)
            yield Candidate("narrow-accumulator", f"`{sums[0]}` in line {line} is {old}, which does not hold the sums "
                            f"of {element} numbers", f"write `{new}` for `{old}` in line {line}",
                            (Edit(code.path, kind.start_byte, kind.end_byte, new),))  # fmt: skip


def _element(kernel: Function, name: str) -> str:
    """The type that a pointer parameter points to."""
    found = re.search(rf"(\w+)\s*(?:const\s*)?\*\s*(?:__restrict__\s*|const\s*)*{re.escape(name)}\b", kernel.head)
    return found[1] if found and name else ""
