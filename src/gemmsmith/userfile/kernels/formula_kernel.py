"""A kernel that is no plain product as it is read, with all that it takes: every pointer and number, alone or in a
struct, and what host code passes for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.field_roles import own_name
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.role_names import extent_role, leading_role
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.problem import FP32, DType, Problem
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.files.translation_unit import translation_unit
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.host_loops import reader_after
from gemmsmith.userfile.host.values import Number, evaluate, number
from gemmsmith.userfile.kernels.entry_choice import choose_entry
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts, problem_sizes
from gemmsmith.userfile.kernels.name_expression import name_expression, template_names
from gemmsmith.userfile.kernels.options import UserOptions, with_directives
from gemmsmith.userfile.kernels.struct_parameters import NO_MEMBER, flat_arguments, flat_parameters
from gemmsmith.userfile.launches.launch_site import launch_sites
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.named_instances import template_values
from gemmsmith.userfile.launches.site_roles import Roles
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.userfile.text.source import read_text

EXTENTS, LEADING = ("M", "N", "K"), ("lda", "ldb", "ldc")
_INTEGER = re.compile(r"(?:unsigned|int|size_t|u?int\d+_t|unsigned int)")
_LEAST_SIZE = 4  # less may be a mode
_MOST_INSTANCES = 6
_OF_WHAT = re.compile(r"ld|stride|pitch|batch|lead|step|flag|^[rc]s", re.I)  # no extents, whatever else the name has


@dataclass(frozen=True)
class Member:
    """A pointer or a number among a kernel's parameters, or a member of a struct that is one.

    place    which of the kernel's parameters it is, or belongs to
    code     of a number, as ``struct`` packs it; "P" of a pointer
    element  the type of what it points to; None if it is no type of products
    passed   what host code passes, as text
    """

    name: str
    place: int
    code: str
    element: DType | None
    const: bool
    passed: str

    @property
    def own(self) -> str:
        return own_name(self.name)

    @property
    def is_pointer(self) -> bool:
        return self.code == "P"

    @property
    def is_integer(self) -> bool:
        return self.code in tuple("iIqQhHB")

    @property
    def is_real(self) -> bool:
        return self.code in ("f", "d", "e", "bf16")


@dataclass(frozen=True)
class FormulaKernel:
    """The kernel, its members and its launch. ``bound``: the extents and leading dimensions by which host code's
    expressions are evaluated, as M, N, K, lda, ldb or ldc."""

    path: Path
    options: UserOptions
    entry: str
    members: tuple[Member, ...]
    in_structs: frozenset[int]
    launch: UserLaunch
    bound: Mapping[str, str]
    defines: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.launch.facts.kernel.name

    @property
    def text(self) -> str:
        """The file, with its comments."""
        return read_text(self.path)

    @property
    def body(self) -> str:
        """The kernel's body, and those of the functions that it calls."""
        return str(self.launch.facts.reached)

    @property
    def integers(self) -> dict[str, int]:
        """The values of its template's integers, and of constants."""
        return dict(self.launch.constants)

    def problem(self, sizes: Mapping[str, int]) -> Problem:
        """Extents by the members' names as M, N and K; one that the kernel does not take is like another."""
        known = {role: sizes[name] for name, role in self.bound.items() if name in sizes}
        first = next(known[role] for role in ("N", "M", "K") if role in known)
        m, n = known.get("M", first), known.get("N", known.get("M", first))
        leading = {role: value for role, value in known.items() if role in LEADING}
        return Problem(m, n, known.get("K", m)).with_(batch=sizes.get("batch", 1), **leading)

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        return self.launch(self.problem(sizes), Config(()))

    def value(self, member: Member, sizes: Mapping[str, int]) -> Number | None:
        """What host code passes for a number where the extents are these; None where that is not understood."""
        site = self.launch.site
        if site is None or not member.passed:
            return None
        try:
            return number(evaluate(member.passed, site.scope(problem_sizes(self.problem(sizes)), Asked())))
        except (GemmsmithError, RecursionError, ArithmeticError, TypeError):
            return None

    @property
    def is_unfinished(self) -> bool:
        """Whether host code launches another kernel later with an array that this one may write: it may go on with the
        sums."""
        site = self.launch.site
        if site is None:
            return False
        free = [each for each in self.members if each.is_pointer and not each.const]
        return any(reader_after(site.site, each.passed.partition(".")[0]) for each in free if each.passed)

    def is_excluded(self, sizes: Mapping[str, int]) -> bool:
        """Whether host code does not make the launch for these extents."""
        return self.launch.launched(self.problem(sizes)).excluded is not None

    def is_launched(self, sizes: Mapping[str, int]) -> bool:
        """Whether nothing in host code may rule the launch out for these extents."""
        found = self.launch.launched(self.problem(sizes))
        return found.excluded is None and found.unread is None


