"""What each parameter of a user's kernel means: by its name, by its use, or as the user declares.

A pointer that is written is the output. What neither name nor use tells is left open: ``check`` runs the kernel to
find out, and everything else refuses it with the ``--signature`` line to complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gemmsmith.errors import SignatureError, UsageError
from gemmsmith.kernel.axis_strides import stride_roles
from gemmsmith.kernel.byte_pitches import with_byte_pitches
from gemmsmith.kernel.complete_signature import check_pointers, complete
from gemmsmith.kernel.expressions import c_as_python
from gemmsmith.kernel.extents_by_name import extents_by_name
from gemmsmith.kernel.field_roles import Field, field_roles, own_name
from gemmsmith.kernel.pointer_use import written
from gemmsmith.kernel.role_names import (
    extent_role,
    is_batch,
    is_side_of_tile,
    is_weight,
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
from gemmsmith.kernel.written_parameter import MapParameter, WrittenParameter, written_parameter

USER_ROLES = (*ROLES, "D", "ldd", "strideD", "batch", SCRATCH, EVERY_LD)
EXTENTS = ("M", "N", "K")
TIED = ("NK", "MK", "MN")  # extents that one parameter may be
_POINTERS = ("A", "B", "C", "D", "bias", SCRATCH)
_LARGEST = 1e9  # of a number that is passed for a parameter whose meaning is not known
_WIDEST = 64  # of the tile of a thread block, as a parameter of its own; products are larger


def recognise(
    entry: str,
    parameters: Sequence[tuple[str, str]],
    body: str = "",
    site_arguments: Sequence[str] = (),
    declared: str = "",
    aliases: Mapping[str, str] | None = None,
    constants: Mapping[str, int] | None = None,
    computed: Sequence[str] = (),
    places: Sequence[int] = (),
    maps: Mapping[str, MapParameter] | None = None,
    scratch: frozenset[str] = frozenset(),
    null: frozenset[str] = frozenset(),
    counters: frozenset[str] = frozenset(),
    macros: str = "",
    unread: frozenset[str] = frozenset(),
    for_others: frozenset[str] = frozenset(),
) -> Signature:
    """The signature of a user's kernel; roles that are not certain stay empty (``Signature.unknown``).

    parameters      (type, name) of each, as written
    body            the kernel's text, without comments
    site_arguments  what host code passes, in order
    declared        the roles in order, from ``--signature``: 'A,B,C,M,N,K'; a number is passed as it is
    aliases         typedefs, template arguments and macros, by name
    constants       integers that the source defines, by name
    places          for each, which of the kernel's own parameters it is, or is a field of
    computed        the same as ``site_arguments``, where a variable is replaced by what it is computed from
    maps            the tensor maps that host code encodes, by the parameter's name
    scratch         the parameters that are arrays for the blocks to share
    null            the pointers that host code leaves out; one that is called bias is given all the same
    counters        variables of host code that loops around the launch count with
    macros          what the macros in the body stand for
    unread          the parameters that the kernel never reads; for_others: variables passed to another kernel, too
    """
    found = [
        written_parameter(entry, kind, name, site_arguments[i] if i < len(site_arguments) else "", aliases or {},
                   places[i] if places else -1, maps or {})
        for i, (kind, name) in enumerate(parameters)
    ]  # fmt: skip
    if declared:
        return _declared(entry, found, declared)
    pointers = _pointer_roles(entry, found, body, scratch, null)
    roles = pointers | _scalar_roles(found, body, pointers, counters)
    roles |= _field_roles(found, pointers, set(roles.values()))
    sizes = {role: kind.itemsize for i, role in pointers.items() if (kind := found[i].type.element)}
    roles = with_byte_pitches(roles, {i: parameter.name for i, parameter in enumerate(found)}, sizes, body)
    roles |= {i: f"map{parameter.map}" for i, parameter in enumerate(found) if parameter.map}
    numbers = {i: p.at_launch for i, p in enumerate(found)
               if p.at_launch and not roles.get(i) and p.type.is_integer and not p.is_pointer}  # fmt: skip
    unclear = {i for i, role in extents_by_name(numbers).items() if not role} if len(numbers) > 1 else set()
    for i, parameter in enumerate(found):
        if not roles.get(i) and parameter.at_launch and i not in unclear:
            roles[i] = _role_at_launch(parameter, {role.removeprefix("map") for role in roles.values()})
    for i, text in enumerate(computed[: len(found)]):
        if not roles.get(i) and found[i].type.is_integer and not found[i].is_pointer:
            roles[i] = _formula(text, {p.at_launch: roles.get(j, "") for j, p in enumerate(found)}, constants or {})
            if not roles[i] and is_number(text) and set(EXTENTS) <= set(roles.values()):
                roles[i] = text  # a number of parts, a flag: no extent is left that it could be
        elif not roles.get(i) and found[i].code == "?":
            roles[i] = _number(text)  # true or false, as it is launched
    integers = {i: p.name for i, p in enumerate(found) if p.type.is_integer and not p.is_pointer}
    roles |= stride_roles(integers, roles, {found[i].name: role for i, role in pointers.items()}, body)
    roles |= _numbers_beside_extents(roles, found, computed)
    roles |= unread_roles(found, roles, unread, {i: _number(t) for i, t in enumerate(site_arguments)}, for_others)
    for i, text in enumerate(computed[: len(found)]):
        if roles.get(i) in EXTENTS and text.isdecimal() and int(text) <= _WIDEST and _is_letter_of(roles, i, found):
            roles[i] = text  # the width of a tile, beside the extent itself
    arguments = [
        Argument(p.name, roles.get(i, ""), p.code, p.type.name, p.at_launch, p.place, p.type.stars > 1,
                 _number(computed[i]) if i < len(computed) and p.code != "P" else "")
        for i, p in enumerate(found)
    ]  # fmt: skip
    return complete(Signature(entry, tuple(arguments)), body, constants or {}, macros)


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
            raise SignatureError(f"--signature: {parameter.name} is {kind}, which {role} cannot be")
        arguments.append(Argument(parameter.name, role, parameter.code, parameter.type.name, "", parameter.place,
                                  parameter.type.stars > 1))  # fmt: skip
    signature = Signature(entry, tuple(arguments))
    extents = {arg.role for arg in arguments if arg.role in EXTENTS}
    check_pointers(signature)
    return replace(signature, square=len(extents) == 1 and not tied, tied=tied)


def _map_argument(entry: str, parameter: WrittenParameter, role: str) -> Argument:
    if role not in ("A", "B", "C"):
        raise SignatureError(f"--signature: {parameter.name} of {entry} is a tensor map, which {role} cannot be",
                             "a tensor map is A, B or C")  # fmt: skip
    return Argument(parameter.name, f"map{role}", parameter.code, parameter.type.name, "", parameter.place)


# --- pointers


def _pointer_roles(
    entry: str, found: list[WrittenParameter], body: str, scratch: frozenset[str] = frozenset(),
    null: frozenset[str] = frozenset(),
) -> dict[int, str]:  # fmt: skip
    shared = {i: SCRATCH for i, p in enumerate(found) if p.is_pointer and p.name in scratch}
    shared |= {i: "0" for i, p in enumerate(found) if p.is_pointer and p.name in null and not pointer_role(p.name)}
    pointers = {i: p.name for i, p in enumerate(found) if p.is_pointer and i not in shared}
    mapped = {p.map for p in found if p.map}
    if mapped and (pointers or "C" in mapped):
        return shared | _roles_beside_maps(found, pointers, mapped, body)
    if len(pointers) < 3:
        names = ", ".join(pointers.values()) or "none"
        arguments = f"{found[0].name}=…" if found else ""
        raise SignatureError(
            f"{entry} is not a matrix product: it takes {len(pointers)} pointers ({names}), not A, B and C",
            f"gemmsmith.launch runs any kernel; on the command line: --grid … --block … --args '{arguments}'",
        )
    free = [i for i in pointers if not found[i].type.const]
    return shared | _roles_by_use(pointers, free, written([pointers[i] for i in free], body))


def _roles_beside_maps(
    found: list[WrittenParameter], pointers: dict[int, str], mapped: set[str], body: str
) -> dict[int, str]:  # fmt: skip
    """Roles of the pointers of a kernel that takes other matrices as tensor maps; what neither tells stays open."""
    named = {i: pointer_role(name) or pointer_role(own_name(name)) for i, name in pointers.items()}
    roles = {i: role if role in ("A", "B", "bias") and role not in mapped else "" for i, role in named.items()}
    if "C" not in mapped:
        free = [i for i in pointers if not found[i].type.const]
        used = written([pointers[i] for i in free], body)
        output = _output(named, free, [i for i in free if pointers[i] in used])
        if output is not None:
            roles[output] = "C"
    lacking = [role for role in "AB" if role not in mapped and role not in roles.values()]
    open_ones = [i for i in pointers if not roles[i]]
    if len(open_ones) == len(lacking) == 1:
        roles[open_ones[0]] = lacking[0]
    return roles


def with_written(signature: Signature, names: set[str]) -> Signature:
    """The roles of the pointers where the compiled kernel shows that it writes ``names``, and no others."""
    pointers = {
        i: arg.name for i, arg in enumerate(signature.arguments) if arg.code == "P" and arg.role not in (SCRATCH, "0")
    }
    roles = _roles_by_use(pointers, [i for i in pointers if pointers[i] in names], names)
    arguments = tuple(replace(arg, role=roles.get(i, arg.role)) for i, arg in enumerate(signature.arguments))
    return replace(signature, arguments=arguments)


def _roles_by_use(pointers: dict[int, str], free: list[int], used: set[str]) -> dict[int, str]:
    """Roles of pointers by their index. ``free``: those that may be written; ``used``: names that are."""
    named = {i: pointer_role(name) or pointer_role(own_name(name)) for i, name in pointers.items()}
    output = _output(named, free, [i for i in free if pointers[i] in used])
    if output is None:
        return {i: role if list(named.values()).count(role) == 1 else "" for i, role in named.items()}
    named |= dict.fromkeys(_biases([i for i in pointers if i != output], pointers, named), "bias")
    roles = {i: "bias" for i in pointers if named[i] == "bias" and i != output}
    inputs = [i for i in pointers if i != output and i not in roles]
    a, b = ([i for i in inputs if named[i] == role] for role in "AB")
    addend = [i for i in inputs if named[i] in ("C", "D")]
    named_output = [i for i in pointers if named[i] in ("C", "D")]
    if len(a) == len(b) == 1:
        rest = [i for i in inputs if i not in (*a, *b)]
        roles |= {a[0]: "A", b[0]: "B"}
    elif len(inputs) - len(addend) == 2:
        rest = addend
        roles |= dict(zip((i for i in inputs if i not in addend), "AB", strict=True))
    elif len(inputs) == 2:
        rest = []
        roles |= dict(zip(inputs, "AB", strict=True))
    else:
        return {**dict.fromkeys(pointers, ""), **roles, output: "C"}
    if rest and output in named_output and all(pointers[i] in used and not named[i] for i in rest):
        return roles | dict.fromkeys(rest, SCRATCH) | {output: "C"}  # written as well: no addend, but a workspace
    if len(rest) == 1:  # D = alpha·A·B + beta·C
        return roles | {rest[0]: "C", output: "D"}
    return roles | dict.fromkeys(rest, "") | {output: "C"}


def _biases(inputs: list[int], pointers: dict[int, str], named: dict[int, str]) -> list[int]:
    """The input that is called b beside a matrix of weights and a third input: X, W and b of a linear layer."""
    b, weights = ([i for i in inputs if named[i] == "B" and is_weight(pointers[i]) == heavy] for heavy in (False, True))
    return b if len(inputs) == 3 and len(b) == len(weights) == 1 else []


def _output(named: dict[int, str], free: list[int], used: list[int]) -> int | None:
    """The pointer that is written: by its use, then by its name."""
    by_name = [i for i in free if named[i] == "D"] or [i for i in free if named[i] == "C"]
    if len(used) == 1:
        return used[0]
    among = [i for i in by_name if i in used] or by_name
    if len(among) == 1:
        return among[0]
    return free[0] if len(free) == 1 else None


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
        if roles[i] == "batch" and numbers_a_product(found[i].name, found[i].at_launch, body, counters):
            roles[i] = "0"
    batched = "batch" in roles.values() or "blockIdx.z" in body
    for i in numbers:
        if not roles[i] and found[i].type.is_integer:
            roles[i] = leading_role(found[i].name, batched) or leading_of(found[i].name, matrices)
    for i in numbers:  # a stride beside the same operand's leading dimension is a batch's
        if roles[i].startswith("ld") and list(roles.values()).count(roles[i]) > 1:
            roles[i] = leading_role(found[i].name, True)
    reals = [i for i in numbers if not roles[i] and not found[i].type.is_integer]
    for i, role in zip(reals, [r for r in ("alpha", "beta") if r not in roles.values()], strict=False):
        roles[i] = role if len(reals) <= 2 and found[i].name.lower() in "ab" else ""
    extents = [i for i in numbers if not roles[i] and found[i].type.is_integer]
    if len(extents) == 4 and "batch" not in roles.values():
        own = [i for i in extents if is_batch(found[i].name, short=True)
               and ("blockIdx.z" in body or loops_over_products(found[i].name, body))]  # fmt: skip
        if len(own) == 1 and _extents_of(found, [i for i in extents if i not in own]) == set(EXTENTS):
            roles[own[0]] = "batch"  # B beside M, N and K
            extents.remove(own[0])
    if len(extents) == 1 and any("." in p.name and p.type.is_integer and not p.is_pointer for p in found):
        return roles | {extents[0]: ""}  # the matrices tell their sizes; this may be a tile's
    return roles | extents_by_name({i: found[i].name for i in extents}, matrices)


def _extents_of(found: list[WrittenParameter], places: list[int]) -> set[str]:
    return set(extents_by_name({i: found[i].name for i in places}).values())


def _field_roles(found: list[WrittenParameter], pointers: Mapping[int, str], taken: set[str]) -> dict[int, str]:
    fields = [Field(i, p.name, p.place, p.is_pointer, p.type.is_integer) for i, p in enumerate(found) if "." in p.name]
    return field_roles(fields, pointers, taken)


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
