"""What the sources around a kernel tell before the meaning of its parameters is known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.field_roles import own_name
from gemmsmith.problem import Problem
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.function_bodies import initial_values
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import UnknownValueError, evaluate_int
from gemmsmith.userfile.kernels.decisions import enumerated, with_called, with_numbers
from gemmsmith.userfile.kernels.struct_parameters import FlatParameter
from gemmsmith.userfile.launches.launch_site import launch_sites
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_choice import chosen
from gemmsmith.userfile.launches.site_roles import Roles
from gemmsmith.userfile.text.member_types import member_types
from gemmsmith.userfile.text.parts import KernelSource, SourceFile
from gemmsmith.userfile.text.preprocessor import expand

SAMPLE = Problem(1024, 1024, 1024)
_WORD = re.compile(r"[A-Za-z_]\w*")
Pairs = tuple[tuple[str, str], ...]


def problem_sizes(problem: Problem) -> dict[str, int]:
    """The sizes that host code may pass, by role."""
    return {
        "M": problem.m, "N": problem.n, "K": problem.k, "lda": problem.lda, "ldb": problem.ldb, "ldc": problem.ldc,
        "batch": problem.batch,
    }  # fmt: skip


class KernelFacts:
    """What the sources tell about one kernel before its parameters' meaning is known.

    reached    the kernel's body and those of the device functions that it calls
    given      the user's values of macros and template parameters
    """

    def __init__(self, project: Project, kernel: KernelSource, given: Pairs = ()) -> None:
        self.project, self.kernel, self.given = project, kernel, dict(given)
        self.sources = sources = project.sources(project.path)
        self.own = next(s for s in sources if s.path.resolve() == kernel.file.resolve())
        called = set(re.findall(r"\b(\w+)\s*[(<]", kernel.body))
        bodies = [
            f.body for s in (self.own, *sources) for f in s.functions if f.name in called and f.name != kernel.name
        ]
        self.reached = " ".join(dict.fromkeys([kernel.body, *bodies]))
        words = set(_WORD.findall(kernel.body)) - {parameter.name for parameter in kernel.parameters}
        self.constants_used = {name for source in sources for name in source.constants if name in words}

    @property
    def unread(self) -> frozenset[str]:
        """The parameters that the kernel's body does not name, its macros expanded."""
        unnamed = {parameter.name for parameter in self.kernel.parameters} - set(_WORD.findall(self.kernel.body))
        if not unnamed:
            return frozenset()
        return frozenset(unnamed - set(_WORD.findall(self.expanded)))

    def unread_members(self, flat: Sequence[FlatParameter]) -> frozenset[str]:
        """Of structs that are parameters, the scalars that neither the kernel names nor what it calls, methods too."""
        members = {each.name for each in flat if "." in each.name and not parameter_type(each.type, {}).is_integer}
        if not members:
            return frozenset()
        methods = [each.body for source in self.sources for each in source.functions if each.scope]
        words = set(_WORD.findall(" ".join((self.reached, self.expanded, *methods))))
        return frozenset(name for name in members if own_name(name) not in words)

    @cached_property
    def expanded(self) -> str:
        """The kernel's body, its macros expanded. One that has the name of a parameter is defined behind the kernel."""
        macros = {name: macro for source in reversed(self._near()) for name, macro in source.macros.items()}
        for parameter in self.kernel.parameters:
            macros.pop(parameter.name, None)
        return expand(self.kernel.body, macros)

    @cached_property
    def decisions(self) -> str:
        """The kernel's body as rules on what it decides read it: constants that it compares with are numbers; a
        parameter of an enumeration has all of its values."""
        scope = HostScope(Frame(self.own, self.project), {}, Sizes(), Asked())
        enums = {name: each for source in self.sources for name, each in source.enums.items()}
        text = with_called(self.kernel, [f for s in self.sources for f in s.functions])
        return with_numbers(text + enumerated(self.kernel, enums), scope)

    @property
    def macros(self) -> str:
        """What the macros with parameters that the kernel uses stand for."""
        words = set(re.findall(r"[A-Za-z_]\w*", self.reached))
        found = (macro.body for source in self.sources for name, macro in source.macros.items()
                 if macro.parameters is not None and name in words)  # fmt: skip
        return " ".join(found)

    def values(self, template: Mapping[str, str]) -> dict[str, int]:
        """Integers by name: the user's, the file's own constants, the template's values and defaults, the body's own.

        Defaults of other templates and constants of other functions are not among them.
        """
        defaults = self._called_with() | {p.name: p.default for p in self.kernel.template or () if p.default}
        texts = {name: text for source in reversed(self._near()) for name, text in source.constants.items()}
        texts |= {**defaults, **initial_values(self.kernel.body), **template, **self.given}
        scope = HostScope(Frame(self.own, self.project), texts, Sizes(), Asked())
        found = {}
        for name in texts:
            if "::" in name:
                continue
            try:
                found[name] = evaluate_int(name, scope)
            except (UnknownValueError, RecursionError):
                continue
        return found

    def _called_with(self) -> dict[str, str]:
        """Template arguments that the kernel passes on to device functions: ``matrix_mul<16>(…)``.

        A name that the kernel itself uses for a constant of its file keeps that value: ``wait<0>()`` of a
        ``template <int N>`` does not change N.
        """
        found: dict[str, str] = {}
        functions = {f.name: f for source in reversed(self._near()) for f in source.functions if f.template}
        for name, texts in re.findall(r"\b(\w+)\s*<([^;<>(){}]*)>\s*\(", self.kernel.body):
            if name in functions:
                for parameter, text in zip(functions[name].template or (), texts.split(","), strict=False):
                    if text.strip() != parameter.name and parameter.name not in self.constants_used:
                        found.setdefault(parameter.name, text.strip())
        return found

    def _near(self) -> tuple[SourceFile, ...]:
        """The kernel's own file first, then what is read with it."""
        return (self.own, *(source for source in self.sources if source is not self.own))

    def aliases(self, template: Mapping[str, str]) -> dict[str, str]:
        """Types by name: typedefs, macros, and values of the template's types (float where there is none)."""
        found: dict[str, str] = {}
        for source in reversed(self._near()):
            found |= {name: macro.body for name, macro in source.macros.items()
                      if macro.parameters is None and re.fullmatch(r"[A-Za-z_][\w:\s]*", macro.body)}  # fmt: skip
            found |= {**source.aliases, **{name: each.type for name, each in source.enums.items()}}
        for parameter in self.kernel.template or ():
            if parameter.kind == "typename":
                value = self.given.get(parameter.name) or template.get(parameter.name) or parameter.default or "float"
                found[parameter.name] = value
        return found | member_types(self.kernel, self._near(), found, bool(template or self.given))

    def site(self, roles: Roles) -> SiteValues | None:
        """The launch in host code that agrees with what the user gave and tells most."""
        return chosen(launch_sites(self.project, self.kernel), roles, self.given, problem_sizes(SAMPLE))