def formula_kernel(path: Path, options: UserOptions) -> FormulaKernel | None:
    """The kernel as it is launched by host code or by a comment; None where that is not known, or it takes what is
    neither a pointer nor a number."""
    options = with_directives(options, read_text(path))
    project = Project.of(path, options.include, options.edited)
    kernels = [kernel for source in project.sources(path) for kernel in source.kernels]
    entry = choose_entry(path, kernels, options.entry, lambda _: True)
    given = dict((*entry.given(), *options.defines))
    project = Project.of(translation_unit(project, entry.kernel), options.include, options.edited)
    facts = KernelFacts(project, entry.kernel, tuple(given.items()))
    names = tuple(parameter.name for parameter in entry.kernel.parameters)
    site = facts.site(Roles((), names))
    template, _ = template_values(project, entry.kernel, site, given)
    aliases = facts.aliases(template)
    flat = flat_parameters(entry.kernel.parameters, facts.sources, aliases)
    passed = site.site.arguments if site is not None else ()
    texts = flat_arguments(passed, [each.name for each in flat], [each.place for each in flat])
    members = []
    for each, text in zip(flat, texts, strict=True):
        kind = parameter_type(each.type, aliases)
        if kind.stars > 1 or kind.reference or not (kind.stars or kind.scalar_code):
            return None
        code = "P" if kind.stars else kind.scalar_code
        text = "0" if each.name.endswith(f".{NO_MEMBER}") else text
        members.append(Member(each.name, each.place, code, kind.element, kind.const, text))
    bound = _bound(members)
    if not set(EXTENTS) & set(bound.values()):
        return None
    read = UserLaunch(facts, site, template, options)
    bound |= {role: role for role in EXTENTS if role not in bound.values() and _counts(read, members, bound, role)}
    launch = _launch(read, members, bound)
    if launch is None:
        return None
    values = {**template, **given}
    defines = tuple((name, value) for name, value in {**values, **dict(options.defines)}.items()
                    if name not in template_names(entry.kernel))  # fmt: skip
    in_structs = frozenset(each.place for each in members if "." in each.name)
    return FormulaKernel(path, options, name_expression(entry.kernel, values, FP32), tuple(members), in_structs, launch,
                         bound, defines)  # fmt: skip


def other_instances(kernel: FormulaKernel) -> list[FormulaKernel]:
    """The other instances of its template that host code launches; none where the user gave values of it."""
    facts = kernel.launch.facts
    parameters = facts.kernel.template or ()
    if not parameters or facts.given:
        return []
    names = Roles((), tuple(parameter.name for parameter in facts.kernel.parameters))
    found: dict[str, FormulaKernel] = {}
    for site in launch_sites(facts.project, facts.kernel):
        values = SiteValues(site, names, {}).template()[0]
        if len(values) < len(parameters) or len(found) > _MOST_INSTANCES:
            continue
        entry = f"{facts.kernel.qualified}<{', '.join(values[parameter.name] for parameter in parameters)}>"
        if entry == kernel.entry or entry in found:
            continue
        try:
            other = formula_kernel(kernel.path, replace(kernel.options, entry=entry))
        except GemmsmithError:
            continue
        if other is not None:
            found[entry] = other
    return list(found.values())[:_MOST_INSTANCES]


def same_but_for_sizes(one: FormulaKernel, other: FormulaKernel) -> bool:
    """Whether two instances differ in integers alone that may be sizes: not in a flag, a mode or a type."""
    kinds = {parameter.name: parameter.kind for parameter in one.launch.facts.kernel.template or ()}
    before, after = ({**each.launch.template, **dict(each.launch.facts.given)} for each in (one, other))
    differing = [name for name in kinds if before.get(name) != after.get(name)]
    return all(_INTEGER.fullmatch(kinds[name]) and text.isdecimal() and int(text) >= _LEAST_SIZE
               for name in differing for text in (before.get(name, ""), after.get(name, "")))  # fmt: skip


def _bound(members: list[Member]) -> dict[str, str]:
    """Up to three extents, and as many leading dimensions, with the letters that host code's expressions are evaluated
    by: as they are called, the others in order."""
    named = [each for each in members if each.is_integer and not _OF_WHAT.search(each.own)]
    roles: dict[str, str] = {}
    for each in members:
        role = leading_role(each.own, batched=False) if each.is_integer else ""
        if role in LEADING and role not in roles.values():
            roles[each.name] = role
    for each in members:
        left = [role for role in LEADING if role not in roles.values()]
        if left and each.is_integer and re.match(r"ld[a-z]?$", each.own) and each.name not in roles:
            roles[each.name] = left[0]
    for each in named:
        role = extent_role(each.own)
        if role and role not in roles.values():
            roles[each.name] = role
    left = [role for role in EXTENTS if role not in roles.values()]
    for each in named:
        if each.name not in roles and left and not re.search(r"[-+*/(]", each.passed):
            roles[each.name] = left.pop(0)
    return roles


def _counts(read: UserLaunch, members: list[Member], bound: Mapping[str, str], role: str) -> bool:
    """Whether blocks count an extent that the kernel does not take: a block computes one row, for example."""
    if any(each.name == role for each in members):
        return False
    launch = _launch(read, members, {**bound, role: role})
    if launch is None:
        return False
    few, more = (launch(Problem(64, 64, 64).with_(**{role.lower(): extent}), Config(())) for extent in (64, 192))
    return few.grid != more.grid and few.block == more.block


def _launch(launch: UserLaunch, members: list[Member], bound: Mapping[str, str]) -> UserLaunch | None:
    """The launch that host code or a comment tells; None for a guess, and where host code counts products that no
    parameter does."""
    arguments = tuple(Argument(each.name, bound.get(each.name, "batch" if "batch" in each.own.lower() else "0"),
                               each.code, "", each.passed, each.place) for each in members)  # fmt: skip
    lacking = [role for role in EXTENTS if role not in bound.values()]
    signature = Signature(launch.facts.kernel.name, arguments, tied="".join(lacking), square=len(lacking) == 2)
    read = launch.read_as(signature)
    described = read.as_described()
    if described is not None:
        return described
    side = Problem(64, 64, 64)
    counted = any(arg.role == "batch" for arg in arguments)
    if read.counts_products and not counted and "blockIdx.z" in launch.facts.reached:
        return None
    return None if "guessed" in read.sources(side) else read
