"""Arrays of pointers beside those to the matrices of a batch: check builds them for A, B and C alone.

if (Rs != nullptr) sum += Rs[blockIdx.z][row * ldr + col];
"""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.launches.launch_values import SiteValues

_BUILT = ("A", "B", "C", "D")


def without_further_table(argument: Argument) -> Argument:
    """The argument without a role, if it is another array of pointers: it holds no bias, whatever it is called."""
    return replace(argument, role="") if argument.table and argument.role not in _BUILT else argument


def may_be_left_out(argument: Argument, text: str) -> bool:
    """Whether it is another array of pointers, and the kernel asks whether it is there: ``if (R)``, ``R != nullptr``,
    ``R ? R[i] : 0``."""
    name = re.escape(argument.name)
    asked = rf"(?<![\w.]){name}\s*(?:[!=]=\s*(?:nullptr|NULL|0)\b|\?|&&)|\bif\s*\(\s*!?\s*{name}\s*\)"
    return argument.table and re.search(asked, text) is not None


def left_out_notes(signature: Signature, site: SiteValues | None) -> tuple[FoundValue, ...]:
    """What the report says of those that are left out."""
    return () if site is None else tuple(
        FoundValue("arguments", f"{arg.name} = nullptr: what it adds is not judged", site.site.shown(), site.site.text)
        for arg in signature.arguments if arg.table and arg.role == "0"
    )  # fmt: skip
