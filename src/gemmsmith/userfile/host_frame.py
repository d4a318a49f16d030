"""A place in host code with the calls that lead there: what names, types and functions mean at that place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gemmsmith.kernel.expressions import rounds_up
from gemmsmith.userfile.declared import Variable
from gemmsmith.userfile.host_scope import LocalScope, local_scope, path_of, returns
from gemmsmith.userfile.launch_text import split_template
from gemmsmith.userfile.parts import Field, FunctionSource, KernelParameter, SourceFile, TemplateParameter
from gemmsmith.userfile.preprocessor import filled
from gemmsmith.userfile.project import Project
from gemmsmith.userfile.type_text import base_type, deduced, pointee, size_of_type
from gemmsmith.userfile.values import Number, UnknownValueError, Value, converted, evaluate, number

_DEEPEST = 24  # names and calls followed for one value
ASSUMED_SMS = 8  # a persistent kernel takes any number; few are fast to simulate
_DEVICE = {
    "multiProcessorCount": ASSUMED_SMS, "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048,
    "sharedMemPerBlock": 49_152, "sharedMemPerBlockOptin": 232_448, "sharedMemPerMultiprocessor": 233_472,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Frame:
    """A place in a function's body (``function`` None: file scope), and the call that leads there.

    arguments, template  as written at the call, in the scope of ``caller``; an explicit instantiation has no caller
    """

    source: SourceFile
    project: Project
    function: FunctionSource | None = None
    start: int = 0
    caller: Frame | None = None
    arguments: tuple[str, ...] = ()
    template: tuple[str, ...] = ()

    @property
    def locals(self) -> LocalScope:
        return local_scope(self.function, self.start) if self.function is not None else LocalScope()

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """This file, then the headers that it includes."""
        reached = self.project.sources(self.source.path)
        return reached if reached[0] is self.source else (self.source, *reached[1:])


@dataclass
class Asked:
    """Whether a size of the problem was used, whether the number of SMs was, and how deep the evaluation is."""

    sized: bool = False
    assumed: bool = False
    depth: int = 0


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem: by path in this frame (``bound``), by whole expressions, and by usual names where the source
    tells no value."""

    bound: Mapping[str, frozenset[int]] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)
    expressions: Mapping[str, frozenset[int]] = field(default_factory=dict)


