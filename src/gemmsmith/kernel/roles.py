"""What each parameter of a user's kernel means: by its name, by its use, or as the user declares.

A pointer that is written is the output. What neither name nor use tells is left open: ``check`` runs the kernel to
find out, and everything else refuses it with the ``--signature`` line to complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gemmsmith.errors import SignatureError, UsageError
from gemmsmith.kernel.axis_strides import stride_roles, strides_named_as_extents
from gemmsmith.kernel.byte_pitches import with_byte_pitches
from gemmsmith.kernel.complete_signature import check_pointers, complete
from gemmsmith.kernel.counted_products import counts_matrices, counts_pointers
from gemmsmith.kernel.expressions import c_as_python
from gemmsmith.kernel.extents_by_name import extents_by_name, samples_of_layer
from gemmsmith.kernel.field_roles import Field, field_roles
from gemmsmith.kernel.fixed_extents import fixed_extents
from gemmsmith.kernel.pointer_roles import pointer_roles
from gemmsmith.kernel.role_evidence import HostArguments, KernelText
from gemmsmith.kernel.role_names import (
    extent_role,
    is_batch,
    is_increment,
    is_side_of_tile,
    leading_of,
    leading_role,
    loops_over_products,
    numbers_a_product,
    pointer_role,
    scalar_role,
)
from gemmsmith.kernel.signature import (
    EVERY_LD,
    ROLES,
    SCRATCH,
    Argument,
    Signature,
    is_formula,
    is_number,
    with_roles,
)
from gemmsmith.kernel.unread_numbers import unread_roles
from gemmsmith.kernel.written_parameter import WrittenParameter, written_parameter

USER_ROLES = (*ROLES, "D", "ldd", "strideD", "batch", SCRATCH, EVERY_LD)
EXTENTS = ("M", "N", "K")
TIED = ("NK", "MK", "MN")  # extents that one parameter may be
_POINTERS = ("A", "B", "C", "D", "bias", SCRATCH)
_LARGEST = 1e9  # of a number that is passed for a parameter whose meaning is not known
_NO_TEXT, _NO_HOST = KernelText(), HostArguments()
_WIDEST = 64  # of the tile of a thread block, as a parameter of its own; products are larger


def recognise(
    entry: str,
    parameters: Sequence[tuple[str, str]],
    text: KernelText = _NO_TEXT,
    host: HostArguments = _NO_HOST,
    declared: str = "",
) -> Signature:
    """The signature of a user's kernel; roles that are not certain stay empty (``Signature.unknown``).

    parameters  (type, name) of each, as written
    declared    the roles in order, from ``--signature``: 'A,B,C,M,N,K'; a number is passed as it is
    """
    found = [
        written_parameter(entry, kind, name, host.texts[i] if i < len(host.texts) else "", text.aliases,
                          host.places[i] if host.places else -1, host.maps)
        for i, (kind, name) in enumerate(parameters)
    ]  # fmt: skip
    if declared:
        return _declared(entry, found, declared)
    pointers = pointer_roles(entry, found, text.body, host.scratch, host.null)
    roles = _roles_by_name(found, pointers, text.body, host.counters)
    roles |= _roles_at_launch(found, roles)
    roles |= _computed_roles(found, roles, host.computed, text.constants)
    integers = {i: p.name for i, p in enumerate(found) if p.type.is_integer and not p.is_pointer}
    roles |= dict.fromkeys(strides_named_as_extents(integers, roles), "")
    roles |= stride_roles(integers, roles, {found[i].name: role for i, role in pointers.items()}, text.body)
    roles |= _numbers_beside_extents(roles, found, host.computed)
    roles |= unread_roles(found, roles, text.unread, {i: _number(t) for i, t in enumerate(host.texts)}, host.for_others)
    roles |= _widths_of_tiles(roles, found, host.computed)
    roles |= _counted_matrices(roles, found, text)
    arguments = [
        Argument(p.name, roles.get(i, ""), p.code, p.type.name, p.at_launch, p.place, p.type.stars > 1,
                 _number(host.computed[i]) if i < len(host.computed) and p.code != "P" else "")
        for i, p in enumerate(found)
    ]  # fmt: skip
    return complete(Signature(entry, tuple(arguments)), text.body, text.constants, text.macros)


def _roles_by_name(
    found: list[WrittenParameter], pointers: dict[int, str], body: str, counters: frozenset[str]
) -> dict[int, str]:
    """Roles of the pointers, and of what is called or used in a way that tells its role."""
    roles = pointers | _scalar_roles(found, body, pointers, counters)
    roles |= _field_roles(found, pointers, set(roles.values()), body)
    sizes = {role: kind.itemsize for i, role in pointers.items() if (kind := found[i].type.element)}
    roles = with_byte_pitches(roles, {i: parameter.name for i, parameter in enumerate(found)}, sizes, body)
    return roles | {i: f"map{parameter.map}" for i, parameter in enumerate(found) if parameter.map}


def _roles_at_launch(found: list[WrittenParameter], known: Mapping[int, str]) -> dict[int, str]:
    """Roles that are still open, by the names of the variables that host code passes."""
    roles = dict(known)
    numbers = {i: p.at_launch for i, p in enumerate(found)
               if p.at_launch and not roles.get(i) and p.type.is_integer and not p.is_pointer}  # fmt: skip
    unclear = {i for i, role in extents_by_name(numbers).items() if not role} if len(numbers) > 1 else set()
    for i, parameter in enumerate(found):
        if not roles.get(i) and parameter.at_launch and i not in unclear:
            roles[i] = _role_at_launch(parameter, {role.removeprefix("map") for role in roles.values()})
    return roles


def _computed_roles(
    found: list[WrittenParameter], known: Mapping[int, str], computed: Sequence[str], constants: Mapping[str, int]
) -> dict[int, str]:
    """Roles that are still open, by what host code computes for the parameter: a formula of M, N and K, a number."""
    roles = dict(known)
    for i, text in enumerate(computed[: len(found)]):
        if not roles.get(i) and found[i].type.is_integer and not found[i].is_pointer:
            roles[i] = _formula(text, {p.at_launch: roles.get(j, "") for j, p in enumerate(found)}, constants)
            if not roles[i] and is_number(text) and set(EXTENTS) <= set(roles.values()):
                roles[i] = text  # a number of parts, a flag: no extent is left that it could be
        elif not roles.get(i) and found[i].code == "?":
            roles[i] = _number(text)  # true or false, as it is launched
    return roles


def _widths_of_tiles(
    known: Mapping[int, str], found: Sequence[WrittenParameter], computed: Sequence[str]
) -> dict[int, str]:
    """Small numbers that are passed for a parameter beside the extent itself."""
    roles = dict(known)
    for i, text in enumerate(computed[: len(found)]):
        if roles.get(i) in EXTENTS and text.isdecimal() and int(text) <= _WIDEST and _is_letter_of(roles, i, found):
            roles[i] = text
    return roles


def _counted_matrices(known: Mapping[int, str], found: Sequence[WrittenParameter], text: KernelText) -> dict[int, str]:
    """The one number that a kernel takes for matrices whose sizes are constants, where it counts them."""
    numbers = [
        i for i, p in enumerate(found) if p.type.is_integer and not p.is_pointer and not is_number(known.get(i, ""))
    ]
    pointers = tuple(Argument(p.name, known.get(i, ""), p.code) for i, p in enumerate(found) if p.is_pointer)
    if len(numbers) != 1 or known.get(numbers[0], "") not in ("", *EXTENTS):
        return {}
    fixed = dict(fixed_extents(Signature("", pointers), text.body, text.constants))
    return {i: "batch" for i in numbers if counts_matrices(found[i].name, text.body, fixed, text.constants)}


def _number(text: str) -> str:
    """A literal of C++ as ``is_number`` has it: "0.5" of 0.5f, "1" of true; empty for anything else."""
    text = {"true": "1", "false": "0"}.get(text.strip(), text.strip())
    if re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?", text) is None:
        return ""
    value = float(text.rstrip("fF"))
    return f"{value:.12f}".rstrip("0").rstrip(".") if abs(value) < _LARGEST else ""


def _numbers_beside_extents(
    roles: Mapping[int, str], found: Sequence[WrittenParameter], computed: Sequence[str]
) -> dict[int, str]:
    """Numbers that the launch passes as such, where as many other parameters of unknown meaning are left as extents:
    the bytes of a tile, for example."""
    missing = set(EXTENTS) - set(roles.values())
    open_ = [i for i, p in enumerate(found) if not roles.get(i) and p.type.is_integer and not p.is_pointer]
    numbers = {i: computed[i] for i in open_ if i < len(computed) and is_number(computed[i])}
    return numbers if missing and len(open_) - len(numbers) == len(missing) else {}


def _is_letter_of(roles: Mapping[int, str], place: int, found: Sequence[WrittenParameter]) -> bool:
    """Whether another parameter is called by the letter of this one's extent, and this one is not."""
    letter = roles[place].lower()
    others = (p.name.lower() for i, p in enumerate(found) if i != place and roles.get(i) == roles[place])
    return letter in others and found[place].name.lower() != letter


