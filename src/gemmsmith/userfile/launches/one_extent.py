"""Launches that are made for one size: a condition names it, or host code passes a constant, which the grid is for."""

from __future__ import annotations

import re

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.launch_limits import LaunchLimits
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, KernelFacts, problem_sizes
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.text.kernel_patterns import EQUALS_NUMBER
from gemmsmith.userfile.text.names_derived import loop_heads

_MANY = 64  # times as many rows or columns: more blocks, if the grid depends on them


class LaunchOfOneSize(LaunchLimits):
    """What ``UserLaunch`` knows of sizes that its launch is made for."""

    @property
    def one_size(self) -> str:
        """The condition under which host code launches it, where that names one size: M == 8192 && N == 4096."""
        frame = self.site.site.frame if self.site is not None and not self.options.grid else None
        while frame is not None:
            for text, holds in frame.locals.conditions:
                if holds and len(EQUALS_NUMBER.findall(text)) > 1 and "||" not in text:
                    return text
            frame = frame.caller
        return ""

    @property
    def one_extent(self) -> str:
        """The number of rows or columns that its launch is made for, as "N = 128"; empty: any."""
        return _one_extent(self.site, self.facts) if self.site is not None and not self.options.grid else ""


def _one_extent(site: SiteValues, facts: KernelFacts) -> str:
    """The extent that host code has a constant for and a grid that is the same for every other one, as "N = 128"; empty
    if there is none. A kernel that loops over an extent needs no grid that grows with it."""
    own, loops = problem_sizes(SAMPLE), " ".join(loop_heads(facts.reached))
    passed = dict(zip(site.roles.roles, site.site.arguments, strict=False))
    named = zip(site.roles.roles, site.site.arguments, facts.kernel.parameters, strict=False)
    for role, text, parameter in named:
        if role not in ("M", "N") or site.roles.places or re.search(rf"\b{re.escape(parameter.name)}\b", loops):
            continue
        try:
            value = evaluate_int(text, site.scope({}, Asked()))
            grids = {site.extent(0, {**own, role: times * own[role]})[0] for times in (1, _MANY)}
        except (GemmsmithError, RecursionError):
            continue
        if len(grids) == 1 and not _is_for_less(site, grids.pop(), passed.get("K", ""), value):
            return f"{role} = {value}"
    return ""


def _is_for_less(site: SiteValues, grid: Dim3, depth: str, value: int) -> bool:
    """Whether the grid counts blocks by K in place of this extent, and host code's own K is less than the extent."""
    if re.search(r"\batomic|\bblockIdx\s*\.\s*z\b", site.site.kernel.body):  # blocks may share the sum of an output
        return False
    own = problem_sizes(SAMPLE)
    try:
        deeper = site.extent(0, {**own, "K": _MANY * own["K"]})[0]
        return deeper[:2] != grid[:2] and evaluate_int(depth, site.scope({}, Asked())) < value
    except (GemmsmithError, RecursionError):
        return False
