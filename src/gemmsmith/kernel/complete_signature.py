"""A signature as a whole: sizes that its source fixes where no parameter is one; no role lacks or stands twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.fixed_extents import fixed_extents, fixed_names, padded_rows
from gemmsmith.kernel.signature import Signature, signature_hint

_EXTENTS = ("M", "N", "K")


def complete(signature: Signature, body: str, constants: Mapping[str, int], macros: str) -> Signature:
    check_pointers(signature)
    given = [arg.role for arg in signature.arguments if arg.role in _EXTENTS]
    square = len(given) == 1 and not any(not a.role and a.code != "P" for a in signature.arguments)
    if given or any(not a.role and a.code in tuple("iIqQhH") for a in signature.arguments):
        return replace(signature, square=square)
    fixed = fixed_extents(signature, body, constants)
    if not fixed:
        raise SignatureError(
            f"{signature.entry} takes no M, N or K, and its source does not define them",
            "where it names them, give them with -D: -DM=256 -DN=128 -DK=64; where the grid alone tells them, run one "
            "launch: --grid … --block … --args … --expect FILE.py:FUNCTION",
        )
    if padded := padded_rows(fixed, constants, f"{body} {macros}"):
        sizes = " ".join(f"-D{name}=1024" for name in dict.fromkeys(fixed_names(body, constants).values()))
        raise SignatureError(
            f"{signature.entry} has its sizes from constants of its file ({_listed_sizes(fixed)}), and rows that are "
            f"{padded} = {constants[padded]} elements apart: such matrices are not made",
            f"give sizes that need no padding, with -D: {sizes}",
        )
    return replace(signature, fixed=fixed, square=len({extent for _, extent in fixed}) == 1)


def _listed_sizes(fixed: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{role}={extent}" for role, extent in fixed)


def check_pointers(signature: Signature) -> None:
    roles = [arg.role for arg in signature.arguments if arg.role]
    for role in ("A", "B", "C", "D", "alpha", "beta", "batch"):
        if roles.count(role) > 1:
            names = " and ".join(arg.name for arg in signature.arguments if arg.role == role)
            raise SignatureError(f"{signature.entry}: {names} both seem to be {role}", signature_hint(signature, role))
    if not signature.unknown:
        missing = [role for role in "ABC" if not signature.describes(role)]
        if missing:
            raise SignatureError(f"{signature.entry}: no parameter is {', '.join(missing)}", signature_hint(signature))
