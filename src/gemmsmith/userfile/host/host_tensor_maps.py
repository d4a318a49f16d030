"""The tensor maps that a launch passes, read off from the host code that encodes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.errors import SignatureError, UsageError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.role_names import map_role, pointer_role
from gemmsmith.kernel.written_parameter import MapParameter
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT32, TF32, UINT8, DType
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.host_values import HostScope, LambdaScope
from gemmsmith.userfile.host.map_constants import INTERLEAVE_BYTES, SWIZZLE_BYTES
from gemmsmith.userfile.host.tensor_map_calls import EncodeCall, bare, encode_call
from gemmsmith.userfile.host.values import UnknownValueError, evaluate_int
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.text.parts import KernelParameter

# By the number of CUtensorMapDataType; a map of other integers moves the same bytes.
_TYPES: dict[int, DType] = {0: UINT8, 3: INT32, 6: FP16, 7: FP32, 8: FP64, 9: BF16, 10: FP32, 11: TF32, 12: TF32}
_MOST_FOLLOWED = 12


def is_map_type(kind: str, aliases: Mapping[str, str]) -> bool:
    """Whether a parameter's type is CUtensorMap, or a pointer or reference to one."""
    name = parameter_type(kind, aliases).name.rpartition("::")[2]
    return name in ("CUtensorMap", "CUtensorMap_st", "TmaDescriptor", "cuTensorMap")


@dataclass(frozen=True)
class HostMap:
    """A kernel's parameter that is a tensor map: which matrix it describes, of which elements, and who encodes it.

    call   None where the source does not show the call
    roles  what the names of the array say on the way to its allocation, the nearest first
    """

    name: str
    pointer: bool
    call: EncodeCall | None
    roles: tuple[str, ...] = ()
    element: DType | None = None


def host_maps(
    parameters: tuple[KernelParameter, ...], site: SiteValues | None, sizes: Mapping[str, int],
    aliases: Mapping[str, str],
) -> tuple[HostMap, ...]:  # fmt: skip
    """The tensor maps among a kernel's parameters, as the launch makes them."""
    found = []
    for place, parameter in enumerate(parameters):
        if not is_map_type(parameter.type, aliases):
            continue
        pointer = "*" in parameter.type
        passed = site.site.arguments[place] if site is not None and place < len(site.site.arguments) else ""
        call = encode_call(passed, site.scope(sizes, Asked())) if site is not None and passed else None
        if call is None:
            found.append(HostMap(parameter.name, pointer, None))
            continue
        if call.is_im2col:
            raise _convolution(parameter.name, call)
        roles, element = _array(call.arguments[3], call.scope, aliases)
        element = element or _map_element(call)
        found.append(HostMap(parameter.name, pointer, call, roles, element))
    return tuple(found)


def _convolution(name: str, call: EncodeCall) -> SignatureError:
    return SignatureError(
        f"{name}: {call.place} encodes it with cuTensorMapEncodeIm2col, for a convolution; check runs matrix products",
        "gemmsmith.launch takes gemmsmith.tensor_map(array, im2col=(lower corner, upper corner, channels, pixels)); on "
        f"the command line: --args '{name}=tensor_map(randn(2,8,8,64,f16), im2col=((-1,-1),(-1,-1),64,32)), ...' with "
        "--grid and --block",
    )


def lacking_maps(site: SiteValues, sizes: Mapping[str, int]) -> int:
    """How many of the tensor maps that a launch passes the source does not show being encoded."""
    if not any("Map" in p.type or "Tma" in p.type for p in site.site.kernel.parameters):
        return 0
    scope = site.scope(sizes, Asked())
    passed = zip(site.site.kernel.parameters, site.site.arguments, strict=False)
    return sum(is_map_type(scope.type_of(p.type), {}) and encode_call(text, scope) is None for p, text in passed)


def named_maps(parameters: tuple[KernelParameter, ...], aliases: Mapping[str, str]) -> tuple[HostMap, ...]:
    """The tensor maps among a kernel's parameters, before their launch is known: by their names alone."""
    found = (p for p in parameters if is_map_type(p.type, aliases))
    return tuple(HostMap(p.name, "*" in p.type, None, (map_role(p.name),), FP32) for p in found)


def map_parameters(maps: tuple[HostMap, ...]) -> dict[str, MapParameter]:
    """The maps whose matrix and element type are known, by name."""
    operands = operands_of(maps)
    return {each.name: MapParameter(operands[each.name], each.element.cuda)
            for each in maps if each.element is not None and operands[each.name]}  # fmt: skip


def operands_of(maps: tuple[HostMap, ...]) -> dict[str, str]:
    """Which of A, B and C each map describes: by the array's name in host code, or by the parameter's own name."""
    by_array = {each.name: each.roles[-1] if each.roles else "" for each in maps}
    by_name = {each.name: map_role(each.name) for each in maps}
    for found in (by_array, by_name, {name: by_array[name] or by_name[name] for name in by_name}):
        named = [_operand(role) for role in found.values()]
        if all(named) and {"A", "B"} <= set(named):
            return {name: _operand(role) for name, role in found.items()}
    return {name: _operand(by_array[name] or by_name[name]) for name in by_name}


def _operand(role: str) -> str:
    return "C" if role == "D" else role if role in "ABC" else ""


