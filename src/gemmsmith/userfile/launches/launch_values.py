"""Values at a launch site: template arguments, grid, block, shared memory, cluster; and where each comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from gemmsmith.errors import UsageError
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.role_names import extent_role
from gemmsmith.kernel.signature import formula_value, is_formula
from gemmsmith.userfile.host.argument_text import last_value, uncast, with_values
from gemmsmith.userfile.host.batch_names import batch_names
from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_loops import changed_around
from gemmsmith.userfile.host.host_values import HostScope, plain_expression
from gemmsmith.userfile.host.usual_sizes import UsualSizes
from gemmsmith.userfile.host.values import UnknownValueError, evaluate, evaluate_int, number
from gemmsmith.userfile.kernels.span_parameters import without_accessor
from gemmsmith.userfile.kernels.struct_parameters import flat_arguments
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_triple import NoBlocksError, triple
from gemmsmith.userfile.launches.literal_extents import LEAST, literal_extents, shown
from gemmsmith.userfile.launches.product_axis import grid_counter
from gemmsmith.userfile.launches.site_roles import Roles
from gemmsmith.userfile.launches.template_values import is_open, is_placeholder, is_undecided, template_value
from gemmsmith.userfile.text.type_text import deduced

_EXTENTS = ("M", "N", "K")
_MANY = 1 << 16  # rows or columns: more than one tile, whatever its size is


def _paths_in(texts: Iterable[str]) -> set[str]:
    """Names, and members by their whole path: "config.batches"."""
    return {path_of(name) for text in texts for name in re.findall(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*", text)}


@dataclass(frozen=True)
class SiteValues:
    """A launch site for given values of the user's and of the kernel's template parameters."""

    site: LaunchSite
    roles: Roles
    given: Mapping[str, str]

    def scope(self, sizes: Mapping[str, int], asked: Asked) -> HostScope:
        """The scope at the site for a problem of ``sizes``."""
        return HostScope(self.site.frame, self.given, self.bound_sizes(sizes), asked, self.overrides())

    def computed(self) -> tuple[str, ...]:
        """The arguments as texts; a variable is replaced by the expression that it is initialised with, a parameter
        without a role by the number that callers pass."""
        scope = self.site.frame.locals
        kept = {t for role, t in zip(self.roles.roles, self.site.arguments, strict=False) if role in _EXTENTS}
        found = []
        for i, text in enumerate(self.site.arguments):
            if text.isidentifier() and (last := last_value(text, scope)):
                part = "?" in last and set(re.findall(r"\w+", last)) & changed_around(self.site.frame)  # the rest of K
                found.append(text if part else with_values(last, scope, kept - {text}))
            elif re.search(r"\w\s*[-+*/%?]", text):
                number = self._passed_number(text)
                found.append(with_values(text, scope, kept) if number == text else number)
            else:
                role = self.roles.roles[i] if i < len(self.roles.roles) else ""
                found.append(text if role and self.roles.roles.count(role) == 1 else self._passed_number(text))
        return tuple(found)

    def _passed_number(self, text: str) -> str:
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        is_literal = not names or re.match(r"[-+]?\.?\d", text)  # 0.5f stays a half
        of_size = not text.isidentifier() and names.intersection(self.site.arguments)
        if is_literal or of_size or (text.isidentifier() and self.site.frame.caller is None):
            return text
        asked = Asked()
        try:
            value = number(evaluate(text, self.scope({}, asked)))
        except (UsageError, RecursionError, TypeError):  # a struct is no number
            return text
        return text if asked.sized else str(int(value) if value == int(value) else value)

    def bound_sizes(self, sizes: Mapping[str, int]) -> Sizes:
        """The sizes by the names that host code has for them."""
        bound: dict[str, frozenset[int]] = {}
        leading: dict[str, frozenset[int]] = {}
        whole: dict[str, frozenset[int]] = {}
        known: dict[str, set[str]] = {}  # extents by the name that is passed for them
        exact = {key: value for role, value in sizes.items() if role in _EXTENTS for key in (role, role.lower())}
        passed = self.site.arguments
        if self.roles.places:
            passed = flat_arguments(passed, self.roles.names, self.roles.places)
        for i, (role, text) in enumerate(zip(self.roles.roles, passed, strict=False)):
            if role not in sizes and is_formula(role) and self._paths(text):
                bound |= {path: frozenset({formula_value(role, sizes)}) for path in self._paths(text)}
            if role not in sizes:
                continue
            if i < len(self.roles.names) and role in _EXTENTS:
                exact[self.roles.names[i]] = sizes[role]
            store = bound if role in _EXTENTS else leading
            paths = self._paths(text)
            for path in paths:
                store[path] = store.get(path, frozenset()) | {sizes[role]}
                known.setdefault(path, set()).update({role} & set(_EXTENTS))
            if not paths and role in _EXTENTS and re.search(r"[A-Za-z_]", text):
                key = plain_expression(text)
                whole[key] = whole.get(key, frozenset()) | {sizes[role]}
        for path, extents in known.items():
            if len(extents) == 2 and "K" in extents:  # grids are written with extents of C
                bound[path] = frozenset(sizes[role] for role in extents - {"K"})
        bound |= self._same_number(bound) if len(set(_EXTENTS) & set(self.roles.roles)) in (1, 3) else {}
        if "batch" in sizes and "batch" not in self.roles.roles:
            for path in self._batch_paths():
                bound.setdefault(path, frozenset({sizes["batch"]}))
        if "M" in sizes and "M" not in self.roles.roles:
            whole.setdefault("B*T", frozenset({sizes["M"]}))  # a transformer's rows: batch times sequence
        return Sizes({**leading, **bound}, UsualSizes(exact, sizes), whole)

    def _same_number(self, bound: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
        """Variables called after an extent that the launch does not pass, and that hold the number of one that it does:
        ``int N = 256, M = 256;`` with a grid of N and M and a launch for N, N and N."""
        scope = self.site.frame.locals
        still = {name: variable.value for name, variable in scope.variables.items() if name not in scope.changed}
        held = {name: text for name, text in still.items() if text.isdecimal() and int(text) > LEAST}
        passed = {held[path]: sizes for path, sizes in bound.items() if path in held}
        return {name: passed[value] for name, value in held.items()
                if name not in bound and value in passed and extent_role(name)}  # fmt: skip

    def _batch_paths(self) -> list[str]:
        """Host code's names for the number of products, where only the grid tells it: `const int batch = 4` is as good
        as `const int M = 512`. The kernel has strides of a batch, or takes a third index of blocks."""
        counted = [self.counter] if self.counter else []
        if "strideA" not in self.roles.roles and "blockIdx.z" not in self.site.kernel.body:
            return counted
        held = {name: variable.value for name, variable in self.site.frame.locals.variables.items()}
        texts = (*self.site.configuration, *held, *held.values())
        return [*batch_names(_paths_in(texts), self.site.configuration, held), *counted]

    @cached_property
    def counter(self) -> str:
        """Host code's variable that counts products in the grid alone; empty for none."""
        grid = self.site.configuration[0]
        variable = self.site.frame.locals.variables.get(grid)
        extents = [name for role, name in zip(self.roles.roles, self.roles.names, strict=False) if role in _EXTENTS]
        return grid_counter(self.site.kernel.body, variable.value if variable else grid, self.site.arguments, extents)

    def _paths(self, text: str) -> list[str]:
        """The variable that is passed, and those that it is a plain copy of."""
        found: list[str] = []
        for _ in range(4):
            while (bare := uncast(text)) != text:
                text = bare
            path = path_of(text)
            if not re.fullmatch(r"[A-Za-z_][\w.]*(?:\[\w+\])?", path) or path in found:
                break
            found.append(path)
            owner, _, member = path.partition(".")
            variable = self.site.frame.locals.variables.get(path) or self.site.frame.locals.variables.get(owner)
            if variable is None:
                break
            text = variable.value
            if variable.name != path:  # a field of an accessor, which tells it of its tensor
                text = f"{tensor}.{member}" if (tensor := without_accessor(text)) != text else ""
        return found

    def scalar_paths(self) -> list[tuple[str, str]]:
        """Alpha and beta with the variables that are passed for them."""
        passed = self.site.arguments
        if self.roles.places:
            passed = flat_arguments(passed, self.roles.names, self.roles.places)
        pairs = zip(self.roles.roles, passed, strict=False)
        return [(role, path) for role, text in pairs if role in ("alpha", "beta") for path in self._paths(text)]

    def overrides(self) -> dict[str, str]:
        """Names at the site that are passed for template parameters with a given value."""
        return {
            text: self.given[parameter.name]
            for parameter, text in zip(self.site.kernel.template or (), self.site.template, strict=False)
            if parameter.name in self.given and text.isidentifier()
        }

    # --- template arguments

    def template(self) -> tuple[dict[str, str], list[str]]:
        """The template arguments that the site tells, by name, and the names of those that it leaves open."""
        scope = self.scope({}, Asked())
        found: dict[str, str] = {}
        left = []
        parameters = self.site.kernel.template or ()
        for i, parameter in enumerate(parameters):
            if parameter.name in self.given or parameter.pack:
                continue
            if i < len(self.site.template):
                value = template_value(parameter, self.site.template[i], scope)
            else:
                value = self._deduced(parameter.name, scope)
                if not value and parameter.default:
                    continue
            if value:
                found[parameter.name] = value
            else:
                left.append(parameter.name)
        return found, left

    def _deduced(self, name: str, scope: HostScope) -> str:
        """A type that the kernel's arguments tell."""
        for parameter, text in zip(self.site.kernel.parameters, self.site.arguments, strict=False):
            if re.search(rf"\b{re.escape(name)}\b", parameter.type) and (
                kind := deduced(name, parameter.type, scope.declared_type(text))
            ):
                return "" if is_open(kind, self.site.frame) or is_placeholder(kind, scope) else kind
        return ""

    def agrees(self) -> bool:
        """Whether the site passes what the user gave."""
        scope = self.scope({}, Asked())
        for parameter, text in zip(self.site.kernel.template or (), self.site.template, strict=False):
            if parameter.name not in self.given or text.isidentifier():
                continue
            given = self.given[parameter.name]
            if parameter.kind == "typename":
                if scope.type_of(text) != given:
                    return False
                continue
            try:
                if evaluate_int(text, scope) != evaluate_int(given, scope):
                    return False
            except UnknownValueError:
                if text != given and not is_undecided(text, self.site.frame):
                    return False
        return True

    def passes_others(self) -> bool:
        """Whether the site passes other template arguments than the given ones, as named constants for example."""
        names = {parameter.name for parameter in self.site.kernel.template or ()} & set(self.given)
        plain = replace(self, given={name: value for name, value in self.given.items() if name not in names})
        passed = plain.template()[0] if names else {}
        return any(passed.get(name, self.given[name]) != self.given[name] for name in names)

    # --- geometry

    def extent(self, index: int, sizes: Mapping[str, int]) -> tuple[Dim3, Asked]:
        """The grid (0) or block (1), and whether it depends on a size; raises ``UsageError`` if it is not known."""
        asked = Asked()
        text = self.site.configuration[index]
        if not text:
            raise UsageError("the launch has no such part")
        found = triple(evaluate(text, self.scope(sizes, asked)))
        if index == 0 and sizes and not asked.sized and self.literals:  # it has no names of sizes
            meant = {value: frozenset(sizes[role] for role in roles) for value, roles in self.literals.items()}
            found = self._grid_with(meant, asked)
        return found, asked

    @cached_property
    def literals(self) -> dict[int, tuple[str, ...]]:
        """The numbers of a grid without names that stand for extents, and for which."""
        passed = {}
        for role, text in zip(self.roles.roles, self.site.arguments, strict=False):
            if role in _EXTENTS and not self.roles.places:
                try:
                    passed[role] = evaluate_int(text, self.scope({}, Asked()))
                except (UsageError, RecursionError):
                    return {}
        return literal_extents(passed, lambda numbers: self._grid_with({v: frozenset({n}) for v, n in numbers.items()}))

    def taken(self, sizes: Mapping[str, int]) -> str:
        """Which numbers of the grid were taken for extents: "4096 taken as M and N"; empty for none."""
        asked = Asked()
        try:
            evaluate(self.site.configuration[0], self.scope(sizes, asked))
        except (UsageError, RecursionError):
            return ""
        return "" if asked.sized else shown(self.literals)

    def _grid_with(self, numbers: Mapping[int, frozenset[int]], asked: Asked | None = None) -> Dim3:
        """The grid where numbers of the source stand for others."""
        scope = HostScope(self.site.frame, self.given, Sizes(literals=numbers), asked or Asked(), self.overrides())
        return triple(evaluate(self.site.configuration[0], scope))

    def configuration(self, sizes: Mapping[str, int]) -> tuple[Dim3 | None, Dim3 | None]:
        """Grid and block; None for what is not known."""

        def known(index: int) -> Dim3 | None:
            try:
                return self.extent(index, sizes)[0]
            except (UsageError, RecursionError):
                return None

        return known(0), known(1)

    def confuses_extents(self) -> bool:
        """Whether the launch passes a variable called M for N, and one called N for M, with A and B in their places."""
        passed = {role: text.strip().lower() for role, text in zip(self.roles.roles, self.site.arguments, strict=False)}
        named = dict(zip(self.roles.roles, self.roles.names, strict=False))
        crossed = (passed.get("M"), passed.get("N")) == ("n", "m")
        meant = (named.get("M", "").lower(), named.get("N", "").lower()) == ("m", "n")
        return crossed and meant and passed.get("A", "").endswith("a") and passed.get("B", "").endswith("b")

    def shares_extents(self) -> bool:
        """Whether the grid asks for a value that the launch passes for M and for N: it is known for squares alone."""
        sides = {"M": 1024, "N": 2048, "K": 4096, "lda": 4096, "ldb": 2048, "ldc": 2048}
        try:
            self.extent(0, dict.fromkeys(sides, 1024))
        except (UsageError, RecursionError):
            return False
        try:
            self.extent(0, sides)
        except (UsageError, RecursionError):
            return True
        return False

    def has_no_blocks(self, sizes: Mapping[str, int]) -> bool:
        """Whether the grid is rounded down to nothing."""
        try:
            self.extent(0, sizes)
        except (UsageError, RecursionError) as error:
            return isinstance(error, NoBlocksError)
        return False

    def grid_lacks(self, sizes: Mapping[str, int]) -> str:
        """An extent of C, M or N, that neither the grid nor the kernel is told: the launch fits one problem only."""
        passed = {role for role in self.roles.roles if role in _EXTENTS}
        if len(passed) < 2:
            return ""
        for role in ("M", "N"):
            if role in sizes and role not in passed:
                larger = {**sizes, role: 64 * sizes[role] + _MANY}
                if self.extent(0, sizes)[0] == self.extent(0, larger)[0]:
                    return role
        return ""

    def shares_constants(self, used: set[str]) -> bool:
        """Whether the grid is written with a template argument, or with one of the constants that the kernel uses.

        A persistent kernel is launched so.
        """
        names: set[str] = set()
        new = set(re.findall(r"[A-Za-z_]\w*", self.site.configuration[0]))
        while new:
            names |= new
            scope = self.site.frame.locals
            held = [scope.variables[name] for name in new if name in scope.variables]
            held += [member for path, member in scope.members.items() if path.partition(".")[0] in new]
            new = {word for variable in held for word in re.findall(r"[A-Za-z_]\w*", variable.value)} - names
        return bool(names & (used | set(re.findall(r"[A-Za-z_]\w*", " ".join(self.site.template)))))

    def smem(self, sizes: Mapping[str, int]) -> int:
        text = self.site.configuration[2]
        return evaluate_int(text, self.scope(sizes, Asked())) if text else 0

    def cluster(self, sizes: Mapping[str, int]) -> Dim3:
        scope = self.scope(sizes, Asked())
        parts = [evaluate_int(text, scope) for text in self.site.cluster]
        return triple((*parts, *[1] * (3 - len(parts))))

    def is_reached(self, sizes: Mapping[str, int]) -> bool:
        """False if a condition around the launch, or around a call that leads there, does not hold."""
        scope: HostScope | None = self.scope(sizes, Asked())
        while scope is not None:
            for text, holds in scope.frame.locals.conditions:
                try:
                    if bool(evaluate(text, scope)) != holds:
                        return False
                except UsageError:
                    continue
            scope = scope.outer()
        return True

    def origin(self, index: int) -> tuple[str, str]:
        """Where the grid (0), block (1) or shared memory (2) is written: the place and the text."""
        text = self.site.configuration[index]
        frame: Frame | None = self.site.frame
        while frame is not None:
            variable = frame.locals.variables.get(text)
            if variable is not None and variable.text:
                parts = [part for axis in "xyz" if (part := frame.locals.members.get(f"{text}.{axis}"))]
                written = ", ".join(part.text for part in parts) or variable.text.rstrip(";")
                return f"{frame.source.path.name}:{(parts or [variable])[0].line}", written
            places = [i for i, p in enumerate(frame.function.parameters) if p.name == text] if frame.function else []
            if not places or frame.caller is None or places[0] >= len(frame.arguments):
                break
            text, frame = frame.arguments[places[0]], frame.caller
        return self.site.shown(), text
