"""The launch of a kernel whose parameters' meanings are not known, where its sizes are made up.

    sizes by parameter ─► what host code passes, its grid, block and shared memory for these

Host code is read as for products, but that a size that nothing tells has the made-up value of the parameter it is
passed for, or of the one with its name. Where no host code launches the kernel, a comment or ``__launch_bounds__`` must
tell the block; a part of the grid that a comment leaves unclear is a few blocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from gemmsmith.errors import GemmsmithError
from gemmsmith.gpus import cuda_limits, largest_smem
from gemmsmith.kernel.expressions import evaluate as evaluate_option
from gemmsmith.kernel.expressions import split
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.problem import FP32
from gemmsmith.userfile.files.edited import edited_text
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.files.translation_unit import translation_unit
from gemmsmith.userfile.host.host_frame import Asked, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.made_up_names import MadeUpNames, held_texts
from gemmsmith.userfile.host.values import Number, UnknownValueError, evaluate, number
from gemmsmith.userfile.kernels.entry_choice import choose_entry
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts
from gemmsmith.userfile.kernels.name_expression import name_expression
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.struct_parameters import FlatParameter, flat_arguments, struct_fields
from gemmsmith.userfile.launches.described_launch import DescribedLaunch, launch_in_comments
from gemmsmith.userfile.launches.launch_triple import triple
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.named_instances import template_values
from gemmsmith.userfile.launches.site_roles import Roles
from gemmsmith.userfile.text.kernel_patterns import GRID_SYNC
from gemmsmith.userfile.text.parts import KernelSource
from gemmsmith.userfile.text.source import read_text

_FEW_BLOCKS = 2  # along an axis of the grid that nothing tells
_SPARE_SMEM = 8192  # bytes for static arrays, where the dynamic ones get all else
_CONSECUTIVE = (64, 65, 66)  # sizes for which a grid with a block for each differs
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLS = re.compile(r"(?:\.|->)\s*\w+\s*\(")  # of members: x.size(0)
_DYNAMIC = re.compile(r"\bextern\b[^;]*\b__shared__\b|\b__shared__[^;]*\bextern\b")


@dataclass(frozen=True)
class MadeUpLaunch:
    """What is known of the launch; ``sizes`` below are made-up values of numbers by the parameter's name, "p.K" of a
    struct.

    entry       the kernel's name with its template's values
    parameters  the kernel's, with the fields of its structs
    """

    facts: KernelFacts
    site: SiteValues | None
    template: Mapping[str, str]
    entry: str
    parameters: tuple[FlatParameter, ...]
    described: DescribedLaunch | None = None

    @cached_property
    def arguments(self) -> dict[str, str]:
        """What host code passes for each parameter, as text; without host code nothing."""
        if self.site is None:
            return {}
        names, places = [p.name for p in self.parameters], [p.place for p in self.parameters]
        return dict(zip(names, flat_arguments(self.site.site.arguments, names, places), strict=True))

    @cached_property
    def constants(self) -> Mapping[str, int]:
        return self.facts.values(self.template)

    # --- values

    def told(self, name: str) -> Number | None:
        """The number that host code passes whatever the sizes are; None where it tells none."""
        text = self.arguments.get(name, "")
        if self.site is None or not text or any(map(_CALLS.search, held_texts(text, self.site.site.frame))):
            return None
        try:
            return number(evaluate(text, self.site.scope({}, Asked())))
        except (GemmsmithError, TypeError, RecursionError):
            return None

    def passed(self, name: str, sizes: Mapping[str, int]) -> Number:
        """What the kernel is passed for a number; ``sizes`` has a value for it in any case."""
        text = self.arguments.get(name, "")
        scope = self._scope(sizes)
        if scope is None or not text:
            return sizes[name]
        try:
            return number(evaluate(text, scope))
        except (GemmsmithError, TypeError, RecursionError):
            return sizes[name]

    def same_value(self, names: Mapping[str, int]) -> dict[str, str]:
        """The first of the parameters that each one has its value from: host code may pass one variable for two."""
        first: dict[str, str] = {}
        return {name: first.setdefault(self.arguments.get(name) or f"{name} alone", name) for name in names}

    def in_tiles(self, name: str, sizes: Mapping[str, int]) -> bool:
        """Whether the grid has a block for several rows, columns or items that a parameter counts."""
        words = {word.lower() for text in self._grid_texts() for word in _WORD.findall(text)}
        own = {name.rpartition(".")[2], *_WORD.findall(self.arguments.get(name, ""))}
        if not words & {word.lower() for word in own}:
            return False
        try:
            grids = {self.geometry({**sizes, name: size}).grid for size in _CONSECUTIVE}
        except GemmsmithError:
            return True
        return len(grids) < len(_CONSECUTIVE)

    def excludes(self, sizes: Mapping[str, int]) -> str:
        """A condition of host code under which it does not launch the kernel for these sizes; empty for none."""
        scope = self._scope(sizes)
        while scope is not None:
            known = scope.frame.locals
            for whole in (*known.conditions, *known.checked):
                if whole in known.outdated:
                    continue
                for text in _parts(*whole):
                    try:
                        if not _CALLS.search(text) and bool(evaluate(text, scope)) != whole[1]:
                            return text
                    except (GemmsmithError, TypeError, RecursionError):
                        continue
            scope = scope.outer()
        return ""

    # --- geometry

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Grid, block and shared memory; raises where the block is not known, and for a launch of nothing."""
        cooperative = bool(GRID_SYNC.search(self.facts.reached))
        if self.site is None:
            texts = split(self.described.grid) if self.described is not None and self.described.grid else []
            described = self._grid([self._from_comment(text, sizes) for text in texts])
            return Geometry(described, self._block, self._most_smem, cooperative=cooperative)
        scope, known = self._scope(sizes), self._scope(sizes, of_parameters=True)
        assert scope is not None
        assert known is not None
        written, block, smem = self.site.site.configuration
        try:
            grid = triple(evaluate(written, scope))
        except UnknownValueError:
            grid = self._grid([])
        try:
            dynamic = math.trunc(number(evaluate(smem, known))) if smem else 0
        except (GemmsmithError, TypeError, RecursionError):
            dynamic = self._most_smem
        cooperative = cooperative or "LaunchCooperativeKernel" in self.site.site.text
        return Geometry(grid, triple(evaluate(block, known)), dynamic, cooperative=cooperative)

    @property
    def _most_smem(self) -> int:
        return largest_smem() - _SPARE_SMEM if _DYNAMIC.search(self.facts.reached) else 0

    @cached_property
    def _block(self) -> Dim3:
        """The block that a comment or ``__launch_bounds__`` tell, which say 1024 for any number of threads.

        A comment may call the grid "blocks": a block does not grow with the sizes, and has rows if the kernel asks for
        them.
        """
        bounds, reached, largest = self.facts.kernel.bounds, self.facts.reached, cuda_limits().threads_per_block
        most = evaluate_option(bounds, self.constants) if bounds else largest
        block = most if bounds and (most < largest or "blockDim" in reached) else 0, 1, 1
        if self.described is not None and self.described.block:
            block = triple(tuple(evaluate_option(part, self.constants) for part in split(self.described.block)))
        as_asked = all((f"threadIdx.{axis}" in reached) == (block["xyz".index(axis)] > 1) for axis in "yz")
        if not 0 < math.prod(block) <= most or not as_asked:
            raise UnknownValueError(f"the block of {self.facts.kernel.name} is not known")
        return block

    def _from_comment(self, text: str, sizes: Mapping[str, int]) -> int | None:
        try:
            return evaluate_option(text, self._names(sizes))
        except GemmsmithError:
            return None

    def _grid(self, known: list[int | None]) -> Dim3:
        """The grid of which these parts are known; any other is a few blocks, if the kernel asks for its axis."""
        parts = [*known, None, None, None] if not known else [*known, 1, 1]
        asked = [_FEW_BLOCKS if f"blockIdx.{axis}" in self.facts.reached else 1 for axis in "xyz"]
        return triple(tuple(few if part is None else part for part, few in zip(parts, asked, strict=False)))

    def _grid_texts(self) -> Iterator[str]:
        if self.site is not None:
            yield from held_texts(self.site.site.configuration[0], self.site.site.frame)
        elif self.described is not None:
            yield self.described.grid

    def _names(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Constants and sizes as a comment may call them."""
        own = {name.rpartition(".")[2]: size for name, size in sizes.items()}
        return {**{word: size for name, size in own.items() for word in (name.upper(), name.lower())}, **self.constants,
                **own}  # fmt: skip

    def _scope(self, sizes: Mapping[str, int], of_parameters: bool = False) -> HostScope | None:
        """The scope at the launch, where what nothing tells is made up; or only what parameters are called."""
        if self.site is None:
            return None
        scope = self.site.scope(sizes, Asked())
        texts = (*self.arguments.values(), *self.site.site.configuration)
        made = MadeUpNames.of(texts, self.site.site.frame, sizes)
        made = made.of_parameters() if of_parameters else made
        scope.sizes = Sizes({**made.variables, **scope.sizes.bound}, made, made.asked_sizes)
        return scope


def made_up_launch(
    path: Path, options: UserOptions, is_product: Callable[[Project, KernelSource], bool]
) -> MadeUpLaunch:
    """What is known of a kernel's launch; raises for one whose template has no values, and for what is no kernel.

    is_product  tells which kernel of a file is meant that has several
    """
    project = Project.of(path, options.include, options.edited)
    kernels = [kernel for source in project.sources(path) for kernel in source.kernels]
    found = choose_entry(path, kernels, options.entry, partial(is_product, project))
    project = Project.of(translation_unit(project, found.kernel), options.include, options.edited)
    given = dict((*found.given(), *options.defines))
    facts = KernelFacts(project, found.kernel, tuple(given.items()))
    names = tuple(parameter.name for parameter in found.kernel.parameters)
    site = facts.site(Roles((), names))
    template, _ = template_values(project, found.kernel, site, given)
    flat = tuple(_flat(facts, template))
    entry = name_expression(found.kernel, {**template, **given}, FP32)
    if site is not None:
        own = tuple(parameter.name for parameter in flat)
        places = tuple(parameter.place for parameter in flat) if len(own) > len(names) else ()
        site = replace(site, roles=Roles(own, own, places))
        return MadeUpLaunch(facts, site, template, entry, flat)
    text = edited_text(found.kernel.file, options.edited) or read_text(found.kernel.file)
    last = {parameter.name.rpartition(".")[2]: parameter.name.rpartition(".")[2] for parameter in flat}
    described = launch_in_comments(text, found.kernel, facts.own, last)
    return MadeUpLaunch(facts, None, template, entry, flat, described)


def _flat(facts: KernelFacts, template: Mapping[str, str]) -> Iterator[FlatParameter]:
    """The kernel's parameters, with the fields of structs by value, also of structs in structs."""
    aliases = facts.aliases(template)
    for place, parameter in enumerate(facts.kernel.parameters):
        fields = struct_fields(parameter.type, facts.sources, aliases)
        if not fields:
            yield FlatParameter(parameter.type, parameter.name, place)
        for each in fields:
            yield from (FlatParameter(kind, name, place) for kind, name in each.leaves(parameter.name))


def _parts(text: str, holds: bool) -> list[str]:
    """The parts of a condition each of which is as the whole is: of ``a && b`` that holds, of ``a || b`` that does
    not."""
    own, other = ("&&", "||") if holds else ("||", "&&")
    depth, parts = 0, [""]
    for word in re.findall(r"&&|\|\||.", text, re.S):
        depth += (word in "([") - (word in ")]")
        if depth == 0 and word == other:
            return [text]
        if depth == 0 and word == own:
            parts.append("")
        else:
            parts[-1] += word
    return [part.strip() for part in parts]