def described(call: EncodeCall, operand: str, dtype: DType) -> TensorMap:
    """The map that ``call`` encodes, of elements of ``dtype``; raises ``UnknownValueError``."""
    given, scope = call.arguments, call.scope
    rank = evaluate_int(given[2], scope)
    extents = listed(given[4], scope, rank)
    strides = listed(given[5], scope, rank - 1) if rank > 1 else ()
    box, steps = listed(given[6], scope, rank), listed(given[7], scope, rank)
    interleave, swizzle, fill = (evaluate_int(given[place], scope) for place in (8, 9, 11))
    element = _map_element(call)
    if element is None or element.itemsize != dtype.itemsize:
        element = dtype
    return TensorMap(operand, element, extents, strides, box, SWIZZLE_BYTES[swizzle], INTERLEAVE_BYTES[interleave],
                     bool(fill), steps if any(step != 1 for step in steps) else ())  # fmt: skip


def _map_element(call: EncodeCall) -> DType | None:
    try:
        return _TYPES.get(evaluate_int(call.arguments[1], call.scope))
    except UsageError:
        return None


# --- arrays of host code


def listed(text: str, scope: HostScope, count: int) -> tuple[int, ...]:
    """The first ``count`` numbers of an array of host code; raises ``UnknownValueError``."""
    for _ in range(_MOST_FOLLOWED):
        text = re.sub(r"\.\s*(?:data|begin)\s*\(\s*\)$", "", bare(text))
        text, first = _offset(text, scope)
        if (parts := _parts(text)) is not None:
            if len(parts) < first + count:
                raise UnknownValueError(f"{text!r} has {len(parts)} numbers, not {first + count}")
            return tuple(evaluate_int(part, scope) for part in parts[first : first + count])
        held = scope.frame.locals
        members = [held.members.get(f"{text}[{first + i}]") for i in range(count)]
        if members and all(members):
            return tuple(evaluate_int(each.value, scope) for each in members if each is not None)
        variable = held.variables.get(text)
        if variable is not None and variable.value:
            parts = _parts(variable.value)
            if parts is not None:
                text = f"{{{', '.join(parts[first:])}}}"
            elif first:
                raise UnknownValueError(f"{text} + {first} is not followed")
            else:
                text = variable.value
            continue
        if count == 1 and not first and (known := _number(text, scope)) is not None:
            return (known,)
        text, scope = _outside(text, scope, first)
    raise UnknownValueError(f"{text!r} is no list of numbers")


def _number(text: str, scope: HostScope) -> int | None:
    """The value of a single stride, whose address is passed."""
    try:
        return evaluate_int(text, scope)
    except UnknownValueError:
        return None


def _offset(text: str, scope: HostScope) -> tuple[str, int]:
    """``strides + 1`` and ``&strides[1]`` as the array and how many numbers are skipped."""
    if match := re.fullmatch(r"(\w+)\s*\+\s*(\w+)", text) or re.fullmatch(r"(\w+)\s*\[\s*(\w+)\s*\]", text):
        return match[1], evaluate_int(match[2], scope)
    return text, 0


def _parts(text: str) -> list[str] | None:
    """The elements of a list in braces, of ``std::array<…>{…}``, of ``(T[]){…}`` and of ``std::vector<…>(…)``."""
    text = text.strip()
    match = re.fullmatch(
        r"(?:[\w:]+(?:\s*<[^{}()]*>)?(?:\s*\[\w*\])?\s*|\([\w:\s]+\[\s*\w*\s*\]\s*\)\s*)?\{(.*)\}", text, re.S
    )
    match = match or re.fullmatch(
        r"(?:std\s*::\s*)?(?:vector|array|initializer_list)\s*<[^{}()]*>\s*\((.*)\)", text, re.S
    )
    if match is None:
        return None
    inner = match[1].strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    return split_template(inner)


def _outside(text: str, scope: HostScope, first: int) -> tuple[str, HostScope]:
    """An array that is a parameter, or a constant of the file: its text there, and the scope of that text."""
    passed = scope.passed_for(text)
    if passed is not None:
        return (f"{passed[0]} + {first}" if first else passed[0]), passed[1]
    if isinstance(scope, LambdaScope):
        return (f"{text} + {first}" if first else text), scope.outer()
    for source in scope.frame.sources:
        for store in (source.constants, source.variables):
            if (value := store.get(text)) and (parts := _parts(value)) is not None:
                return f"{{{', '.join(parts[first:])}}}", scope
    raise UnknownValueError(f"{text} has no value")


def _array(text: str, scope: HostScope, aliases: Mapping[str, str]) -> tuple[tuple[str, ...], DType | None]:
    """What the names of an array say, from the call to where the array is allocated; and its element type."""
    roles: list[str] = []
    element: DType | None = None
    at: HostScope | None = scope
    for _ in range(_MOST_FOLLOWED):
        assert at is not None
        cast = re.match(r"\(\s*([\w:\s]+?)\s*\*\s*\)|\w+_cast\s*<\s*([\w:\s]+?)\s*\*\s*>", text.strip())
        kind = cast[1] or cast[2] if cast else ""
        name = re.match(r"\w+", re.sub(r"^\w+\s*::\s*", "", bare(text)))
        if name is None:
            break
        declared = at.declared_type(bare(text)) or (at.type_of(kind) if kind else "")
        own = parameter_type(declared, aliases).element if "*" in declared else None
        element = element or own
        if role := pointer_role(name[0]):
            roles.append(role)
        found = _next(name[0], at)
        if found is None:
            break
        text, at = found
    return tuple(roles), element


def _next(name: str, scope: HostScope) -> tuple[str, HostScope] | None:
    variable = scope.frame.locals.variables.get(name)
    if variable is not None:
        if not re.match(r"[(&*]*\s*[A-Za-z_]", variable.value) or variable.value in ("nullptr", "NULL"):
            return None
        return (variable.value, scope) if re.match(r"\w+", bare(variable.value)) else None
    try:
        passed = scope.passed_for(name)
    except UnknownValueError:
        return None
    if passed is None and isinstance(scope, LambdaScope):
        return name, scope.outer()
    return passed
