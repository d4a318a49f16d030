"""Parameters that are structs by value, such as ``struct Matrix { int width, height; float* elements; }``: their fields
are read as parameters of their own, called "A.width"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.expressions import split
from gemmsmith.userfile.kernels.span_parameters import span_fields, without_accessor
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.parts import Field, KernelParameter, SourceFile

_VECTOR = re.compile(r"(u?int)([234])|dim3")  # CUDA's own structs of integers
_MADE = re.compile(r"(?:make_)?(?:u?int[234]|dim3)\s*[({](.*)[)}]", re.S)
_LISTED = re.compile(r"[A-Za-z_][\w:]*(?:<[^<>]*>)?\s*\{([^{}.][^{}]*)\}", re.S)
_MOST_ELEMENTS = 8
_DEEPEST = 4  # structs in structs
_AXES = "xyzw"
NO_MEMBER = "no_member"  # the only byte of a function object without members, which nobody reads
_QUALIFIERS = re.compile(r"\b(?:const|struct|volatile|__grid_constant__|typename)\b")


@dataclass(frozen=True)
class FlatParameter:
    """A parameter, or a field of one; ``place`` is the index of the kernel's own parameter."""

    type: str
    name: str
    place: int


@dataclass(frozen=True)
class StructField:
    """A field of a struct; of one that is a struct itself, ``inside`` are its own fields."""

    type: str
    name: str
    inside: tuple[StructField, ...] = ()

    def leaves(self, owner: str) -> Iterator[tuple[str, str]]:
        """Type and whole name of each pointer and number: "p.a.ld"."""
        own = f"{owner}.{self.name}"
        if not self.inside:
            yield self.type, own
        for field in self.inside:
            yield from field.leaves(own)


def struct_fields(
    kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str], depth: int = 0
) -> tuple[StructField, ...]:
    """The fields of a struct that holds pointers, numbers and such structs alone; none for any other type."""
    found = []
    for field in _members(kind, sources, aliases) if depth < _DEEPEST else ():
        read = parameter_type(field.type, aliases)
        inside: tuple[StructField, ...] = ()
        if not (read.stars or read.scalar_code):
            inside = struct_fields(field.type, sources, aliases, depth + 1)
        if not field.name or field.counts or field.align or not (read.stars or read.scalar_code or inside):
            return ()
        found.append(StructField(field.type, field.name, inside))
    return tuple(found)


def flat_parameters(
    parameters: Sequence[KernelParameter], sources: Sequence[SourceFile], aliases: Mapping[str, str]
) -> tuple[FlatParameter, ...]:
    """The parameters in order, with the fields of each struct that holds pointers and numbers alone."""
    found: list[FlatParameter] = []
    for place, parameter in enumerate(parameters):
        fields = _fields(parameter.type, sources, aliases)
        one = sum("*" in f.type for f in fields) == 1  # of several, a const struct may hold the output as well
        const = "const " if one and re.search(r"\bconst\b", parameter.type) else ""
        if fields:
            found += [FlatParameter(f"{const}{f.type}", f"{parameter.name}.{f.name}", place) for f in fields]
        else:
            found.append(FlatParameter(parameter.type, parameter.name, place))
    return tuple(found)


def flat_arguments(arguments: Sequence[str], names: Sequence[str], places: Sequence[int]) -> tuple[str, ...]:
    """What a launch passes for parameters of these ``names`` and ``places``: "d_A.width" for a field of d_A."""
    found = []
    for i, (name, place) in enumerate(zip(names, places, strict=True)):
        text = without_accessor(arguments[place]) if place < len(arguments) else ""
        number = list(places[:i]).count(place)
        found.append(_member(text, name.partition(".")[2], number) if text and "." in name else text)
    return tuple(found)


def _member(text: str, member: str, number: int) -> str:
    """A member of what is passed: "m" of ``make_int3(m, n, k)`` for x, "d_A.width" of d_A, "6.0f" of ``Clip{6.0f}``."""
    made = _MADE.fullmatch(text.strip()) or _LISTED.fullmatch(text.strip())
    parts = split(made[1]) if made else []
    place = _AXES.find(member) if made and made.re is _MADE else number
    return parts[place] if 0 <= place < len(parts) else f"{text}.{member}"


