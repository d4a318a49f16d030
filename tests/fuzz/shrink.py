"""The plainest recipe that still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from cases import Case
from generated.draw import obstacle
from generated.kernel import generate
from generated.recipe import Recipe


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = 60) -> Case:
    """Make one choice after another plain, as long as ``fails`` holds; at most ``tries`` kernels are checked."""
    left = tries
    changed = True
    while changed and left > 0:
        changed = False
        for plainer in _plainer(case):
            if left <= 0:
                break
            left -= 1
            if fails(plainer):
                case, changed = plainer, True
                break
    return case


def _plainer(case: Case) -> Iterator[Case]:
    """The case with one choice, or a group of choices that belong together, as in the plainest recipe."""
    plain = Recipe()
    groups = [("pipeline", "stages"), ("pipeline", "stages", "vector"), ("bm", "bn", "bk", "tm", "tn"),
              ("method", "types", "bm", "bn", "bk", "tm", "tn", "vector", "pad")]  # fmt: skip
    for group in [*groups, *((f.name,) for f in fields(plain))]:
        recipe = replace(case.recipe, **{name: getattr(plain, name) for name in group})
        if recipe == case.recipe or obstacle(recipe):
            continue
        if not case.fault or case.fault in {fault.name for fault in generate(recipe).faults}:
            yield replace(case, recipe=recipe)
