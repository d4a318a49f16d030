"""Which pointer parameters a kernel writes, as far as its text shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ASSIGNS = r"\s*(?:[-+*/]|<<|>>)?=(?!=)"
_WRITERS = r"(?:atomic\w+|\w*[sS]tore\w*|\w*STORE\w*|\w*[wW]rite\w*|__stcs|__stcg|__stwt|__stwb|\w*[eE]pilogue\w*)"


def written(names: Sequence[str], body: str) -> set[str]:
    """Those of ``names`` that ``body`` writes through, itself or by a pointer made of it."""
    found = set()
    for name in names:
        if any(_is_written(each, body) for each in {name, *_aliases(name, body)}):
            found.add(name)
    return found


def _aliases(name: str, body: str) -> set[str]:
    """Pointers declared from ``name``: ``float* c = C + offset;``."""
    known, new = {name}, {name}
    while new:
        group = "|".join(map(re.escape, new))
        declared = re.findall(rf"(?:[*&]|\bauto\b)[\s\w]*?\b(\w+)\s*(?:=|\{{)[^;]*?\b(?:{group})\b[^;]*;", body)
        new = set(declared) - known
        new = {each for each in new if not _points_to_const(each, body)}
        known |= new
        if len(known) > 64:
            break
    return known - {name}


def _points_to_const(name: str, body: str) -> bool:
    """Whether a pointer is declared so that nothing is written through it: ``const int* words = (const int*)A;``."""
    word = re.escape(name)
    return re.search(rf"\bconst\s+[\w:]+(?:\s+\w+)?\s*\*\s*(?:\w*restrict\w*\s+)?{word}\s*[={{]", body) is not None


def _is_written(name: str, body: str) -> bool:
    it = re.escape(name)
    brackets = r"(?:\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]|\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\))"
    patterns = (
        rf"(?<![\w.>]){it}\s*{brackets}+(?:\.\w+)?{_ASSIGNS}",  # C[i] =, C(i, j) = of a macro
        rf"(?:^|[;{{}}():?,]|\b(?:else|do)\b)\s*\*\s*\(?\s*{it}\b[^;=]*\)?{_ASSIGNS}",  # *C =, *(C + i) =
        rf"_cast\s*<[^<>]*>\s*\([^;=]*\b{it}\b[^;=]*\)[^;=]*{_ASSIGNS}",  # reinterpret_cast<float4*>(&C[i])[0] =
        rf"\(\s*\w+\s*\*\s*\)[^;=]*\b{it}\b[^;=]*\)?{_ASSIGNS}",  # *(float4*)(C + i) =
        rf"\b[A-Z_0-9]*(?:FLOAT|HALF|LD|ST|FETCH|VEC|INT)\w*\s*\(\s*{it}\b[^;=]*\)[^;=]*{_ASSIGNS}",  # FLOAT4(C[i]) =
        rf"\b{_WRITERS}\s*(?:<[^<>;]*>)?\s*\(\s*&?\s*{it}\b",  # atomicAdd(&C[i], wmma::store_matrix_sync(C + i
    )
    return any(re.search(pattern, body) for pattern in patterns)