def pointed_struct(kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> str:
    """The struct that type ``kind`` points to, if it holds a pointer itself: ``Mat`` of ``const Mat*``; else ""."""
    if kind.count("*") != 1 or "&" in kind:
        return ""
    base = " ".join(_QUALIFIERS.sub(" ", kind).replace("__restrict__", " ").replace("*", " ").split())
    return base if any("*" in field.type for field in _fields(base, sources, aliases)) else ""


def points_to_sizes(kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> bool:
    """Whether type ``kind`` points to a struct of integers alone: ``const Dims*``."""
    if kind.count("*") != 1 or "&" in kind or not re.search(r"\bconst\b", kind):
        return False
    fields = _fields(re.sub(r"\b__restrict(?:__)?\b|\*", " ", kind), sources, aliases)
    return bool(fields) and all(parameter_type(field.type, aliases).is_integer for field in fields)


def refuse_pointed(entry: str, parameters: Sequence[KernelParameter], sources: Sequence[SourceFile]) -> None:
    """Raise for a pointer to a struct with pointers in it that the kernel cannot take by value instead."""
    for parameter in parameters:
        if parameter.type.count("*") != 1:
            continue
        base = " ".join(_QUALIFIERS.sub(" ", parameter.type).replace("__restrict__", " ").replace("*", " ").split())
        base = base.partition("<")[0].rsplit("::", 1)[-1].strip()
        fields = next((source.class_fields[base] for source in sources if base in source.class_fields), ())
        if any("*" in field.type for field in fields):
            raise SignatureError(
                f"{entry}: {parameter.name} points to a {base} in memory, and what the kernel does with it is not "
                "understood: check fills matrices, numbers and structs of pointers and numbers",
                f"take it by value, `{base} {parameter.name}`: a launch copies its arguments, so that this costs "
                "nothing, and check fills its members",
            )


def _fields(kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> tuple[Field, ...]:
    """The fields of a struct type; none for other types, and for structs with anything but pointers and numbers."""
    fields = _members(kind, sources, aliases)
    types = [parameter_type(f.type, aliases) for f in fields]
    usable = all(f.name and not f.counts and not f.align for f in fields)
    numbers = [t for t in types if not t.stars and t.scalar_code]
    pointers = [t for t in types if t.stars == 1]
    return fields if usable and len(pointers) + len(numbers) == len(fields) else ()


def _members(kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> tuple[Field, ...]:
    """The fields of a struct type, whatever they are; none for other types."""
    if "*" in kind or "&" in kind:
        return ()
    plain = " ".join(_QUALIFIERS.sub(" ", kind).split())
    if span := span_fields(plain, sources, aliases):
        return span
    plain = aliases.get(plain, plain)
    if vector := _VECTOR.fullmatch(plain):
        kind = vector[1] or "uint"
        return tuple(Field("unsigned int" if kind == "uint" else kind, (), "", axis)
                     for axis in _AXES[: int(vector[2] or 3)])  # fmt: skip
    base, opened, rest = plain.partition("<")
    base = base.strip().rsplit("::", 1)[-1]
    source = next((s for s in sources if base in s.class_fields), None)
    if source is None:
        return ()
    given = split_template(rest.rsplit(">", 1)[0]) if opened else []
    if not source.class_fields[base] and not source.class_bases.get(base):
        return (Field("unsigned char", (), "", NO_MEMBER),)
    names = [parameter.name for parameter in source.class_templates.get(base, ())]
    values = {**aliases, **dict(zip(names, given, strict=False))}
    return tuple(
        each
        for f in source.class_fields[base]
        for each in _elements(
            Field(_replaced(f.type, values), tuple(_replaced(c, values) for c in f.counts), f.align, f.name)
        )
    )


def _elements(field: Field) -> tuple[Field, ...]:
    """The elements of a short array, ``int sizes[3]``, as fields of their own; the field itself otherwise."""
    if len(field.counts) != 1 or not field.counts[0].isdecimal() or not 0 < int(field.counts[0]) <= _MOST_ELEMENTS:
        return (field,)
    return tuple(Field(field.type, (), field.align, f"{field.name}[{i}]") for i in range(int(field.counts[0])))


def _replaced(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), text)
