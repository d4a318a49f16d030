"""Other launches of the same kernel: with the grid's axes swapped, at another site, with other template values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Self

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.problem import Problem
from gemmsmith.userfile.files.edited import edited_text
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, problem_sizes
from gemmsmith.userfile.launches.described_launch import is_launch, launch_in_comments
from gemmsmith.userfile.launches.equal_extents import TileGrid, tile_grid
from gemmsmith.userfile.launches.launch_certainty import LaunchCertainty
from gemmsmith.userfile.launches.launch_site import launch_sites
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.shape_dispatch import Dispatch, dispatch_of
from gemmsmith.userfile.launches.site_choice import complete, instances_beside
from gemmsmith.userfile.text.source import read_text

_UNEQUAL = Problem(1024, 2048, 512)
_MOST_VERSIONS = 3
Pairs = tuple[tuple[str, str], ...]


class LaunchVersions(LaunchCertainty):
    """What ``UserLaunch`` knows of other launches of its kernel."""

    flipped: bool
    constants: Mapping[str, int]
    described: str
    notes: tuple[FoundValue, ...]

    @cached_property
    def only_equal(self) -> TileGrid | None:
        """The grid where host code passes one value for several extents, which tells the grid of squares alone."""
        if self.options.grid or self.site is None:
            return None
        if not (self.site.shares_extents() or self.site.confuses_extents()):
            return None
        site, sizes = self.site, problem_sizes(SAMPLE)
        try:
            return tile_grid(lambda side: site.extent(0, sizes | dict.fromkeys(("M", "N", "K"), side))[0])
        except (GemmsmithError, RecursionError):
            return None

    def without_site(self) -> Self:
        """The same kernel, as if no launch of it were known."""
        return self._with_site(None)

    def as_described(self) -> Self | None:
        """The launch that a comment beside the kernel describes, where no launch of it is known; None for none."""
        if self.site is not None or self.options.block or self.options.grid:
            return None
        kernel = self.facts.kernel
        text = edited_text(kernel.file, self.options.edited) or read_text(kernel.file)
        parameters = {arg.name: arg.role if arg.role in EXTENTS else arg.name for arg in self.signature.arguments}
        found = launch_in_comments(text, kernel, self.facts.own, parameters)
        if found is None or not is_launch(found, self.constants):
            return None
        other = copy.copy(self)
        other.options = replace(self.options, grid=found.grid, block=found.block)
        shown = ", ".join(f"{what} {text}" for what, text in (("grid", found.grid), ("block", found.block)) if text)
        place = f"{kernel.file.name}:{found.line}"
        other.described = place
        other.notes = (*self.notes, FoundValue("launch", shown, place, found.text))
        return other

    def alternatives(self) -> list[Self]:
        """Other launches that are as likely, where the grid is a guess: x and y swapped."""
        if not (self.guessed or self.only_equal) or "blockIdx.y" not in self.facts.reached:
            return []
        other = copy.copy(self)
        other.flipped = not self.flipped
        return [other]

    def versions(self) -> list[Self]:
        """The same kernel as other sites launch it, which the preprocessor compiles instead of this one."""
        return [self._with_site(site) for site in self._other_versions()]

    def dispatch(self) -> Dispatch | None:
        """Between which instantiations of the kernel host code chooses by M, N and K; None where it does not."""
        if self.site is None or self.options.block or self.options.grid:
            return None
        paths = self.scalar_paths or tuple(self.site.scalar_paths())
        return dispatch_of(self.site, launch_sites(self.facts.project, self.facts.kernel), paths)

    def other_instances(self) -> tuple[Pairs, ...]:
        """Template values of other launches in the function that launches this instance, all of them understood: of
        a ``switch``, a table of kernels, calls with other template arguments."""
        if self.site is None or self.options.block or self.options.grid or self.options.smem:
            return ()
        sites = launch_sites(self.facts.project, self.facts.kernel)
        return instances_beside(self.site, sites, problem_sizes(_UNEQUAL))

    def _with_site(self, site: SiteValues | None) -> Self:
        other = copy.copy(self)
        for name in ("only_equal", "namesake", "_usual_block", "_is_exchanged", "in_rounds"):
            other.__dict__.pop(name, None)
        other.site = site
        return other

    def _other_versions(self) -> list[SiteValues]:
        """Launches of this name that the preprocessor compiles instead, with another configuration: of a namesake in
        another file, which is built with other macros."""
        if self.site is None or self.options.block or self.options.grid:
            return []
        own, sizes = self.site, problem_sizes(_UNEQUAL)
        function = own.site.frame.function
        found: list[SiteValues] = []
        seen = [own.configuration(sizes)]
        for values in complete(launch_sites(self.facts.project, self.facts.kernel), own, sizes):
            there = values.site
            if function is None or there.frame.function != function or values.configuration(sizes) in seen:
                continue
            if function.branches.exclude(there.line, own.site.line):
                found.append(values)
                seen.append(values.configuration(sizes))
        return found[:_MOST_VERSIONS]
