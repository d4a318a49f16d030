"""Configurations one step away from a good one: timing around the best finds what the model cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.choose.candidates import Candidate, is_legal, smem_limit, tail_tiles_help, unaligned_across_clusters
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import predicted_seconds
from gemmsmith.choose.determinism import DETERMINISTIC, is_deterministic
from gemmsmith.choose.key import alignment
from gemmsmith.choose.waves import Chip
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.renamed import DIRECT, TMA
from gemmsmith.problem import Problem

_ORDERS = (1, 4, 16)


def neighbours(candidate: Candidate, problem: Problem, chip: Chip, constants: Constants, *,
               deterministic: bool = True) -> list[Candidate]:  # fmt: skip
    """The legal configurations one step away from ``candidate``."""
    spec, values = candidate.spec, dict(candidate.config)
    legal = {p.name: p.legal for p in spec.parameters}
    found = []
    for change in steps(values, problem):
        config = Config(tuple((name, change.get(name, value)) for name, value in values.items()))
        if (deterministic and not is_deterministic(spec, config)) or unaligned_across_clusters(dict(config)):
            continue
        in_range = all(change[name] in legal.get(name, ()) for name in change)
        if in_range and is_legal(spec, config, problem.layout, smem_limit()):
            found.append(config)
    if not found:
        return []
    shape, tiles = shape_of(problem, alignment(problem)), tiles_of([dict(config) for config in found], problem.layout)
    seconds, useful = predicted_seconds(shape, tiles, chip, constants), tail_tiles_help(shape, tiles, chip)
    return [Candidate(spec, config, float(time)) for config, time, is_useful in zip(found, seconds, useful, strict=True)
            if is_useful]  # fmt: skip


def steps(values: Mapping[str, int], problem: Problem) -> list[dict[str, int]]:
    """Changes to try; some are illegal, or name a parameter that the kernel does not have."""
    cluster = values.get("CLUSTER_M", 1), values.get("CLUSTER_N", 1)
    shapes: tuple[tuple[int, int], ...] = ((1, 1), (2, 1), (1, 2))
    shapes += ((4, 1), (1, 4), (2, 2), (4, 2), (2, 4)) if "SLICES" in values else ()
    changes = [{"CLUSTER_M": m, "CLUSTER_N": n} for m, n in shapes if (m, n) != cluster]
    changes += [{"STAGES": values["STAGES"] + step} for step in (-1, 1)]
    if problem.out_dtype.itemsize == 2 or "SWAP" in values:  # others store 32-bit outputs from registers only
        mode = DIRECT if values.get("STORE_MODE", DIRECT) else TMA
        changes += [{"STORE_MODE": mode, "STORE_BOXES": int(mode != DIRECT)}]
    if "TAIL_BN" in values:
        changes += [{"TAIL_BN": 0 if values["TAIL_BN"] else 128}]
    if DETERMINISTIC in values:
        changes += [{DETERMINISTIC: 0 if values[DETERMINISTIC] else 1}]
    for name in ("SPLIT", "CLUSTERS"):
        changes += [{name: values[name] * 2}, {name: values[name] // 2}] if name in values else []
    if "GROUP" in values:
        changes += [{"GROUP": order} for order in _orders(values["GROUP"])]
    if "DEPTH" in values:  # the same bytes in flight, in more or in fewer stages
        changes += [{"DEPTH": values["DEPTH"] * 2, "STAGES": values["STAGES"] // 2},
                    {"DEPTH": values["DEPTH"] // 2, "STAGES": values["STAGES"] * 2}]  # fmt: skip
    if values.get("SLICES", 1) > 1:
        changes += [{"SLICES": values["SLICES"] + step} for step in (-1, 1)]
        changes += [{"SLICE_ORDER": order} for order in (0, 1, 2) if order != values.get("SLICE_ORDER", 0)]
    elif "SLICE_ORDER" in values:  # tiles by GPC, or not
        changes += [{"SLICE_ORDER": 2 - values["SLICE_ORDER"]}]
    if values.get("CLUSTER_K", 1) > 1:  # sums that are sent need room
        send = values.get("SEND", 0)
        changes += [{"SEND": 1 - send, "STAGES": values["STAGES"] + step} for step in ((0, 1) if send else (-1, 0))]
    no_tail = {"TAIL_BN": 0} if values.get("TAIL_BN") else {}  # other widths have no tail tiles
    return changes + [{"BN": values["BN"] + step, **no_tail} for step in _widths(values)]


def _orders(group: int) -> list[int]:
    """Twice and half as many rows of tiles, and those of the menu: which is best follows no rule. 1000x768x3072 takes
    10.4 us with 8, 9.7 with 1; 1024x1024x4096 15.7 with 1 and 15.4 with 16; 256x7168x1792 12.6 with 4, 12.5 with 16."""
    return [order for order in dict.fromkeys((group * 2, group // 2, *_ORDERS)) if order not in (0, group)]


def _widths(values: Mapping[str, int]) -> tuple[int, ...]:
    """Steps of BN: tiles of the transposed product come in steps of 8."""
    return (-16, -8, 8, 16) if values.get("SWAP") and "SLICES" in values else (-16, 16)
