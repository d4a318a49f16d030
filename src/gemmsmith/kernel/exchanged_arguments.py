"""Leading dimensions, strides and scalars that host code passes for one another: ldb for the kernel's lda.

The names at both ends tell it. A launch that exchanges the matrices as well, as for column-major ones, is no mistake:
ldb goes with B.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.kernel.role_names import leading_role, pointer_role, scalar_role
from gemmsmith.kernel.signature import Argument, Signature

_OF_MATRIX = re.compile(r"(ld|stride)([abcdABCD])")
_SCALARS = ("alpha", "beta")


def with_exchanged_arguments(signature: Signature) -> Signature:
    """The signature with what the launch passes in place of what the parameters' names say, where it is an exchange:
    each value is passed once, for another parameter."""
    kernels = {
        host.lower(): arg.role.lower()
        for arg in signature.arguments
        if arg.role in ("A", "B", "C", "D") and (host := pointer_role(_name(arg)))
    }
    passed = [_passed(arg, kernels) for arg in signature.arguments]
    before = [arg.role for arg in signature.arguments if _is_exchangeable(arg.role)]
    if sorted(before) != sorted(role for role in passed if _is_exchangeable(role)):
        return signature
    arguments = tuple(replace(arg, role=role) if _is_exchangeable(role) else arg
                      for arg, role in zip(signature.arguments, passed, strict=True))  # fmt: skip
    return replace(signature, arguments=arguments)


def exchanges_scalars(signature: Signature) -> bool:
    """Whether alpha is passed for beta: where beta = 0 and alpha = 1, such a kernel leaves C as it is."""
    return any(arg.role in _SCALARS and scalar_role(arg.name) not in ("", arg.role) for arg in signature.arguments)


def _is_exchangeable(role: str) -> bool:
    return role in _SCALARS or _OF_MATRIX.fullmatch(role) is not None


def _passed(arg: Argument, kernels: dict[str, str]) -> str:
    """The role of what the launch passes, in the kernel's own letters; that of the parameter where it is no exchange
    or the names do not tell."""
    name = _name(arg)
    if arg.role in _SCALARS:
        return scalar_role(name) or arg.role
    match = _OF_MATRIX.fullmatch(arg.role)
    if match is None:
        return arg.role
    told = _OF_MATRIX.fullmatch(leading_role(name, batched=match[1] == "stride"))
    if told is None or told[1] != match[1] or told[2].lower() not in kernels:
        return arg.role
    letter = kernels[told[2].lower()]
    return match[1] + (letter.upper() if match[1] == "stride" else letter)


def _name(arg: Argument) -> str:
    """The variable that the launch passes; empty for anything else."""
    text = re.sub(r"^\(\s*[\w:\s*]+\)\s*", "", arg.at_launch).strip()
    return text if text.isidentifier() else ""
