"""Other meanings of a kernel's parameters that a trial can decide between.

Roles that are open are filled in every way; where none is, M, N and K change places: some kernels call the columns m.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

from gemmsmith.kernel.role_names import SEQUENCE, is_batch, words
from gemmsmith.kernel.roles import EXTENTS, TIED
from gemmsmith.kernel.signature import EVERY_LD, Signature, with_roles

_LEADING = ("lda", "ldb", "ldc")
PARTS, PART = "2-M%2", "M//(2-M%2)"  # of the rows: how many, and the rows of each
_SECOND = f"2-({PART})%2"
_PARTS_OF = {2: (PARTS, PART), 3: (PARTS, _SECOND, f"M//(({PARTS})*({_SECOND}))")}
ROW_PARTS = frozenset(part for parts in _PARTS_OF.values() for part in parts)
_ELEMENT_BYTES = {"float": 4, "int": 4, "double": 8, "half": 2, "__half": 2, "__nv_bfloat16": 2}
_PITCH = frozenset(("stride", "pitch", "ld", "leading"))
_REALS = ("f", "d", "e", "bf16")  # codes of scalars


def readings(signature: Signature) -> Iterator[Signature]:
    """Every other meaning of the parameters that is worth a trial, the likeliest first."""
    if signature.unknown:
        yield from _samples_as_rows(signature)
        yield from _side_and_pitch(signature)
        yield from _completed(signature)
    else:
        yield from _in_bytes(signature)
        yield from _permuted(signature)
    yield from _tied(signature)
    yield from _flattened(signature)


def _samples_as_rows(signature: Signature) -> Iterator[Signature]:
    """A layer's ``batch_size, in_features, out_features``: one product, whose rows are the samples of a batch."""
    batch = [arg for arg in signature.arguments if arg.role == "batch"]
    numbers = [arg for arg in signature.unknown if arg.code in tuple("iIqQ")]
    if len(batch) == 1 and len(numbers) == 2 and not any(signature.has(role) for role in EXTENTS):
        arguments = tuple(replace(arg, role="M") if arg in batch else arg for arg in signature.arguments)
        yield from _completed(replace(signature, arguments=arguments))


def _side_and_pitch(signature: Signature) -> Iterator[Signature]:
    """Square matrices with one side, and how far the rows of all of them are apart: ``size`` and ``stride``."""
    numbers = signature.unknown
    pitches = [arg for arg in numbers if _PITCH & set(words(arg.name))]
    if len(numbers) != 2 or len(pitches) != 1 or any(arg.code not in tuple("iIqQ") for arg in numbers):
        return
    if not any(signature.has(role) for role in (*EXTENTS, *_LEADING)):
        roles = {arg.name: EVERY_LD if arg in pitches else "N" for arg in numbers}
        arguments = tuple(replace(arg, role=roles.get(arg.name, arg.role)) for arg in signature.arguments)
        yield replace(signature, arguments=arguments, square=True)


def _in_bytes(signature: Signature) -> Iterator[Signature]:
    """Pitches as ``cudaMallocPitch`` returns them, which a function of the kernel multiplies with rows."""
    sizes = {role: _ELEMENT_BYTES.get(signature.ctype(role.upper()[2:]), 0) for role in _LEADING}
    formulas = {role: f"{size}*{role}" for role, size in sizes.items() if size}
    arguments = tuple(
        replace(arg, role=formulas.get(arg.role, arg.role)) if "pitch" in arg.name.lower() else arg
        for arg in signature.arguments
    )
    if arguments != signature.arguments:
        yield replace(signature, arguments=arguments)


def _flattened(signature: Signature) -> Iterator[Signature]:
    """Rows in two or three parameters, as [B, T, C] and [B, I, J, L] have them: M is B·T. Where M is even B is 2, so
    that all are seen to count.

    Either M, N and K are known, and M is the rows of one of B matrices; or B and T are named so, and the other two are
    N and K in either order; or M, N and K are not all named, and the first of four or five are the rows.
    """
    integers = [i for i, arg in enumerate(signature.arguments) if arg.code in tuple("iIqQ") and not arg.table
                and (not arg.role or arg.role in (*EXTENTS, "batch"))]  # fmt: skip
    names = {i: signature.arguments[i].name for i in integers}
    if len(integers) not in (4, 5) or signature.fixed:
        return
    if any(not arg.role for i, arg in enumerate(signature.arguments) if i not in integers):
        return
    for rows, order in product(_rows(signature, integers, names), ("KN", "NK")):
        inner = dict(zip((i for i in integers if i not in rows), order, strict=True))
        roles = inner | dict(zip(rows, _PARTS_OF[len(rows)], strict=True))
        yield replace(signature, square=False, arguments=tuple(
            replace(arg, role=roles.get(i, arg.role)) for i, arg in enumerate(signature.arguments)))  # fmt: skip