class HostScope:
    """The scope of a frame. ``given`` are the user's own values by name, ``overrides`` those of names in this frame."""

    def __init__(
        self, frame: Frame, given: Mapping[str, str], sizes: Sizes, asked: Asked,
        overrides: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.frame, self.given, self.sizes, self.asked = frame, given, sizes, asked
        self.overrides = overrides or {}
        self._open: set[str] = set()

    # --- values

    def value(self, name: str) -> Value:
        if name in self.sizes.bound:
            self.asked.sized = True
            if len(self.sizes.bound[name]) > 1:
                raise UnknownValueError(f"{name} stands for several sizes")
            return min(self.sizes.bound[name])
        if name not in self._open and self.asked.depth < _DEEPEST:
            self._open.add(name)
            self.asked.depth += 1
            try:
                return self._defined(name)
            except UnknownValueError:
                if name not in self.sizes.usual and name.rsplit(".", 1)[-1] not in _DEVICE:
                    raise
            finally:
                self._open.discard(name)
                self.asked.depth -= 1
        if name in self.sizes.usual:
            self.asked.sized = True
            return self.sizes.usual[name]
        return self._of_device(name)

    def _of_device(self, name: str) -> int:
        """Properties of the device, which host code asks the driver for."""
        last = name.rsplit(".", 1)[-1]
        if last not in _DEVICE or ("." not in name and last != "multiProcessorCount"):
            raise UnknownValueError(f"{name} has no value")
        self.asked.assumed |= last == "multiProcessorCount"
        return _DEVICE[last]

    def whole(self, text: str) -> Value | None:
        """The size that a whole expression stands for: ``B * T``, if the launch passes that for M."""
        if not self.sizes.expressions:
            return None
        found = self.sizes.expressions.get(plain_expression(text))
        if found is None:
            return None
        self.asked.sized = True
        if len(found) > 1:
            raise UnknownValueError(f"{text} stands for several sizes")
        return min(found)

    def _defined(self, name: str) -> Value:
        for texts in (self.given, self.overrides):
            if name in texts:
                return evaluate(texts[name], self)
        scope = self.frame.locals
        if name in scope.members and name not in scope.changed:
            return evaluate(scope.members[name].value, self)
        if name in scope.variables or name in scope.changed:
            return self._local(name, scope)
        for condition, holds in scope.conditions:
            if holds and (match := re.fullmatch(rf"(?:.*&&\s*)?\(?\s*{re.escape(name)}\s*==\s*(\w+)\s*\)?", condition)):
                return evaluate(match[1], self)
        if (found := self._parameter(name)) is not None:
            text, outer = found
            return evaluate(text, outer)
        if (found := self._template(name)) is not None:
            text, outer = found
            return evaluate(text, outer)
        return self._constant(name)

    def _local(self, name: str, scope: LocalScope) -> Value:
        variable = scope.variables.get(name)
        for text in scope.changed.get(name, ()):
            if text is None:
                raise UnknownValueError(f"{name} changes before the launch")
            try:
                evaluate(text, self)
            except UnknownValueError:
                continue  # read from the command line, for example: the initial value stands
            raise UnknownValueError(f"{name} is decided at run time")
        if variable is None:
            found = self._parameter(name)
            if found is None:
                return self._constant(name)
            return evaluate(found[0], found[1])
        text = self._with_members(variable, scope)
        if not text:
            raise UnknownValueError(f"{name} has no value")
        return converted(variable.type, evaluate(text, self))

    def _with_members(self, variable: Variable, scope: LocalScope) -> str:
        """A dim3 whose parts are set one by one."""
        parts = [scope.members.get(f"{variable.name}.{axis}") for axis in "xyz"]
        if variable.type.split()[-1:] != ["dim3"]:
            return variable.value
        if not any(parts) and variable.value:
            return variable.value
        whole = split_template(variable.value[variable.value.find("(") + 1 : -1]) if "(" in variable.value else []
        whole += ["1"] * (3 - len(whole))
        return f"dim3({', '.join(part.value if part else whole[i] for i, part in enumerate(parts))})"

    def outer(self) -> HostScope | None:
        """The caller's scope; sizes bound to parameters here are bound to its arguments there."""
        if self.frame.caller is None:
            return None
        bound: dict[str, frozenset[int]] = {}
        for parameter, text in self._passed():
            if parameter.name in self.sizes.bound:
                bound[path_of(text)] = bound.get(path_of(text), frozenset()) | self.sizes.bound[parameter.name]
        return HostScope(self.frame.caller, self.given, Sizes(bound, self.sizes.usual), self.asked)

    def _passed(self) -> list[tuple[KernelParameter, str]]:
        function = self.frame.function
        return list(zip(function.parameters, self.frame.arguments, strict=False)) if function else []

    def passed_for(self, name: str) -> tuple[str, HostScope] | None:
        """The text that stands for a parameter or template parameter, and the scope in which it is written."""
        found = self._parameter(name)
        return found if found is not None else self._template(name)

    def _parameter(self, name: str) -> tuple[str, HostScope] | None:
        """The text of a function parameter's value, and the scope in which it is written."""
        function = self.frame.function
        own = next((p for p in function.parameters if p.name == name), None) if function is not None else None
        if own is None:
            return None
        if (outer := self.outer()) is not None:
            for parameter, text in self._passed():
                if parameter is own:
                    return text, outer
        if own.default:
            return own.default, HostScope(Frame(self.frame.source, self.frame.project), self.given, Sizes(), self.asked)
        raise UnknownValueError(f"{name} is a parameter of {function.name if function else ''}")

    def _template(self, name: str) -> tuple[str, HostScope] | None:
        """The text of a template parameter's value, and the scope in which it is written."""
        function = self.frame.function
        parameters: Sequence[TemplateParameter] = function.template or () if function is not None else ()
        place = next((i for i, p in enumerate(parameters) if p.name == name), None)
        if place is None:
            return None
        outer = self.outer()
        if place < len(self.frame.template):
            return self.frame.template[place], outer or HostScope(
                Frame(self.frame.source, self.frame.project), self.given, Sizes(), self.asked
            )
        if outer is not None and (kind := self._deduced(name, outer)):
            return kind, outer
        if parameters[place].default:
            return parameters[place].default, self
        raise UnknownValueError(f"template parameter {name} has no value")

    def _deduced(self, name: str, outer: HostScope) -> str:
        for parameter, text in self._passed():
            if re.search(rf"\b{re.escape(name)}\b", parameter.type) and (
                kind := deduced(name, parameter.type, outer.declared_type(text))
            ):
                return kind
        return ""

    def _constant(self, name: str) -> Value:
        """Constants at file, namespace or class scope, the innermost first."""
        scope = self.frame.function.scope if self.frame.function is not None else ""
        parts = scope.split("::") if scope else []
        spellings = ["::".join((*parts[:i], name)) for i in range(len(parts), 0, -1)] + [name]
        spellings += ["::".join((*parts[i:], name)) for i in range(1, len(parts))]
        for source in self.frame.sources:
            for store in (source.constants, source.variables):
                for spelling in spellings:
                    if spelling in store:
                        return evaluate(store[spelling], self)
        if "::" in name:
            return self._member(name)
        raise UnknownValueError(f"{name} has no value")

    def _member(self, name: str) -> Value:
        """``Config::BM``, where Config is an alias or a template with arguments."""
        owner, _, member = name.rpartition("::")
        kind = self.type_of(owner)
        base, opened, rest = kind.partition("<")
        base = base.strip().rsplit("::", 1)[-1]
        for source in self.frame.sources:
            text = source.constants.get(f"{base}::{member}")
            if text is None:
                continue
            inner = self._inside(source, base, split_template(rest.rsplit(">", 1)[0]) if opened else [])
            return evaluate(text, inner)
        spelled = name.rsplit("::", 1)[-1]
        if kind == owner and spelled != name and "<" not in name:
            return self.value(spelled)  # a namespace that the file does not show
        raise UnknownValueError(f"{name} has no value")

    def _inside(self, source: SourceFile, base: str, given: Sequence[str]) -> HostScope:
        """The scope inside class ``base`` with these template arguments."""
        values = {
            p.name: given[i] if i < len(given) else p.default
            for i, p in enumerate(source.class_templates.get(base, ())) if i < len(given) or p.default
        }  # fmt: skip
        values = {name: self._resolved(text) if text != name else text for name, text in values.items()}
        members = {k.rpartition("::")[2]: v for k, v in source.constants.items() if k.startswith(f"{base}::")}
        own = {**members, **{name: text for name, text in values.items() if text != name}, **self.overrides}
        return HostScope(self.frame, self.given, self.sizes, self.asked, own)

    def _resolved(self, text: str) -> str:
        """``text`` as a number, if it is one."""
        try:
            return str(number_of(text, self))
        except UnknownValueError:
            return text

    # --- functions

    def call(self, name: str, template: Sequence[str], arguments: Sequence[str]) -> Value:
        short = name.rsplit("::", 1)[-1].rsplit(".", 1)[-1]
        if self.asked.depth >= _DEEPEST:
            raise UnknownValueError(f"{short} calls too deep")
        self.asked.depth += 1
        try:
            return self._called(short, template, arguments)
        except UnknownValueError:
            usual = _usual_function(short)
            if usual is None or len(arguments) != 2:
                raise
            return usual(*(number(evaluate(text, self)) for text in arguments))
        finally:
            self.asked.depth -= 1

    def _called(self, name: str, template: Sequence[str], arguments: Sequence[str]) -> Value:
        for source in self.frame.sources:
            macro = source.macros.get(name)
            if macro is not None and macro.parameters is not None:
                return evaluate(filled(macro, list(arguments)), self)
        for source in self.frame.sources:
            for function in source.functions:
                if function.name == name and len(function.parameters) >= len(arguments):
                    inner = Frame(
                        source, self.frame.project, function, 0, self.frame, tuple(arguments), tuple(template)
                    )
                    return self._returned(inner)
        raise UnknownValueError(f"{name}() is not known")

    def _returned(self, frame: Frame) -> Value:
        """What a function returns: its first return statement whose conditions hold."""
        assert frame.function is not None
        for start, text in returns(frame.function):
            at = Frame(
                frame.source, frame.project, frame.function, start, frame.caller, frame.arguments, frame.template
            )
            inner = _Called(at, self)
            if all(bool(evaluate(condition, inner)) == holds for condition, holds in at.locals.conditions):
                return evaluate(text, inner)
        raise UnknownValueError(f"{frame.function.name}() returns nothing known")

    # --- types

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
            if (found := self._template(name)) is not None:
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
        if source is None or self.asked.depth >= _DEEPEST:
            size = size_of_type(kind)
            return size, min(size, 16)
        inner = self._inside(source, base, split_template(rest.rsplit(">", 1)[0]) if opened else [])
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


def _usual_function(name: str) -> Callable[[Number, Number], Number] | None:
    """What a function or macro that the source does not show does, by its name."""
    if rounds_up(name):
        return lambda a, b: -(-a // b)
    return {"max": max, "min": min}.get(name.lower().lstrip("i_"))


class _Called(HostScope):
    """The scope inside a function that is evaluated: its caller is any scope."""

    def __init__(self, frame: Frame, outer: HostScope) -> None:
        super().__init__(frame, outer.given, Sizes(), outer.asked)
        self._from = outer

    def outer(self) -> HostScope:
        return self._from


def number_of(text: str, scope: HostScope) -> int:
    return math.trunc(number(evaluate(text, scope)))


def plain_expression(text: str) -> str:
    """``text`` without blanks and parentheses, to compare expressions."""
    return re.sub(r"[\s()]", "", text)
