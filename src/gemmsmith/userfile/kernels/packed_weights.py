"""Kernels that unpack weights of 4 bits from integers (GPTQ, AWQ): check alone judges them, as products with scales."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.pointer_use import written
from gemmsmith.problem import INT8, INT32, UINT8
from gemmsmith.userfile.text.names_derived import derived_names
from gemmsmith.userfile.text.parts import KernelParameter

_NIBBLE = re.compile(r"&\s*(?:0x0*[fF]|15|0x0*[fF]0|0x(?:0[fF]){2,4}|0x(?:000[fF]){2})[uUlL]*\b")
_ELEMENT = re.compile(r"\w\s*\[[^;]*")
_SHIFT = re.compile(r">>=?\s*[\w(]")


def refuse_packed(entry: str, parameters: Sequence[KernelParameter], body: str, aliases: Mapping[str, str]) -> None:
    """Raise for a kernel that multiplies real numbers with integers which it takes apart, four bits at a time."""
    types = {each.name: parameter_type(each.type, aliases) for each in parameters}
    kinds = {name: kind.element for name, kind in types.items() if kind.stars and kind.element is not None}
    stored = written(list(kinds), body)
    integers = [name for name, kind in kinds.items() if kind in (INT32, INT8, UINT8)]
    packed = [name for name in integers if types[name].const]
    real = [name for name in kinds if name not in integers and name not in stored]
    if not packed or not real or not unpacks_nibbles(body, packed):
        return
    raise SignatureError(
        f"{entry} unpacks numbers of 4 bits from {' and '.join(packed)}: its types do not say how they are packed, "
        "so no such operands are made and its product is not judged",
        "pack operands of your own and run one launch: gemmsmith.launch, or --grid … --block … --args '…' --expect "
        "FILE.py:FUNCTION, which computes what is expected",
    )


def unpacks_nibbles(body: str, packed: Sequence[str]) -> bool:
    """Whether a kernel takes apart numbers of the arrays ``packed``, four bits at a time."""
    return bool(_SHIFT.search(body) and _NIBBLE.search(_without_places(body, packed)))


def _without_places(body: str, packed: Sequence[str]) -> str:
    """``body`` without a thread's place in a tile of 16: ``threadIdx.x & 15``, ``(lane >> 2) & 15``."""
    read = derived_names(body, rf"(?<![\w.])(?:{'|'.join(map(re.escape, packed))})\b")
    places = derived_names(_ELEMENT.sub(" ", body), r"\bthreadIdx\b") - read
    names = "|".join([r"threadIdx\.[xyz]", *sorted(places)])
    return re.sub(rf"(?<![\w.])(?:{names})\s*(?:(?:/|>>|%)\s*\w+\s*)?\)?\s*&\s*\w+", " ", body)
