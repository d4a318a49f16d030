"""The element types of a user's kernel: of A and B, and of C."""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import element_in_casts, element_of_bits, holds_bytes, parameter_type
from gemmsmith.kernel.signature import SCRATCH, Argument, Signature
from gemmsmith.problem import OUTPUTS, TF32, DType


def element_types(
    signature: Signature, body: str = "", aliases: Mapping[str, str] | None = None
) -> tuple[DType, DType]:
    """The type of A and B, and that of C; raises for types that cannot be verified."""
    maps = [arg for arg in signature.arguments if arg.role in ("mapA", "mapB", "mapC")]
    pointers = [arg for arg in signature.arguments if arg.code == "P" and arg.role not in ("bias", "0", SCRATCH)] + maps
    kinds = {arg.name: _element(arg, body, aliases or {}) for arg in pointers}
    shown = ", ".join(f"{arg.name} {arg.ctype}*" for arg in pointers)
    known: dict[str, DType] = {}
    for arg in pointers:
        kind = kinds[arg.name]
        if kind is None:
            hint = "cast it to its element type in the kernel, or declare it so" if arg.ctype == "void" else _known()
            raise SignatureError(f"{signature.entry}: {arg.name} points to {arg.ctype}", hint)
        known[arg.name] = kind
    by_role = {arg.role.removeprefix("map"): known[arg.name] for arg in pointers}
    inputs = [known[arg.name] for arg in pointers if arg.role.removeprefix("map") in ("A", "B")]
    inputs = inputs or [known[pointers[0].name]]
    if any(holds_bytes(arg.ctype, body) for arg in pointers if arg.role in ("A", "B")):
        raise SignatureError(
            f"{signature.entry} takes {shown}, with four bytes in each element, which is not supported", _known()
        )
    output = by_role.get(signature.output) or known[pointers[-1].name]
    if len(set(inputs)) > 1:
        raise SignatureError(
            f"{signature.entry} takes {shown}: A and B differ in type, which is not supported", _known()
        )
    if output not in OUTPUTS.get(inputs[0], ()) or by_role.get("C", output) != output:
        raise SignatureError(f"{signature.entry} takes {shown}, which is not supported", _known())
    return inputs[0], output


def _known() -> str:
    kinds = (f"{', '.join(d.name for d in outs)} from {dtype}" for dtype, outs in OUTPUTS.items() if dtype != TF32)
    return f"results: {'; '.join(kinds)}"


def _element(argument: Argument, body: str, aliases: Mapping[str, str]) -> DType | None:
    if argument.ctype == "void":
        return element_in_casts(argument.name, body, aliases)
    kind = parameter_type(argument.ctype, {})
    return kind.element or element_of_bits(kind.name, body)
