"""Member masks of warp-wide functions that leave out lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.cure.code import Program
from gemmsmith.cure.edit import Candidate, Edit

_MASK = re.compile(
    r"\b__(?:shfl\w*_sync|syncwarp|ballot_sync|any_sync|all_sync|reduce_\w+_sync)\s*\(\s*(0[xX][0-9a-fA-F]+)"
)


def masks(program: Program) -> Iterator[Candidate]:
    """Member masks of warp-wide functions that leave out lanes."""
    for function in program.reached:
        code = function.code
        for match in _MASK.finditer(code.text, function.body.start_byte, function.body.end_byte):
            if int(match[1], 16) != 0xFFFFFFFF:
                line = code.line(match.start(1))
                yield Candidate("wrong-mask", f"the member mask {match[1]} in line {line} leaves out lanes",
                                f"write `0xffffffff` in line {line}",
                                (Edit(code.path, match.start(1), match.end(1), "0xffffffff"),))  # fmt: skip
