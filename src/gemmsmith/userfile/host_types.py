"""What types mean at a place in host code: aliases, template parameters, sizes of the user's own classes."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from gemmsmith.userfile.host_frame import DEEPEST, Asked, Frame
from gemmsmith.userfile.launch_text import split_template
from gemmsmith.userfile.parts import Field, SourceFile
from gemmsmith.userfile.type_text import base_type, pointee, size_of_type
from gemmsmith.userfile.values import Number, Scope, UnknownValueError, Value, evaluate, number


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

    def _layout(self, kind: str) -> tuple[int, int]:
        """Size and alignment of a class of the user's own, or of another type."""
        base, opened, rest = kind.partition("<")
        base = base.strip().rsplit("::", 1)[-1]
        source = next((s for s in self.frame.sources if base in s.class_fields), None)
        if source is None or self.asked.depth >= DEEPEST:
            size = size_of_type(kind)
            return size, min(size, 16)
        inner = self.inside(source, base, split_template(rest.rsplit(">", 1)[0]) if opened else [])
        self.asked.depth += 1
        try:
            return inner._class_layout(source.class_fields[base])
        finally:
            self.asked.depth -= 1

    def _class_layout(self, members: Sequence[Field]) -> tuple[int, int]:
        size, widest = 0, 1
        for member in members:
            one, align = self._layout(self.type_of(member.type))
            if member.align:
                align = max(align, number_of(member.align, self))
            count = math.prod(number_of(text, self) for text in member.counts)
            size = -(-size // align) * align + one * count
            widest = max(widest, align)
        return max(1, -(-size // widest) * widest), widest