def _rows(signature: Signature, integers: list[int], names: dict[int, str]) -> list[list[int]]:
    """Which integers may be the rows together, the likeliest first."""
    first = [i for i in integers if is_batch(names[i], short=True)]
    others = [i for i in integers if i not in first]
    found = []
    if len(integers) == 4 and len(first) == 1:
        named = [i for i in others if signature.arguments[i].role == "M"]
        if sorted(signature.arguments[i].role for i in others) != sorted(EXTENTS):
            named = [i for i in others if "".join(words(names[i])) in SEQUENCE]
        found += [[*first, *named]] if len(named) == 1 else []
    if {signature.arguments[i].role for i in integers} >= set(EXTENTS):  # M, N and K are named so
        return found
    return [*found, *([integers[:-2]] if integers[:-2] not in found else [])]


def _completed(signature: Signature) -> Iterator[Signature]:
    signature = _with_passed_reals(signature)
    pointers = [arg.name for arg in signature.unknown if arg.code == "P"]
    flags = [arg.name for arg in signature.unknown if arg.code == "?"]  # "this is the first launch", and the like
    numbers = [arg.name for arg in signature.unknown if arg.code not in ("P", "?")]
    lacking = [role for role in "ABC" if not signature.describes(role)]
    extents = [role for role in EXTENTS if not signature.has(role)]
    leading = [role for role in _LEADING if not signature.has(role)]
    if len(numbers) == len(extents) + len(leading):  # each of them has one: not a flag or a count
        extents += leading
    if len(pointers) == len(lacking) + 1 and len(lacking) == 2 and not signature.has("bias"):
        lacking.append("bias")  # of a linear layer
    if len(pointers) != len(lacking) or len(numbers) > len(extents):
        return
    if (side := _one_side(signature)) is not None:
        yield side
    if any(arg.code not in tuple("iIqQhH") for arg in signature.unknown if arg.code not in ("P", "?")):
        return
    orders = permutations(extents, len(numbers)) if numbers else iter([()])
    operands = [tuple(lacking)] if "bias" in lacking else list(permutations(lacking))
    for given in orders:
        for matrices, values in product(operands, product("10", repeat=len(flags))):
            roles = dict(zip((*numbers, *pointers, *flags), (*given, *matrices, *values), strict=True))
            arguments = tuple(replace(a, role=roles.get(a.name, a.role)) for a in signature.arguments)
            all_extents = {a.role for a in arguments if a.role in EXTENTS}
            yield replace(signature, arguments=arguments, square=len(all_extents) == 1)


def _with_passed_reals(signature: Signature) -> Signature:
    """The signature where a real number without a meaning is the one that host code passes: a slope, an epsilon."""
    arguments = tuple(replace(arg, role=arg.passed) if not arg.role and arg.code in _REALS else arg
                      for arg in signature.arguments)  # fmt: skip
    return replace(signature, arguments=arguments)


def _tied(signature: Signature) -> Iterator[Signature]:
    """One of two sizes as two of M, N and K, the likeliest first: B is square, then A, then C."""
    integers = [i for i, arg in enumerate(signature.arguments)
                if arg.role in EXTENTS or (not arg.role and arg.code in tuple("iIqQhH"))]  # fmt: skip
    others = [arg for i, arg in enumerate(signature.arguments) if i not in integers and not arg.role]
    if len(integers) != 2 or others or signature.fixed:
        return
    for tied in TIED:
        single = next(role for role in EXTENTS if role not in tied)
        for given in ((single, tied[0]), (tied[0], single)):
            roles = dict(zip(integers, given, strict=True))
            arguments = tuple(replace(a, role=roles.get(i, a.role)) for i, a in enumerate(signature.arguments))
            yield replace(signature, arguments=arguments, square=False, tied=tied)


def _one_side(signature: Signature) -> Signature | None:
    """Square matrices as structs of a pointer and one number each, which is the side of all."""
    sides = [arg for arg in signature.unknown if "." in arg.name and arg.code in tuple("iIqQ")]
    names = {arg.name.rpartition(".")[2] for arg in sides}
    if len(sides) != 3 or len(names) != 1 or sides != list(signature.unknown) or _given(signature):
        return None
    arguments = tuple(replace(arg, role="N") if arg in sides else arg for arg in signature.arguments)
    return replace(signature, arguments=arguments, square=True)


def _given(signature: Signature) -> list[str]:
    return [role for role in EXTENTS if signature.has(role)]


def _permuted(signature: Signature) -> Iterator[Signature]:
    given = _given(signature)
    if len(given) < 2 or signature.fixed:
        return
    for order in permutations(EXTENTS, len(given)):
        if list(order) != given:
            roles = dict(zip(given, order, strict=True))
            arguments = tuple(replace(a, role=with_roles(a.role, roles)) for a in signature.arguments)
            yield replace(signature, arguments=arguments)
