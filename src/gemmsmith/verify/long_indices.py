"""Whether a kernel's author computes indices in 64 bits: who does means to go beyond 2³¹ elements."""

from __future__ import annotations

import re

_LONG = re.compile(r"\b(?:size_t|ptrdiff_t|u?int64_t|long)\b(?!\s*(?:const\s*)?\*)")  # no pointers to eight bytes
_COUNTER = re.compile(r"\bfor\s*\(\s*[\w:\s]*?\b(?:size_t|u?int64_t|long)\s+\w+\s*=\s*0\w*\s*;")  # not of blocks
_SHARED_ADDRESS = re.compile(r"\b(?:size_t|uint64_t)\s+\w+\s*=[^;]*__cvta_generic_to_shared")
_CAST_ELEMENT = re.compile(r"\(\s*(?:std::)?(?:u?int64_t|long(?:\s+long)?(?:\s+int)?)\s*\)\s*\w+\s*\[")
_SUM = re.compile(r"\b(?:std::)?(?:u?int64_t|(?:unsigned\s+)?long(?:\s+long)?)\s+(\w+)\s*=\s*0\w*\s*;")
# ``size_t row = blockIdx.y * TILE;``: the number of a row of C, no index of an element yet
_PLACE = re.compile(
    r"\b(?:const\s+)?(?:std::)?(?:size_t|u?int64_t)\s+(?:const\s+)?(\w+)\s*=\s*((?:blockIdx|threadIdx)\.[xyz][^;,=]*);"
)


def computes_long_indices(code: str) -> bool:
    """Whether ``code``, without comments, has 64-bit numbers that may be indices of elements.

    Counters of loops, sums, elements, addresses in shared memory and places of a thread in C are none, as long as nothing is multiplied
    with such a place: ``int m = row + ty;`` goes on in 32 bits.
    """
    code = _CAST_ELEMENT.sub(" [", _COUNTER.sub(" ", _SHARED_ADDRESS.sub(" ", code)))
    for match in list(_SUM.finditer(code)):  # ``long long sum = 0;``: of elements, where no index has it
        if not re.search(rf"\[[^\]]*\b{match[1]}\b|\+=?\s*{match[1]}\b", code):
            code = code.replace(match[0], " ")
    for match in list(_PLACE.finditer(code)):
        rest = code.replace(match[0], " ")
        if not re.search(rf"\b{match[1]}\b\s*\)?\s*\*|\*\s*\(?\s*{match[1]}\b", rest):
            code = rest
    return _LONG.search(code) is not None