def _declared(entry: str, found: list[WrittenParameter], declared: str) -> Signature:
    roles = [role.strip() for role in declared.split(",")]
    shown = ", ".join(p.name for p in found)
    if len(roles) != len(found):
        raise SignatureError(
            f"--signature has {len(roles)} roles, but {entry} takes {len(found)} parameters: {shown}",
            "give one role for each, in this order: A, B, C, M, N, K, lda, alpha, beta, bias, …",
        )
    arguments = []
    tied = next((role for role in roles if role in TIED), "")
    roles = [role[0] if role == tied else role for role in roles]
    for word, parameter in zip(roles, found, strict=True):
        role = word.removeprefix("map") if parameter.map else word  # "mapA" is what messages call a map of A
        if role not in USER_ROLES and not is_number(role) and not is_formula(role):
            raise SignatureError(f"--signature: unknown role {role!r} for {parameter.name}",
                                 f"roles: {', '.join(USER_ROLES)}; NK of one size for both; a number; or a formula: "
                                 "4*K")  # fmt: skip
        if parameter.map:
            arguments.append(_map_argument(entry, parameter, role))
            continue
        if parameter.is_pointer != (role in _POINTERS) and role != "0":
            kind = "a pointer" if parameter.is_pointer else "a number"
            needed = "a pointer" if role in _POINTERS else "a number"
            raise SignatureError(
                f"--signature says {word} for parameter {parameter.name}, but {parameter.name} is {kind}, not {needed}",
                f"give the roles in the order of the parameters: {shown}",
            )
        arguments.append(Argument(parameter.name, role, parameter.code, parameter.type.name, "", parameter.place,
                                  parameter.type.stars > 1))  # fmt: skip
    signature = Signature(entry, tuple(arguments))
    extents = {arg.role for arg in arguments if arg.role in EXTENTS}
    check_pointers(signature)
    return replace(signature, square=len(extents) == 1 and not tied, tied=tied)


