"""What parameters without a meaning are where host code passes one of M, N and K for them, as it does for strides."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.kernel.signature import Signature

_EXTENTS = ("M", "N", "K")


def as_passed(signature: Signature) -> Signature | None:
    """The signature in which each such parameter is the extent that the launch passes twice; None where one is not."""
    passed = {arg.at_launch: arg.role for arg in signature.arguments if arg.role in _EXTENTS and arg.at_launch}
    arguments = tuple(
        arg if arg.role or arg.code not in tuple("iIqQ") else replace(arg, role=passed.get(arg.at_launch, ""))
        for arg in signature.arguments
    )
    found = replace(signature, arguments=arguments)
    return None if found.unknown or not passed else found
