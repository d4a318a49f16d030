"""Launches that are made for one number of rows or columns: host code passes a constant, which the grid is for."""

from __future__ import annotations

from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.host_frame import Asked
from gemmsmith.userfile.kernel_facts import SAMPLE, problem_sizes
from gemmsmith.userfile.launch_values import SiteValues
from gemmsmith.userfile.values import evaluate_int

_MANY = 64  # times as many rows or columns: more blocks, if the grid depends on them


def one_extent(site: SiteValues) -> str:
    """The extent that host code has a constant for and a grid that is the same for every other one, as "N = 128"; empty
    if there is none."""
    own = problem_sizes(SAMPLE)
    for role, text in zip(site.roles.roles, site.site.arguments, strict=False):
        if role not in ("M", "N") or site.roles.places:
            continue
        try:
            value = evaluate_int(text, site.scope({}, Asked()))
            grids = {site.extent(0, {**own, role: times * own[role]})[0] for times in (1, _MANY)}
        except (GemmsmithError, RecursionError):
            continue
        if len(grids) == 1:
            return f"{role} = {value}"
    return ""