def _map_argument(entry: str, parameter: WrittenParameter, role: str) -> Argument:
    if role not in ("A", "B", "C"):
        raise SignatureError(f"--signature says {role} for {parameter.name} of {entry}, but it is a tensor map",
                             "a tensor map is A, B or C")  # fmt: skip
    return Argument(parameter.name, f"map{role}", parameter.code, parameter.type.name, "", parameter.place)


# --- numbers


def _scalar_roles(
    found: list[WrittenParameter], body: str, pointers: dict[int, str], counters: frozenset[str]
) -> dict[int, str]:
    matrices = {found[i].name: role for i, role in pointers.items()}
    numbers = [i for i, p in enumerate(found) if not p.is_pointer and not p.map and "." not in p.name]
    roles: dict[int, str] = {}
    for i in numbers:
        is_products = is_batch(found[i].name) and not is_side_of_tile(found[i].name, body)
        roles[i] = "batch" if is_products else scalar_role(found[i].name)
        if found[i].type.is_integer and is_increment(found[i].name):
            roles[i] = "1"  # vectors without gaps
        if roles[i] == "batch" and numbers_a_product(found[i].name, found[i].at_launch, body, counters):
            roles[i] = "0"
    batched = "batch" in roles.values() or "blockIdx.z" in body
    for i in numbers:
        if not roles[i] and found[i].type.is_integer:
            roles[i] = leading_role(found[i].name, batched) or leading_of(found[i].name, matrices)
    if "D" not in pointers.values():  # an output that is called D is C, where no other matrix is added
        roles = {i: {"ldd": "ldc", "strideD": "strideC"}.get(role, role) for i, role in roles.items()}
    for i in numbers:  # a stride beside the same operand's leading dimension is a batch's
        if roles[i].startswith("ld") and list(roles.values()).count(roles[i]) > 1:
            roles[i] = leading_role(found[i].name, True)
    reals = [i for i in numbers if not roles[i] and not found[i].type.is_integer]
    for i, role in zip(reals, [r for r in ("alpha", "beta") if r not in roles.values()], strict=False):
        roles[i] = role if len(reals) <= 2 and found[i].name.lower() in "ab" else ""
    extents = [i for i in numbers if not roles[i] and found[i].type.is_integer]
    samples = [i for i in numbers if roles[i] == "batch"] if "blockIdx.z" not in body else []
    if len(samples) == 1 and len(extents) == 2:  # the rows of a layer are the samples of a batch
        roles |= samples_of_layer({i: found[i].name for i in (*samples, *extents)}, matrices)
        extents = [i for i in extents if not roles[i]]
    if len(extents) == 4 and "batch" not in roles.values():
        tables = [found[i].name for i in pointers if found[i].type.stars > 1]
        own = [i for i in extents if is_batch(found[i].name, short=True)
               and ("blockIdx.z" in body or loops_over_products(found[i].name, body))]  # fmt: skip
        own = own or [i for i in extents if counts_pointers(found[i].name, tables, body)]
        if len(own) == 1 and _extents_of(found, [i for i in extents if i not in own]) == set(EXTENTS):
            roles[own[0]] = "batch"  # B beside M, N and K
            extents.remove(own[0])
    if len(extents) == 1 and any("." in p.name and p.type.is_integer and not p.is_pointer for p in found):
        return roles | {extents[0]: ""}  # the matrices tell their sizes; this may be a tile's
    return roles | extents_by_name({i: found[i].name for i in extents}, matrices)


