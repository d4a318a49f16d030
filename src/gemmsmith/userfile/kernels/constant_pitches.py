"""Rows that are a constant apart in a kernel that takes its sizes as parameters:

#define LD 2048   …   if (row < M && col < N) C[row * LD + col] = …

Host code allocates matrices with such rows. Tight ones are made only where the sizes are these constants.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gemmsmith.kernel.signature import Signature
from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts
from gemmsmith.userfile.text.preprocessor import closing

_ROW = re.compile(r"\*\s*\)?\s*\[\s*(\w+)\s*\]\s*$")  # float A[][N]
_PATH = re.compile(r"[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*")  # lda, a.stride
_BEFORE, _BEHIND = re.compile(r"\b(\w+)\s*\*"), re.compile(r"\*\s*\(?\s*(\w+)\b(?!\s*\()")


def with_constant_pitches(signature: Signature, facts: KernelFacts, constants: Mapping[str, int]) -> Signature:
    """The signature with the M, N and K for which rows of A, B and C are as far apart as constants say.

    Constants in all three: one that only some of them have is a mistake more often. So is one that is less than the
    row that host code passes: rows would overlap.
    """
    if signature.fixed or signature.unknown or facts.kernel.template is not None:
        return signature
    pitches = {role: _pitch(arg.name, signature, facts, constants) for role in ("A", "B", signature.output)
               for arg in signature.arguments if arg.role == role and arg.code == "P"}  # fmt: skip
    if len(pitches) != 3 or not all(pitches.values()):
        return signature
    k, b, n = pitches.values()
    passed = {arg.role: int(arg.passed) for arg in signature.arguments if arg.passed.isdecimal()}
    if b not in (n, k) or passed.get("N", 0) > n or passed.get("K", 0) > k:
        return signature
    return replace(signature, fixed=(("M", n), ("N", n), ("K", k)))


def _pitch(name: str, signature: Signature, facts: KernelFacts, constants: Mapping[str, int]) -> int:
    """The one constant that every index of an array multiplies with; 0 where there is none, or a parameter in it."""
    kind = next((parameter.type for parameter in facts.kernel.parameters if parameter.name == name), "")
    if rows := _ROW.search(kind):
        return int(rows[1]) if rows[1].isdecimal() else constants.get(rows[1], 0)
    body, found = facts.expanded, set[int]()
    sizes = {arg.name for arg in signature.arguments if arg.code != "P"}
    uses = list(re.finditer(rf"(?<![\w.]){re.escape(name)}\b\s*(\[)?", body))
    for use in uses:
        if use[1] is None:  # given to a function, or moved
            return 0
        index = body[use.end() : closing(body, use.end() - 1)]
        if sizes & set(map(path_of, _PATH.findall(index))):
            return 0
        factors = {*_BEFORE.findall(index), *_BEHIND.findall(index)}
        values = {int(word) if word.isdecimal() else constants.get(word, 0) for word in factors} - {0}
        if len(values) != 1:
            return 0
        found |= values
    return found.pop() if len(found) == 1 else 0
