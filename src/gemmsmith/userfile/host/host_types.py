"""What types mean at a place in host code: aliases, template parameters, sizes of the user's own classes."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from gemmsmith.userfile.host.host_frame import DEEPEST, Asked, Frame
from gemmsmith.userfile.host.values import Number, Scope, UnknownValueError, Value, evaluate, number
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.parts import Field, SourceFile
from gemmsmith.userfile.text.type_text import base_type, pointee, size_of_type


def number_of(text: str, scope: Scope) -> int:
    return math.trunc(number(evaluate(text, scope)))


class HostTypes(ABC):
    """The types of a scope; values are left to the subclass."""

    frame: Frame
    given: Mapping[str, str]
    overrides: Mapping[str, str]
    asked: Asked

    @abstractmethod
    def value(self, name: str) -> Value: ...

    @abstractmethod
    def whole(self, text: str) -> Value | None: ...

    @abstractmethod
    def meant(self, spelled: Number) -> Number: ...

    @abstractmethod
    def call(self, name: str, template: Sequence[str], arguments: Sequence[str]) -> Value: ...

    @abstractmethod
    def template_text(self, name: str) -> tuple[str, HostTypes] | None:
        """The text of a template parameter's value, and the scope in which it is written."""

    @abstractmethod
    def inside(self, source: SourceFile, base: str, given: Sequence[str]) -> HostTypes:
        """The scope inside class ``base`` with these template arguments."""

    def type_of(self, text: str) -> str:
        """A type without aliases and template parameters, as far as the source tells."""
        for _ in range(8):
            name = base_type(text)
            found = self._type_named(name)
            if not found or found == name:
                break
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", found.replace("\\", ""), text, count=1)
        return text

    def _type_named(self, name: str) -> str:
        if name in self.given or name in self.overrides:
            return self.given.get(name) or self.overrides[name]
        if match := re.fullmatch(r"decltype\s*\((.*)\)", name):
            return self.declared_type(match[1])
        if name in self.frame.locals.aliases:
            return self.frame.locals.aliases[name]
        try:
            if (found := self.template_text(name)) is not None:
                return found[1].type_of(found[0])
        except UnknownValueError:
            return ""
        if "::" in name and (found_in := self._inside_owner(name)) is not None:
            inner, its, base, member = found_in
            if (alias := its.aliases.get(f"{base}::{member}")) is not None:
                return inner.type_of(alias)
        for source in self.frame.sources:
            if name in source.aliases:
                return source.aliases[name]
            macro = source.macros.get(name)
            if macro is not None and macro.parameters is None and macro.body:
                return macro.body
        return ""

    def declared_type(self, text: str) -> str:
        """The type of an expression, as far as declarations and casts tell; empty if they do not."""
        text = text.strip()
        if match := re.match(r"(?:reinterpret|static|const)_cast\s*<(.*?)>\s*\(", text):
            return self.type_of(match[1])
        if match := re.match(r"\(\s*([\w:\s]+\*+)\s*\)", text):
            return self.type_of(match[1])
        if match := re.search(r"(?:data_ptr|mutable_data_ptr|const_data_ptr|ptr)\s*<\s*([\w:\s]+)>\s*\(\s*\)$", text):
            return self.type_of(match[1]) + " *"
        if text.startswith("&"):
            inner = self.declared_type(text[1:])
            return f"{inner} *" if inner else ""
        if text.startswith("*"):
            return pointee(self.declared_type(text[1:]))
        if match := re.fullmatch(
            r"(?:thrust::raw_pointer_cast\()?\s*(\w+)\s*\.\s*(?:data|get)\s*\(\s*\)\)?(?:\.get\(\))?", text
        ):
            held = re.search(r"<\s*([\w:\s]+?)\s*[,>]", self._variable_type(match[1]))
            return self.type_of(held[1]) + " *" if held else ""
        made = re.fullmatch(r"([A-Za-z_]\w*)\s*(?:\{[^{}]*\}|\([^()]*\))", text)  # Relu{}, Clip(6.0f)
        if made and any(made[1] in source.class_fields for source in self.frame.sources):
            return self.type_of(made[1])
        name = re.match(r"\w+", text)
        return self.type_of(self._variable_type(name[0])) if name else ""

    def _variable_type(self, name: str) -> str:
        variable = self.frame.locals.variables.get(name)
        if variable is not None:
            if variable.type.startswith("auto") and variable.value:
                return self.declared_type(variable.value)
            return variable.type
        function = self.frame.function
        return next((p.type for p in function.parameters if p.name == name), "") if function is not None else ""

    def size_of(self, text: str) -> int:
        variable = self.frame.locals.variables.get(text)
        if variable is not None and variable.type.endswith("[]"):
            array = evaluate(variable.value, self)
            count = len(array) if isinstance(array, tuple) else 1
            return count * size_of_type(self.type_of(variable.type[:-2]))
        if match := re.fullmatch(r"(\w+)\s*\[.*\]", text):
            kind = self._variable_type(match[1])
            return size_of_type(self.type_of(kind[:-2] if kind.endswith("[]") else pointee(kind)))
        if variable is not None:
            return size_of_type(self.type_of(variable.type))
        if text.startswith("*"):
            return size_of_type(self.declared_type(text))
        kind = self.type_of(text)
        try:
            return size_of_type(kind)
        except UnknownValueError:
            return self._layout(kind)[0]

    def _inside_owner(self, kind: str) -> tuple[HostTypes, SourceFile, str, str] | None:
        """Of ``Traits<8>::Storage``: the scope inside Traits<8>, its source, its name, and Storage."""
        owner, member = _split_member(re.sub(r"^\s*(?:typename|struct)\s+", "", kind))
        if not owner or self.asked.depth >= DEEPEST:
            return None
        base, opened, rest = self.type_of(owner).partition("<")
        base = base.strip().rsplit("::", 1)[-1]
        source = next((s for s in self.frame.sources if base in s.class_fields), None)
        if source is None:
            return None
        inner = self.inside(source, base, split_template(rest.rsplit(">", 1)[0]) if opened else [])
        return inner, source, base, member

    def _member_layout(self, kind: str) -> tuple[int, int] | None:
        """Size and alignment of a class, a type or a data member that a class of the user's own has."""
        found = self._inside_owner(kind)
        if found is None:
            return None
        inner, source, base, member = found
        self.asked.depth += 1
        try:
            if source.qualified.get(member, "").endswith(f"{base}::{member}") and member in source.class_fields:
                return inner._class_layout(source, member)
            if (alias := source.aliases.get(f"{base}::{member}")) is not None:
                return inner._layout(inner.type_of(alias))
            field = next((each for each in source.class_fields[base] if each.name == member), None)
            return inner._field_layout(field) if field is not None else None
        finally:
            self.asked.depth -= 1

    def _layout(self, kind: str) -> tuple[int, int]:
        """Size and alignment of a class of the user's own, or of another type."""
        if "::" in kind and (found := self._member_layout(kind)) is not None:
            return found
        base, opened, rest = kind.partition("<")
        base = base.strip().rsplit("::", 1)[-1]
        source = next((s for s in self.frame.sources if base in s.class_fields), None)
        if source is None or self.asked.depth >= DEEPEST:
            size = size_of_type(kind)
            return size, min(size, 16)
        inner = self.inside(source, base, split_template(rest.rsplit(">", 1)[0]) if opened else [])
        self.asked.depth += 1
        try:
            return inner._class_layout(source, base)
        finally:
            self.asked.depth -= 1

    def _class_layout(self, source: SourceFile, name: str) -> tuple[int, int]:
        parts = [self._layout(base) for base in source.class_bases.get(name, ())]
        parts = [(0, align) if size == 1 else (size, align) for size, align in parts]  # empty bases take no room
        parts += [self._field_layout(member) for member in source.class_fields[name]]
        return _together(parts, name in source.unions)

    def _field_layout(self, member: Field) -> tuple[int, int]:
        if member.members:
            one, align = _together([self._field_layout(each) for each in member.members], False)
        else:
            one, align = self._layout(self.type_of(member.type))
        if member.align:
            align = max(align, number_of(member.align, self))
        return one * math.prod(number_of(text, self) for text in member.counts), align


def _together(parts: Sequence[tuple[int, int]], overlaid: bool) -> tuple[int, int]:
    """Size and alignment of members one after another, or at the same place."""
    size, widest = 0, 1
    for one, align in parts:
        size = max(size, one) if overlaid else -(-size // align) * align + one
        widest = max(widest, align)
    return max(1, -(-size // widest) * widest), widest


def _split_member(kind: str) -> tuple[str, str]:
    """``A<x::y>::B`` as ``A<x::y>`` and B; an empty owner if there is none."""
    depth = 0
    for at in range(len(kind) - 1, 0, -1):
        depth += (kind[at] == ">") - (kind[at] == "<")
        if depth == 0 and kind[at - 1 : at + 1] == "::":
            return kind[: at - 1].strip(), kind[at + 1 :].strip()
    return "", kind