def _extents_of(found: list[WrittenParameter], places: list[int]) -> set[str]:
    return set(extents_by_name({i: found[i].name for i in places}).values())


def _field_roles(
    found: list[WrittenParameter], pointers: Mapping[int, str], taken: set[str], body: str
) -> dict[int, str]:
    fields = [Field(i, p.name, p.place, p.is_pointer, p.type.is_integer) for i, p in enumerate(found) if "." in p.name]
    return field_roles(fields, pointers, taken, "blockIdx.z" in body)


def _role_at_launch(parameter: WrittenParameter, taken: set[str]) -> str:
    """What the argument's name in host code says, where the parameter's own says nothing."""
    if parameter.is_pointer:
        role = pointer_role(parameter.at_launch)
    else:
        role = scalar_role(parameter.at_launch) or (
            extent_role(parameter.at_launch) if parameter.type.is_integer else ""
        )
    return "" if role in taken else role


def _formula(text: str, roles: Mapping[str, str], constants: Mapping[str, int]) -> str:
    """What host code computes from the sizes for a parameter, as a formula of M, N and K; empty if it is anything else.

    ``roles`` are those of the variables that the launch passes.
    """
    names = {name: role for name, role in roles.items() if role in EXTENTS}
    names |= {name: str(value) for name, value in constants.items() if name not in names}
    try:
        formula = with_roles(c_as_python(text), names)
    except UsageError:
        return ""
    return formula if is_formula(formula) else ""
