"""The threads of a block as the launch has them, where the kernel needs others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gemmsmith.cure.code import Program
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.launches import block_extents, configured
from gemmsmith.cure.shared_arrays import declared_sizes

_MOST_THREADS = 1024


def flat_blocks(program: Program) -> Iterator[Candidate]:
    """`<<<grid, T * T>>>` becomes `<<<grid, dim3(T, T)>>>` for a kernel that uses threadIdx.y."""
    used = any("threadIdx.y" in function.code.of(function.body) for function in program.reached)
    for code, asked in configured(program, 1) if used else ():
        listed = block_extents(code, asked)
        if len(listed) != 1:
            continue
        text, line = code.of(listed[0]), code.line(listed[0].start_byte)
        factors = [part.strip() for part in text.split("*")]
        if text.isdecimal() and math.isqrt(int(text)) ** 2 == int(text):
            factors = [str(math.isqrt(int(text)))] * 2
        if len(factors) != 2 or not all(re.fullmatch(r"\w+", factor) for factor in factors):
            continue
        sides, before = ", ".join(factors), code.text[: listed[0].start_byte]
        is_declared = re.search(rf"\bdim3\b[^;]*\b{re.escape(code.of(asked))}\s*[({{]\s*$", before) is not None
        edit = (Edit(code.path, listed[0].start_byte, listed[0].end_byte, sides) if is_declared
                else Edit(code.path, asked.start_byte, asked.end_byte, f"dim3({sides})"))  # fmt: skip
        yield Candidate("flat-block", f"the launch has blocks of {text} threads along x alone (line {line}), and the "
                        "kernel uses threadIdx.y, which is then always 0",
                        f"write `{edit.text}` in line {code.line(edit.start)}", (edit,))  # fmt: skip


def other_blocks(program: Program) -> Iterator[Candidate]:
    """The threads of a block, where they are numbers: as many along one side as along another, twice as many, half."""
    for code, asked in configured(program, 1):
        listed = block_extents(code, asked)
        texts = [code.of(node) for node in listed]
        numbers = [text for text in texts if text.isdecimal()]
        for node in listed:
            old, line = code.of(node), code.line(node.start_byte)
            if not old.isdecimal():
                continue
            for new in dict.fromkeys((*numbers, str(2 * int(old)), str(int(old) // 2))):
                sides = [new if each.id == node.id else code.of(each) for each in listed]
                if new in (old, "0") or math.prod(int(side) for side in sides if side.isdecimal()) > _MOST_THREADS:
                    continue
                yield Candidate("wrong-block", f"the launch has blocks of {'x'.join(texts)} threads (line {line}), and "
                                f"the kernel needs {'x'.join(sides)}", f"write `{', '.join(sides)}` in line {line}",
                                (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def smaller_blocks(program: Program) -> Iterator[Candidate]:
    """The constant that both sides of a block have, made smaller until a GPU takes the block."""
    texts = {code: block_extents(code, asked) for code, asked in configured(program, 1)}
    for code, listed in texts.items():
        for name in dict.fromkeys(code.of(node) for node in listed if code.of(node).isidentifier()):
            for each in program.files:
                for match in _constants(name, each.text):
                    times = sum(code.of(node) == name for node in listed)
                    new = int(match[1])
                    while new**times > _MOST_THREADS:
                        new //= 2
                    line = each.line(match.start(1))
                    yield Candidate("too-many-threads", f"a block has {name} = {match[1]} threads along {times} "
                                    f"axes, {int(match[1]) ** times:,} in all; a GPU allows {_MOST_THREADS:,}",
                                    f"write {new} for {match[1]} in line {line}",
                                    (Edit(each.path, match.start(1), match.end(1), str(new)),))  # fmt: skip


def other_tiles(program: Program) -> Iterator[Candidate]:
    """A constant that both sizes of a shared tile have, set to the threads along each side of the block."""
    constants = {text for rows in declared_sizes(program).values() for text in rows}
    for code, asked in configured(program, 1):
        sides = [_number(program, code.of(node)) for node in block_extents(code, asked)]
        if len(sides) != 2 or sides[0] is None or sides[0] != sides[1]:
            continue
        for name in sorted(constants):
            for each in program.files:
                for match in _constants(name, each.text):
                    old, line = int(match[1]), each.line(match.start(1))
                    if old != sides[0] and f"[{name}]" in "".join(each.text.split()):
                        yield Candidate("wrong-block", f"blocks have {sides[0]}x{sides[1]} threads, and the tiles of "
                                        f"{name} have {old} elements a side: the other threads have none there",
                                        f"write {sides[0]} for {old} in line {line}, or launch blocks of {old}x{old} "
                                        "threads, with a grid to match",
                                        (Edit(each.path, match.start(1), match.end(1), str(sides[0])),))  # fmt: skip


def _number(program: Program, text: str) -> int | None:
    """The value of a number, or of a constant that is one."""
    if text.isdecimal():
        return int(text)
    found = [int(match[1]) for each in program.files for match in _constants(text, each.text)]
    return found[0] if len(set(found)) == 1 and text.isidentifier() else None


def _constants(name: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"(?:#\s*define\s+{re.escape(name)}\s+|\b{re.escape(name)}\s*=\s*)(\d+)\b", text)
