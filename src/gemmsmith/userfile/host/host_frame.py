"""A place in host code with the calls that lead there, and the sizes of the problem by their names at that place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.host_scope import LocalScope, local_scope
from gemmsmith.userfile.text.parts import FunctionSource, SourceFile

DEEPEST = 24  # names and calls followed for one value


@dataclass(frozen=True, eq=False)
class Frame:
    """A place in a function's body (``function`` None: file scope), and the call that leads there.

    arguments, template  as written at the call, in the scope of ``caller``; an explicit instantiation has no caller
    chosen               names that have other values here than their declarations say, with types and texts: those of
                         the element of a table that is launched
    when                 further conditions: those that choose what is launched, and whether they hold
    """

    source: SourceFile
    project: Project
    function: FunctionSource | None = None
    start: int = 0
    caller: Frame | None = None
    arguments: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    chosen: tuple[tuple[str, str, str], ...] = ()
    when: tuple[tuple[str, bool], ...] = ()

    @cached_property
    def locals(self) -> LocalScope:
        scope = local_scope(self.function, self.start) if self.function is not None else LocalScope()
        scope = scope.with_values(self.chosen) if self.chosen else scope
        return replace(scope, conditions=[*scope.conditions, *self.when]) if self.when else scope

    @cached_property
    def sources(self) -> tuple[SourceFile, ...]:
        """This file, the headers that it includes, then what else the user's file includes."""
        reached = (self.source, *self.project.sources(self.source.path)[1:])
        paths = {source.path for source in reached}
        return (*reached, *(s for s in self.project.sources(self.project.path) if s.path not in paths))

    @cached_property
    def reached(self) -> tuple[SourceFile, ...]:
        """The sources of this place and of the calls that lead there: callers may define configurations."""
        return self.sources if self.caller is None else (*self.sources, *self.caller.reached)


@dataclass
class Asked:
    """Whether a size of the problem was used, whether the number of SMs was assumed, or a number of parts of K, and how
    deep the evaluation is."""

    sized: bool = False
    assumed: bool = False
    parts: bool = False
    depth: int = 0


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem: by path in this frame (``bound``), by whole expressions, by usual names where the source
    tells no value, and by numbers that stand for them (``literals``)."""

    bound: Mapping[str, frozenset[int | Fraction]] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)
    expressions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    literals: Mapping[int, frozenset[int]] = field(default_factory=dict)
