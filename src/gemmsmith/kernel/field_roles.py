"""What the members of structs mean that are passed by value: a matrix with its sizes, all arguments at once, a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gemmsmith.kernel.axis_strides import axis_of_field, is_called_stride
from gemmsmith.kernel.role_names import extent_role, field_role, is_batch, leading_role, scalar_role


@dataclass(frozen=True)
class Field:
    """A member: its index among the arguments, its name "p.A", and the index of the parameter that it belongs to."""

    index: int
    name: str
    place: int
    is_pointer: bool
    is_integer: bool


def own_name(name: str) -> str:
    """Of a member: "A" of "arguments.A"."""
    return name.rpartition(".")[2]


def field_roles(
    fields: Sequence[Field], pointers: Mapping[int, str], taken: set[str], batched: bool = False
) -> dict[int, str]:
    """Roles of the numbers, by index. ``pointers``: those of the pointers; ``taken``: of parameters of their own;
    ``batched``: blocks have a third index.

    Beside one pointer a number belongs to that matrix. Beside several, or none, its name must tell; a size that is told
    elsewhere is then a tile's, and stays open.
    """
    matrices: dict[int, list[str]] = {}
    for field in fields:
        if field.is_pointer and field.index in pointers:
            matrices.setdefault(field.place, []).append(pointers[field.index])
    numbers = [field for field in fields if not field.is_pointer]
    strides = _strides({field.index: own_name(field.name) for field in numbers if field.is_integer}, batched)
    roles = {field.index: field_role(own_name(field.name), matrices[field.place][0]) for field in numbers
             if len(matrices.get(field.place, ())) == 1}  # fmt: skip
    roles |= _both_strides(numbers, matrices) if not batched else {}
    for field in numbers:
        if field.index in roles:
            continue
        name = own_name(field.name)
        role = scalar_role(name)
        if not role and field.is_integer:
            role = strides.get(field.index, "") or ("batch" if is_batch(name) else extent_role(name))
        roles[field.index] = "" if role in taken | set(roles.values()) else role
    return roles


def _both_strides(numbers: Sequence[Field], matrices: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """Strides of both axes beside one matrix: s0 and s1 of ``struct View { float* p; int s0, s1; }``."""
    found: dict[int, str] = {}
    for place, own in matrices.items():
        axes = {axis: field.index for field in numbers if field.place == place and field.is_integer
                and (axis := axis_of_field(own_name(field.name))) is not None}  # fmt: skip
        strides = [field for field in numbers if field.place == place and is_called_stride(own_name(field.name))]
        if len(own) == 1 and set(axes) == {0, 1} and len(strides) == len(axes) and own[0] in ("A", "B", "C", "D"):
            found |= {axes[0]: f"ld{own[0].lower()}", axes[1]: "1"}
    return found


def _strides(names: Mapping[int, str], batched: bool) -> dict[int, str]:
    """Leading dimensions and the strides of a batch: a stride is a batch's where there are several products, or beside
    the same matrix's leading dimension."""
    batched = batched or any(map(is_batch, names.values()))
    found = {i: leading_role(name, batched) for i, name in names.items()}
    twice = {role for role in found.values() if role and list(found.values()).count(role) > 1}
    return {i: leading_role(names[i], True) if role in twice else role for i, role in found.items()}
