"""What names and functions mean at a place in host code: variables, parameters, constants, the user's own functions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gemmsmith.kernel.expressions import rounds_up
from gemmsmith.userfile.host.assumed_parts import ASSUMED_PARTS, is_number_of_parts
from gemmsmith.userfile.host.changed_values import chosen, is_known, looped
from gemmsmith.userfile.host.cute_values import cute_call
from gemmsmith.userfile.host.device_properties import SMS, device_property, is_number_of_blocks, is_of_device
from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.host.host_execution import counted, executed
from gemmsmith.userfile.host.host_frame import DEEPEST, Asked, Frame, Sizes
from gemmsmith.userfile.host.host_objects import HostObjects
from gemmsmith.userfile.host.host_scope import LocalScope
from gemmsmith.userfile.host.host_types import number_of
from gemmsmith.userfile.host.local_lambdas import returned_text
from gemmsmith.userfile.host.map_constants import MAP_CONSTANTS
from gemmsmith.userfile.host.values import Number, UnknownValueError, Value, converted, evaluate, number
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.aggregate_values import member_text
from gemmsmith.userfile.text.declared import Variable
from gemmsmith.userfile.text.macro_constants import macro_constant
from gemmsmith.userfile.text.parts import KernelParameter, SourceFile, TemplateParameter
from gemmsmith.userfile.text.preprocessor import filled
from gemmsmith.userfile.text.type_text import deduced

_ASKED = {("extent", "0"): "rows", ("extent", "1"): "cols", ("stride", "0"): "stride", ("size", "0"): "rows",
          ("size", "1"): "cols", ("size", "-2"): "rows", ("size", "-1"): "cols"}  # of views  # fmt: skip
_VECTORS = frozenset({"array", *(f"{make}{kind}{n}" for make in ("", "make_") for kind in ("int", "uint", "longlong")
                                 for n in (2, 4))})  # fmt: skip
_COMMAND_LINE = re.compile(r"\bargv\b|\bgetenv\b")


class HostScope(HostObjects):
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
        own = name in self.overrides and name not in self._open  # a class's own N is not the product's
        if name in self.sizes.bound and not own:
            self.asked.sized = True
            if len(self.sizes.bound[name]) > 1:
                raise UnknownValueError(f"{name} stands for several sizes")
            return min(self.sizes.bound[name])
        if name not in self._open and self.asked.depth < DEEPEST:
            self._open.add(name)
            self.asked.depth += 1
            try:
                return self._defined(name)
            except UnknownValueError:
                if name not in self.sizes.usual and not (is_of_device(name) or self._is_chosen(name)):
                    raise
            finally:
                self._open.discard(name)
                self.asked.depth -= 1
        if name in self.sizes.usual:
            self.asked.sized = True
            return self.sizes.usual[name]
        return self._assumed(name)

    def _is_chosen(self, name: str) -> bool:
        """Whether callers choose it: a number of parts of K, or of blocks."""
        return (is_number_of_blocks(name) and self._is_left_to_callers(name)) or self._is_number_of_parts(name)

    def _is_left_to_callers(self, name: str) -> bool:
        """Whether it is a parameter of the host function, which gives it no other value."""
        return self._is_parameter(name) and name not in self.frame.locals.variables

    def _is_parameter(self, name: str) -> bool:
        parameters = self.frame.function.parameters if self.frame.function is not None else ()
        return any(each.name == name for each in parameters)

    def _is_number_of_parts(self, name: str) -> bool:
        """Whether it is a parameter of the host function with a name for a number of parts of K, or a member of one, or
        a variable that the command line sets."""
        variable, changed = self.frame.locals.variables.get(name), name in self.frame.locals.changed
        given = variable is not None and _COMMAND_LINE.search(variable.value) is not None
        owner, _, own = name.rpartition(".")
        left = self._is_left_to_callers(owner or name) and not self.frame.locals.assigns(name)
        return (left or given) and not changed and is_number_of_parts(own)

    def _assumed(self, name: str) -> int:
        """Properties of the device, which host code asks the driver for; a number of parts that its callers choose."""
        if self._is_number_of_parts(name):
            self.asked.parts = True
            return ASSUMED_PARTS
        found = device_property(name)
        if found is None:
            raise UnknownValueError(f"{name} has no value")
        self.asked.assumed |= found[0] == SMS
        return found[1]

    def whole(self, text: str) -> Value | None:
        """The size that a whole expression stands for: ``B * T`` or ``dims[0]``, if the launch passes that for M."""
        spelled = self.sizes.expressions.get(plain_expression(text)) if self.sizes.expressions else None
        found = spelled or self.sizes.bound.get(path_of(text))
        if found is None:
            return None
        self.asked.sized = True
        if len(found) > 1:
            raise UnknownValueError(f"{text} stands for several sizes")
        return min(found)

    def meant(self, spelled: Number) -> Number:
        """A number of the source, or the size that it stands for."""
        found = self.sizes.literals.get(int(spelled)) if self.sizes.literals and spelled == int(spelled) else None
        if found is None:
            return spelled
        self.asked.sized = True
        if len(found) > 1:
            raise UnknownValueError(f"{spelled} stands for several sizes")
        return min(found)

    def _defined(self, name: str) -> Value:
        for texts in (self.given, self.overrides):
            if name in texts:
                return evaluate(texts[name], self)
        if (stored := self.filled(name)) is not None:
            return stored
        scope = self.frame.locals
        if name in scope.members and name not in scope.changed:
            return evaluate(scope.members[name].value, self)
        if name in scope.variables or name in scope.changed:
            return self._local(name, scope)
        if (parts := self._axes(name)) is not None:
            return parts
        owner, _, member = name.partition(".")
        listed = scope.variables.get(owner) if member and not scope.is_changed(owner) else None
        if listed is not None and (text := member_text(listed, member, self.frame.sources)):
            return evaluate(text, self)
        if listed is not None and (listed.value or listed.type):
            return self.member(listed.value or f"{listed.type}{{}}", member, listed.type)
        for condition, holds in scope.conditions:
            if holds and (match := re.fullmatch(rf"(?:.*&&\s*)?\(?\s*{re.escape(name)}\s*==\s*(\w+)\s*\)?", condition)):
                return evaluate(match[1], self)
        if name in scope.passed:
            text, start = scope.passed[name]
            return evaluate(text, self.moved(start))
        if (found := self._parameter(name)) is not None:
            text, outer = found
            return evaluate(text.removeprefix("&"), outer)
        if member and self.outer() is None and (held := self.of_object(name)) is not None:
            return held
        if member and (found := self._parameter(owner)) is not None:
            text, outer = found
            return outer.member(text.removeprefix("&"), member)
        if (found := self.template_text(name)) is not None:
            text, outer = found
            return evaluate(text, outer)
        if (held := self.of_own_class(name)) is not None:
            return held
        if member and (told := self.told_at_file_scope(owner)):
            return self.member(told, member)
        return self._constant(name)

    def _axes(self, name: str) -> Value | None:
        """A dim3 that is no variable of this function, as a member, whose axes are set one by one; None for others."""
        members = self.frame.locals.members
        paths = [f"{name}.{axis}" for axis in "xyz"]
        if not any(path in members for path in paths):
            return None
        return tuple(math.trunc(number(self.value(path))) if path in members else 1 for path in paths)

    def _local(self, name: str, scope: LocalScope) -> Value:
        variable = scope.variables.get(name)
        own = self.frame.function
        if own is not None and name in counted(own, self.frame.start) and (value := executed(self, name)) is not None:
            return value
        if name in scope.loops and len(scope.changed[name]) == 1 and (value := looped(self, name)) is not None:
            return value
        if name in scope.changed and (value := chosen(self, name)) is not None:
            return value
        for text in scope.changed.get(name, ()):
            if text is None:
                raise UnknownValueError(f"{name} changes before the launch")
            if is_known(self, name, text):
                raise UnknownValueError(f"{name} is decided at run time")
            # Read from the command line, for example: the initial value stands.
        if variable is None:
            found = self._parameter(name)
            if found is None:
                return self._constant(name)
            return evaluate(found[0], found[1])
        text = self._with_members(variable, scope)
        if not text:
            raise UnknownValueError(f"{name} has no value")
        return converted(variable.type, evaluate(text, self))

    def where(self, texts: Mapping[str, str]) -> HostScope:
        """The same scope, where these names have these values."""
        given = {name: text for name, text in self.given.items() if name not in texts}
        return HostScope(self.frame, given, self.sizes, self.asked, {**self.overrides, **texts})

    def before_changes(self, name: str) -> Value:
        """The value that a variable is declared with, or that a parameter was passed."""
        scope = self.frame.locals
        if any(member.startswith(f"{name}.") for member in scope.members):
            raise UnknownValueError(f"members of {name} are assigned, before its changes or after them")
        variable, is_parameter = scope.variables.get(name), self._is_parameter(name)
        if variable is not None and not (is_parameter and not variable.type):  # without a type: assigned later
            return converted(variable.type, evaluate(variable.value, self))
        if self.frame.caller is None and is_parameter and is_number_of_parts(name):
            self.asked.parts = True
            return ASSUMED_PARTS  # before host code clamps it
        if (found := self._parameter(name)) is None:
            raise UnknownValueError(f"{name} has no value")
        return evaluate(found[0], found[1])

    def _with_members(self, variable: Variable, scope: LocalScope) -> str:
        """A dim3 whose parts are set one by one."""
        parts = [scope.members.get(f"{variable.name}.{axis}") for axis in "xyz"]
        if variable.type.split()[-1:] != ["dim3"]:
            return variable.value
        if not any(parts) and (variable.value or variable.name in scope.filled):  # by a function that is not known
            return variable.value
        whole = split_template(variable.value[variable.value.find("(") + 1 : -1]) if "(" in variable.value else []
        whole += ["1"] * (3 - len(whole))
        return f"dim3({', '.join(part.value if part else whole[i] for i, part in enumerate(parts))})"

    def moved(self, start: int) -> HostScope:
        """The scope at another place of the same function."""
        frame = replace(self.frame, start=start)
        return HostScope(frame, self.given, self.sizes, self.asked, self.overrides)

    def entered(self, frame: Frame, owner: str = "") -> HostScope:
        return CalledScope(frame, self, owner)

    def built(self, frame: Frame, bound: Sizes) -> HostScope:
        return HostScope(frame, self.given, bound, self.asked)

    def outer(self) -> HostScope | None:
        """The caller's scope; sizes bound to parameters here are bound to its arguments there."""
        if self.frame.caller is None:
            return None
        bound: dict[str, frozenset[Number]] = {}
        for parameter, text in self._passed():
            if parameter.name in self.sizes.bound:
                bound[path_of(text)] = bound.get(path_of(text), frozenset()) | self.sizes.bound[parameter.name]
        sizes = Sizes(bound, self.sizes.usual, literals=self.sizes.literals)
        return HostScope(self.frame.caller, self.given, sizes, self.asked)

    def _passed(self) -> list[tuple[KernelParameter, str]]:
        function = self.frame.function
        return list(zip(function.parameters, self.frame.arguments, strict=False)) if function else []

    def passed_for(self, name: str) -> tuple[str, HostScope] | None:
        """The text that stands for a parameter or template parameter, and the scope in which it is written."""
        found = self._parameter(name)
        return found if found is not None else self.template_text(name)

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

    def template_text(self, name: str) -> tuple[str, HostScope] | None:
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
        for of_classes in (False, True):
            for source in self.frame.sources:
                for store in (source.constants, source.variables):
                    for spelling in spellings:
                        if spelling in store and (of_classes or spelling not in source.members):
                            return evaluate(store[spelling], self)
        if "::" in name:
            return self._member(name)
        if text := macro_constant(name, self.frame):
            return evaluate(text, self)
        if name in MAP_CONSTANTS:
            return MAP_CONSTANTS[name]
        raise UnknownValueError(f"{name} has no value")

    def _member(self, name: str) -> Value:
        """``Config::BM``, where Config is an alias or a template with arguments."""
        owner, _, member = name.rpartition("::")
        kind = self.type_of(owner)
        base, opened, rest = kind.partition("<")
        base = base.strip().rsplit("::", 1)[-1]
        for source in self.frame.reached:
            text = source.constants.get(f"{base}::{member}")
            if text is None:
                continue
            inner = self.inside(source, base, split_template(rest.rsplit(">", 1)[0]) if opened else [])
            return evaluate(text, inner)
        spelled = name.rsplit("::", 1)[-1]
        if kind == owner and spelled != name and "<" not in name:
            return self.value(spelled)  # a namespace that the file does not show
        raise UnknownValueError(f"{name} has no value")

    def inside(self, source: SourceFile, base: str, given: Sequence[str]) -> HostScope:
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
        if self.asked.depth >= DEEPEST:
            raise UnknownValueError(f"{short} calls too deep")
        self.asked.depth += 1
        try:
            return self._called(short, template, arguments, path_of(name).rpartition(".")[0])
        except UnknownValueError:
            if (found := self._asked_of(name, arguments)) is not None:
                return found
            if re.search(r"\.|->", name):  # CuTe's size(x) is not a tensor's: x.size(0)
                raise
            usual = _usual_function(short)
            if usual is None or len(arguments) != 2:
                return cute_call(short, template, arguments, self)
            return usual(*(number(evaluate(text, self)) for text in arguments))
        finally:
            self.asked.depth -= 1

    def _asked_of(self, name: str, arguments: Sequence[str]) -> Value | None:
        """What a matrix says about itself, where its fields are known: ``C.rows()``, ``C.extent(1)``."""
        owner, _, member = path_of(name).rpartition(".")
        field = _ASKED.get((member, arguments[0].strip()), "") if len(arguments) == 1 else member
        if not owner or not field or len(arguments) > 1:
            return None
        for path in (f"{owner}.{field}", f"{owner}.{field}_", f"{owner}.m_{field}", f"{owner}._{field}"):
            if path in self.sizes.bound:
                return self.value(path)
        return None

    def _called(self, name: str, template: Sequence[str], arguments: Sequence[str], owner: str) -> Value:
        for source in self.frame.sources:
            macro = source.macros.get(name)
            if macro is not None and macro.parameters is not None:
                return evaluate(filled(macro, list(arguments)), self)
        variable = self.frame.locals.variables.get(name)
        if variable is not None and (made := returned_text(variable.value)) is not None:
            passed = (str(number(evaluate(text, self))) for text in arguments)
            return evaluate(made[1], self.where({key: f"({text})" for key, text in zip(made[0], passed, strict=True)}))
        if name in _VECTORS:
            return tuple(evaluate(text, self) for text in arguments)
        if name == "get" and len(arguments) == 1 and template:
            return self.member(arguments[0], str(number_of(template[0], self)))
        for source, function in self.functions(name, len(arguments)):
            text, inner = self.returned(self.called(source, function, 0, arguments, template), owner)
            if text.startswith("{") and "dim3" not in function.head:
                raise UnknownValueError(f"{name}() returns an object")
            return evaluate(text, inner)
        raise UnknownValueError(f"{name}() is not known")


def _usual_function(name: str) -> Callable[[Number, Number], Number] | None:
    """What a function or macro that the source does not show does, by its name."""
    if rounds_up(name):
        return lambda a, b: -(-a // b)
    return {"max": max, "min": min}.get(name.lower().lstrip("i_"))


class CalledScope(HostScope):
    """The scope inside a function that is evaluated: its caller is any scope."""

    def __init__(self, frame: Frame, outer: HostScope, owner: str = "") -> None:
        super().__init__(frame, outer.given, outer.sizes_of_members(frame) if not owner else Sizes(), outer.asked)
        self._from = outer
        self.owner = owner

    def outer(self) -> HostScope:
        return self._from

    def moved(self, start: int) -> HostScope:
        return type(self)(replace(self.frame, start=start), self._from, self.owner)


class LambdaScope(CalledScope):
    """The scope inside a lambda, which also sees the variables around it."""

    def value(self, name: str) -> Value:
        try:
            return super().value(name)
        except UnknownValueError:
            return self._from.value(name)


def plain_expression(text: str) -> str:
    """``text`` without blanks and parentheses, to compare expressions."""
    return re.sub(r"[\s()]", "", text)
