"""Members of objects that host code makes: by a list, in a function that returns them, in a call that fills them in, in
a constructor."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gemmsmith.userfile.host.filling_calls import FillingCall
from gemmsmith.userfile.host.function_bodies import returns
from gemmsmith.userfile.host.host_frame import DEEPEST, Frame, Sizes
from gemmsmith.userfile.host.host_types import HostTypes
from gemmsmith.userfile.host.values import UnknownValueError, Value, evaluate
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.aggregate_values import listed_values
from gemmsmith.userfile.text.filled_parameters import is_filled, with_references
from gemmsmith.userfile.text.ternary import ternary, without_parentheses
from gemmsmith.userfile.text.type_text import base_type

if TYPE_CHECKING:
    from gemmsmith.userfile.text.parts import FunctionSource, SourceFile

_PATH = re.compile(r"[A-Za-z_][\w:]*(?:(?:\.|->)\w+)*")
_CALL = re.compile(r"([A-Za-z_][\w:]*)\s*(<.*>)?\s*([({])(.*)[)}]", re.S)
_PAIRS = frozenset({"make_pair", "make_tuple", "pair", "tuple"})
_ZERO = frozenset({"dynamicSmemBytes"})  # of structs of the runtime, where nothing is set
_PLACES = {"first": 0, "second": 1}  # of a std::pair


class HostObjects(HostTypes):
    """The objects of a scope."""

    sizes: Sizes
    owner = ""  # the object whose member function this place is in, as its caller calls it

    @abstractmethod
    def outer(self) -> HostObjects | None:
        """The caller's scope."""

    @abstractmethod
    def moved(self, start: int) -> HostObjects:
        """The scope at another place of the same function."""

    @abstractmethod
    def entered(self, frame: Frame, owner: str = "") -> HostObjects:
        """The scope inside a function that is called from here, as a member of the object ``owner`` if one is named."""

    @abstractmethod
    def inside(self, source: SourceFile, base: str, given: Sequence[str]) -> HostObjects: ...

    @abstractmethod
    def built(self, frame: Frame, bound: Sizes) -> HostObjects:
        """The scope inside a function whose caller is not known, for these sizes."""

    def functions(self, name: str, count: int) -> Iterator[tuple[SourceFile, FunctionSource]]:
        """The file's own functions of this name that take so many arguments."""
        for source in self.frame.sources:
            for function in source.functions:
                if function.name == name and len(function.parameters) >= count:
                    yield source, function

    def returned(self, frame: Frame, owner: str = "") -> tuple[str, HostObjects]:
        """What a function returns, and the scope there: its first return statement whose conditions hold."""
        assert frame.function is not None
        for start, text in returns(frame.function):
            at = replace(frame, start=start)
            inner = self.entered(at, owner)
            if all(bool(evaluate(condition, inner)) == holds for condition, holds in at.locals.conditions):
                return text, inner
        raise UnknownValueError(f"{frame.function.name}() returns nothing known")

    def called(self, source: SourceFile, function: FunctionSource, start: int, arguments: Sequence[str],
               template: Sequence[str] = ()) -> Frame:  # fmt: skip
        """A place in a function that is called from here."""
        return Frame(source, self.frame.project, function, start, self.frame, tuple(arguments), tuple(template))

    # --- members of an object that an expression gives

    def member(self, text: str, name: str, kind: str = "") -> Value:
        """The member ``name`` of the object ``text``, by its place where that is a number. ``kind`` is the object's
        type, where the text does not tell it."""
        text = without_parentheses(text)
        text = f"{{{text}}}" if kind and text.isdecimal() else text  # declarations of one element leave out its braces
        if (choice := ternary(text)) is not None:
            return self.member(choice[1] if evaluate(choice[0], self) else choice[2], name, kind)
        if _PATH.fullmatch(text):
            return self._member_of_path(text.replace("->", "."), name, kind)
        if (element := self._element(text)) is not None:
            return self.member(element, name, kind)
        if self.asked.depth >= DEEPEST:
            raise UnknownValueError(f"{text[:40]} is nested too deeply")
        self.asked.depth += 1
        try:
            return self._member_of_call(text, name, kind)
        finally:
            self.asked.depth -= 1

    def _member_of_path(self, path: str, name: str, kind: str) -> Value:
        if not name.isdecimal():
            told = self.told_at_file_scope(path)
            return self.member(told, name, kind) if told else self.value(f"{path}.{name}")
        own = [*self._fields(self.declared_type(path))]
        if int(name) < len(own):
            return self.value(f"{path}.{own[int(name)]}")
        variable = self.frame.locals.variables.get(path)
        if variable is None or not variable.value:
            raise UnknownValueError(f"{path} has no value")
        return self.member(variable.value, name, variable.type)

    def told_at_file_scope(self, name: str) -> str:
        """The list that a variable outside of functions is initialised with; empty if there is none."""
        if name in self.frame.locals.variables:
            return ""
        stores = (store for source in self.frame.sources for store in (source.constants, source.variables))
        found = next((store[name] for store in stores if name in store), "")
        return found if found.endswith(("}", ")")) else ""

    def _element(self, text: str) -> str | None:
        """The text of an element of an array: ``kPlans[1]``; None for other texts."""
        match = re.fullmatch(r"\(?(\w+)\)?\s*\[(.*)\]", text)
        if match is None:
            return None
        variable = self.frame.locals.variables.get(match[1])
        whole = variable.value if variable is not None else self.told_at_file_scope(match[1])
        place = evaluate(match[2], self)
        parts = split_template(whole[1:-1]) if whole.startswith("{") else []
        return parts[place] if isinstance(place, int) and 0 <= place < len(parts) else None

    def _member_of_call(self, text: str, name: str, kind: str) -> Value:
        call = _CALL.fullmatch(f"{kind}{text}" if text.startswith("{") else text)
        if call is None:
            raise UnknownValueError(f"{text!r} is no object")
        called, arguments = call[1].rsplit("::", 1)[-1], split_template(call[4])
        if called == "move":
            return self.member(arguments[0], name, kind)
        first, _, rest = name.partition(".")
        kinds = self._fields(called)
        first = [*kinds][int(first)] if first.isdecimal() and int(first) < len(kinds) else first
        for source, function in self.functions(called, len(arguments)):
            template = split_template(call[2][1:-1]) if call[2] else ()
            if function.scope.rsplit("::", 1)[-1] == called:  # a constructor
                end = self.called(source, function, len(function.body), arguments, template)
                return self.entered(end).value(f"{first}.{rest}" if rest else first)
            made, inner = self.returned(self.called(source, function, 0, arguments, template))
            return inner.member(made, name, returned_type(function))
        if called in _PAIRS:
            place = int(first) if first.isdecimal() else _PLACES.get(first, len(arguments))
            found = arguments[place] if place < len(arguments) else ""
        else:
            found = listed_values(arguments, [*kinds]).get(first, "")
        if not found and (first in kinds or first in _ZERO):
            return self._default(called, first, kinds.get(first, ""), is_zero=call[3] == "{")
        if not found:
            raise UnknownValueError(f"{text[:40]} has no member {first}")
        return self.member(found, rest) if rest else evaluate(found, self)

    def _default(self, owner: str, name: str, kind: str, is_zero: bool) -> Value:
        """The value of a member that a list leaves out: its own default, or else what empty braces make of its type."""
        try:
            return self.inside_class(owner).value(name)
        except UnknownValueError:
            if kind.endswith("dim3"):
                return 1, 1, 1
            if not is_zero:
                raise
            return 0

    def _fields(self, kind: str) -> dict[str, str]:
        """The data members of a class with their types, in order."""
        kind = re.sub(r"<.*", "", self.type_of(kind)).rstrip("&* ").rsplit("::", 1)[-1].rsplit(" ", 1)[-1]
        found = next((source.class_fields[kind] for source in self.frame.sources if kind in source.class_fields), ())
        return {field.name: field.type for field in found}

    def inside_class(self, kind: str) -> HostObjects:
        """The scope inside a class, where its members have the values that they are declared with."""
        source = next((source for source in self.frame.sources if kind in source.class_fields), None)
        if source is None:
            raise UnknownValueError(f"{kind} is not declared")
        return self.inside(source, kind, ())

    # --- what a call stores in an argument

    def filled(self, name: str) -> Value | None:
        """The value that a call before this place gives a variable, or a member of it; None if no call does."""
        owner = re.split(r"[.\[]", name)[0]
        call = self.frame.locals.filled.get(owner)
        if call is None or name in call.since:
            return None
        before = self.moved(call.start)
        for source, function in before.functions(call.function, len(call.arguments)):
            parameter = function.parameters[call.place]
            if not is_filled(parameter.type, call.by_address):
                return self._with_later_axes(before.value(name), name, call)
            end = before.called(source, with_references(function), len(function.body), call.arguments)
            found = before.entered(end).value(parameter.name + name.removeprefix(owner))
            return self._with_later_axes(found, name, call)
        return None

    def _with_later_axes(self, found: Value, name: str, call: FillingCall) -> Value:
        """A dim3 of which this function sets some axes after the call."""
        if not isinstance(found, tuple):
            return found
        paths = [f"{name}.{axis}" for axis in "xyz"[: len(found)]]
        return tuple(self.value(path) if path in call.since else each for path, each in zip(paths, found, strict=False))

    # --- members of the class whose function this place is in

    def of_own_class(self, name: str) -> Value | None:
        """The value of a data member of the class that this place is in; None if it is none, or is not assigned."""
        scope = self.frame.function.scope if self.frame.function is not None else ""
        if name.partition(".")[0] not in self._fields(scope):
            return None
        if self.owner and (caller := self.outer()) is not None:
            return caller.member(self.owner, name)
        return self._assigned_in_class(scope, name, "")

    def of_object(self, path: str) -> Value | None:
        """The value of a member of an object that an unknown caller passes, as its class tells it; else None."""
        owner, _, member = path.partition(".")
        kind = base_type(self.declared_type(owner))
        return self._assigned_in_class(kind, member, f"{owner}.") if member and self._fields(kind) else None

    def _assigned_in_class(self, kind: str, name: str, prefix: str) -> Value | None:
        """What a function of a class, its constructor if several do, assigns to a data member; None if that is not
        clear. ``prefix`` stands before the members in this place's names for the sizes."""
        last, owner = kind.rsplit("::", 1)[-1], name.partition(".")[0]
        ends = []
        for source in self.frame.sources:
            for other in source.functions:
                if other.scope.rsplit("::", 1)[-1] != last or other == self.frame.function:
                    continue
                end = Frame(source, self.frame.project, other, len(other.body))
                if owner in other.head + other.body and end.locals.assigns(name):
                    ends.append(end)
        constructors = [end for end in ends if end.function is not None and end.function.name == last]
        chosen = constructors if len(ends) > 1 else ends
        if len(chosen) != 1:
            return None
        return self.built(chosen[0], self._sizes_in(chosen[0], prefix)).value(name)

    def _sizes_in(self, end: Frame, prefix: str) -> Sizes:
        """The sizes by the names that a function of a class has for them: ``m`` after ``rows_ = m;``."""
        bound = {
            name.removeprefix(prefix): sizes for name, sizes in self.sizes.bound.items() if name.startswith(prefix)
        }
        for name, sizes in tuple(bound.items()):
            variable = end.locals.variables.get(name)
            if variable is not None and variable.value.isidentifier():
                bound.setdefault(variable.value, sizes)
        return replace(self.sizes, bound=bound)

    def sizes_of_members(self, frame: Frame) -> Sizes:
        """The sizes that members of this class stand for, where ``frame`` is in another function of it."""
        here, there = self.frame.function, frame.function
        if here is None or there is None or not here.scope or here.scope != there.scope:
            return Sizes()
        own = self._fields(here.scope.rsplit("::", 1)[-1])
        return Sizes({name: sizes for name, sizes in self.sizes.bound.items() if name.partition(".")[0] in own})


def returned_type(function: FunctionSource) -> str:
    """The type that a function returns, as its head spells it."""
    trailing = re.search(r"->\s*([\w:]+)\s*$", function.head)
    before = re.search(
        rf"([\w:]+)\s*(?:<[^;(){{}}]*>)?[\s&*]+(?:\w+\s*::\s*)*{re.escape(function.name)}\s*\(", function.head
    )
    found = trailing or before
    return found[1] if found is not None else ""
