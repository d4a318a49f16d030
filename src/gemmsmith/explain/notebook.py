"""Profiles, comparisons and diagnoses as HTML, for notebooks. Each figure is below a word that says its origin."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

from gemmsmith.explain.metrics import METRICS
from gemmsmith.notebook_html import card, facts, folded, listing, paragraph, table

if TYPE_CHECKING:
    from gemmsmith.explain.comparison import Comparison
    from gemmsmith.explain.diagnosis import Diagnosis
    from gemmsmith.explain.profile import Profile

_DASH = "–"


def profile_html(profile: Profile) -> str:
    product = profile.problem.flops > 0
    title = " ".join(filter(None, (profile.kernel, profile.config)))
    used, geometry = profile.resources, profile.geometry
    grid, block = ("×".join(map(str, each)) for each in (geometry.grid, geometry.block))
    shared = [(name, profile.wavefronts(op), profile.value(_CONFLICTS[op])) for name, op in _SHARED]
    parts = [
        paragraph(f"{profile.origin} on {profile.device}" + (f", {profile.problem}" if product else "")),
        facts((
            ("launch", f"grid {grid}, block {block}"),
            ("resources", f"{used.registers} registers, {used.static_smem + geometry.smem:,} B of shared memory, "
                          f"{used.spill_loads + used.spill_stores} B spilled"),
        )),
        table(("global memory", "requests", "sectors", "bytes used of 32"),
              [(name, _count(profile.requests(op)), _count(profile.sectors(op)), _number(share, ".1f"))
               for name, op, share in zip(("loads", "stores"), ("ld", "st"), profile.bytes_per_sector, strict=True)]),
        table(("shared memory", "wavefronts", "bank conflicts"),
              [(name, _count(waves), _count(conflicts)) for name, waves, conflicts in shared if waves > 0]),
        folded("all counters", table(("", "", ""), [(m.title, _count(profile.value(m.name)), m.unit) for m in METRICS
                                                    if profile.value(m.name) > 0])),
        paragraph(_sampled(profile), small=True),
    ]  # fmt: skip
    return card(title, parts)


_SHARED = (("loads", "ld"), ("stores", "st"), ("cp.async", "ldgsts"))
_CONFLICTS = {
    "ld": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "st": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ldgsts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
}


def _sampled(profile: Profile) -> str:
    if not profile.sampled_blocks:
        return ""
    depth = f" and the first {profile.sampled_depth} of K" if profile.sampled_depth else ""
    return f"Counted from {profile.sampled_blocks} simulated blocks{depth}, and scaled up."


def comparison_html(found: Comparison) -> str:
    names = [each.case.profile.kernel for each in (found.left, found.right)]
    heads = [f"{letter} {name}" for letter, name in zip("XY", names, strict=True)]
    sections = [
        folded(section, table(("", *heads), [(row.name, row.shown(row.left), row.shown(row.right)) for row in rows]))
        for section, rows in groupby(found.rows, key=lambda row: row.section)
    ]
    problem = found.left.case.profile.problem
    title = f"{names[0]} and {names[1]} on {found.gpu.name}" + (f", {problem}" if problem.flops else "")
    parts = [listing(found.sentences), *sections, paragraph(_MODEL, small=True)]
    return card(title, parts)


def diagnosis_html(found: Diagnosis) -> str:
    case = found.case
    advice = [f"{each.kind}: {each.sentence} {each.fix}" for each in found.findings if each.gain > 1.005]
    parts = [listing(found.sentences), folded("what to do, by estimated gain", listing(advice)),
             paragraph(_MODEL, small=True)]  # fmt: skip
    return card(f"{case.profile.kernel} on {case.gpu.name}", parts)


_MODEL = "Times are predicted, not measured; counts are simulated."


def _count(value: float) -> str:
    return _number(value, ",.0f")


def _number(value: float, form: str) -> str:
    return _DASH if math.isnan(value) else f"{value:{form}}"
