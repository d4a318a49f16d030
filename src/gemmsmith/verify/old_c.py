"""Where C is that a user's kernel adds beside a bias, while it writes D.

A plan passes such a kernel the bias for C, as one that adds only one of them. Here C gets an address of its own, in
launches that verify; other callers' launches stay as they are.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from gemmsmith.call.launch_plan import LaunchPlan
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.signature import Signature


def adds_c_and_bias(signature: Signature) -> bool:
    """Whether it writes D, and adds a matrix C and a bias to the product."""
    return signature.has("D") and signature.has("C") and signature.has("bias")


def passing_old_c(plan: LaunchPlan, address: int) -> LaunchPlan:
    """The plan with ``address`` for C; 0: as it is."""
    if not address:
        return plan
    place = _place(plan.kernel.spec.signature)
    if plan.rounds or place is None:
        raise UnsupportedError(f"{plan.kernel.spec.signature.entry} adds C and a bias in launches of parts, or takes "
                               "them in a struct", "gemmsmith.launch runs it with arguments of your own")  # fmt: skip
    arguments = list(plan.kernel.arguments)
    arguments[place] = struct.pack("<Q", address)
    return replace(plan, kernel=replace(plan.kernel, arguments=tuple(arguments)))


def old_c_of(plan: LaunchPlan) -> int:
    """The address that ``passing_old_c`` gave; 0: none."""
    signature = plan.kernel.spec.signature
    place = _place(signature) if adds_c_and_bias(signature) else None
    argument = plan.kernel.arguments[place] if place is not None else b""
    return int.from_bytes(argument, "little") if isinstance(argument, bytes) else 0


def _place(signature: Signature) -> int | None:
    """The number of the parameter C; None for a member of a struct, or a table."""
    found = [i for i, arg in enumerate(signature.arguments) if arg.role == "C"]
    plain = found and not any("." in arg.name for arg in signature.arguments) and not signature.takes_table("C")
    return found[0] if plain else None
