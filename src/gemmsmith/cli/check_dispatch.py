"""gemmsmith check of a kernel of which host code launches one instantiation or another, by M, N and K.

Each instantiation is judged, on shapes that host code launches it for; the worst is the verdict. Shapes that are ragged
in an extent count where host code asks what that extent is a multiple of, or where another instantiation takes them.
Where something else decides (a ``switch`` over a tile, a table of kernels, calls of a launcher), the first is judged
with most of the seconds, and others with what is kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

from gemmsmith.cli.check_instance_formula import WrongInstanceError, instance_report
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.other_formula import applies_object
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import GemmsmithError, TimeLimitError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.launches.shape_dispatch import Dispatch, Pairs
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.host.instance_layouts import inconsistent_instance
from gemmsmith.verify.trials.check_shapes import work_of
from gemmsmith.verify.trials.trial import MODES, RAGGED, Trial
from gemmsmith.verify.verdict import is_hazard

Check = Callable[[KernelSpec, Config, Asked], Report]
Tried = Callable[[Asked, Pairs, Check], Report]
LAUNCHED = "a shape that its host code launches it for"
_MOST_OTHERS = 6
_MOST_BESIDE = 8  # further instantiations that are judged, where no size decides between them
_KEPT_SHARE = 0.2  # of the budget, for each of these
_MOST_KEPT = 0.5  # of the budget, for all of these
_LATE_SHARE = 0.2  # of the budget: after so much more none is begun
_LEAST_S, _WHOLE_S = 1.5, 2.5  # seconds for each of these; with fewer than the second it gets the most telling trials
_OF_TWO_FLAGS = 4  # instantiations
_CLOSER_SHARE = 0.4  # of the budget, for one that is right for some shapes only
_MOST_SHAPES = 6
_MOST_BEYOND = 4  # of these beyond thresholds
_SHORT, _MOST_WORK = 17, 2**21  # an extent beside one at a threshold; multiply-adds
_RIGHT = ("right", "column_major")
# Added to M, N and K: all ragged, then one of them; multiples of 2, 4 and 8 are not ragged for every vector.
_RAGGED = ((1, -1, 3), (3, 5, -1), (0, 0, 3), (0, -1, 0), (1, 0, 0), (0, 0, 4), (0, 4, 0), (0, 2, 2), (0, 8, 8))


def check_instantiations(spec: KernelSpec, config: Config, asked: Asked, check: Check, tried: Tried) -> Report:
    """The report on the instantiation for large matrices, or on another one that is wrong."""
    dispatch = dispatch_of(spec) if _is_whole(asked) and not _is_chosen(spec) else None
    if dispatch is None:
        return _with_instances_beside(spec, config, asked, check, tried)
    budget = asked.budget / max(2, len(dispatch.others))
    quick = replace(asked, budget=budget, certified=False, fitted=False, cures=0.0, ragged=dispatch.tested)
    others: list[Report] = []
    lines: list[str] = []
    for values in dispatch.others[:_MOST_OTHERS]:
        try:
            others.append(tried(quick, values, check))
        except TimeLimitError:
            raise
        except GemmsmithError as error:
            named = ", ".join(f"{name}={value}" for name, value in values)
            lines.append(f"its host code also launches it with {named}, which is not judged: {error.message}")
    takes_ragged = any(trial.label in (RAGGED, LAUNCHED) and verdict.trusted and _is_ragged(trial.problem)
                       for report in others for trial, verdict in report.verdicts)  # fmt: skip
    ragged = frozenset(EXTENTS) if takes_ragged else dispatch.tested
    asked = replace(asked, ragged=ragged)
    if not all(other.ok for other in others):  # the verdict is known, unless this one is refused
        asked = replace(asked, budget=asked.budget / 4, certified=False)
    report = check(spec, config, asked)
    for other in others:
        if report.ok and not other.ok:
            _add(other, f"its host code launches {other.entry} for some shapes and {report.entry} for others")
            return other
        judged = "judged too" if other.verdicts else "not judged: no small shape is launched so"
        lines.append(f"its host code launches {other.entry} for other shapes, which is {judged}")
    if takes_ragged and len(others) == len(dispatch.others) and all(other.ok for other in others):
        report.others_take = partial(others_take, spec, dispatch)
    _add(report, *lines)
    return report


def _with_instances_beside(spec: KernelSpec, config: Config, asked: Asked, check: Check, tried: Tried) -> Report:
    """The report, or one on another instantiation that the same host code launches, by no size, if that is wrong.
    Seconds are kept for the others, as many as are judged."""
    beside = isinstance(spec.geometry, UserLaunch) and _is_whole(asked) and not _is_chosen(spec)
    others = spec.geometry.other_instances() if beside and isinstance(spec.geometry, UserLaunch) else ()
    kept = min(_KEPT_SHARE * len(others), _MOST_KEPT)
    report = check(spec, config, replace(asked, budget=asked.budget * (1 - kept)))
    report.budget = asked.budget if report.budget else report.budget
    if not report.ok:
        return report
    lines: list[str] = []
    passed = {_values_of(spec): report}
    for place, values in enumerate(others):
        named = ", ".join(f"{name}={value}" for name, value in values)
        left = asked.budget - (asked.clock.used() if asked.clock is not None else asked.budget * (1 - kept))
        if place >= _MOST_BESIDE or left < -_LATE_SHARE * asked.budget:
            lines.append(f"its host code also launches it with {named}, which is not judged: --entry or -D chooses it")
            continue
        share = round(max(_LEAST_S, left / min(len(others) - place, _MOST_BESIDE)), 1)
        quick = replace(asked, certified=False, cures=0.0, clock=None, brief=share < _WHOLE_S, budget=share)
        try:
            other = tried(quick, values, check)
            if other.ok and other.status not in _RIGHT:  # its guards may be wrong, which takes more trials
                closer = max(share, _CLOSER_SHARE * asked.budget / len(others))
                other = tried(replace(quick, budget=closer), values, check)
        except TimeLimitError:
            raise
        except GemmsmithError as error:
            lines.append(_judged_as_formula(quick, values, _values_of(spec), named, error))
            continue
        if not other.ok and applies_object(other.spec) and not is_hazard(other.verdicts[-1][1]):
            doubt = UsageError("its function object may be meant to change the result")
            lines.append(_judged_as_formula(quick, values, _values_of(spec), named, doubt))
            continue
        if not other.ok:
            _add(other, f"its host code launches {other.entry} as well as {report.entry}, which passes")
            return other
        passed[values] = other
        limit = "" if other.status in _RIGHT else f": {other.status}"
        lines.append(f"its host code also launches {other.entry}, which is judged too{limit}")
    _add(report, *lines)
    return _with_flag_ignored(passed) or report


def _judged_as_formula(asked: Asked, values: Pairs, own: Pairs, named: str, error: GemmsmithError) -> str:
    """What to say of an instantiation that is no plain product; raises the verdict if it is wrong as a formula."""
    judged = instance_report(asked, values, own, error) if isinstance(error, UsageError) else None
    if judged is None:
        return f"its host code also launches it with {named}, which is not judged: {error.message}"
    if not judged.ok:
        raise WrongInstanceError(judged)
    limit = "" if judged.check.status in _RIGHT else f": {judged.check.status}"
    return f"its host code also launches {judged.entry}, which is judged too, as {judged.check.formula}{limit}"


def _values_of(spec: KernelSpec) -> Pairs:
    """The template values of the instantiation that its launch tells."""
    site = spec.geometry.site if isinstance(spec.geometry, UserLaunch) else None
    return tuple(site.template()[0].items()) if site is not None else ()


def _with_flag_ignored(passed: Mapping[Pairs, Report]) -> Report | None:
    """The report on an instantiation that is right for the layout of another one, as it ignores a flag; None if none
    is."""
    if len(passed) < _OF_TWO_FLAGS:
        return None
    layouts = {values: (report.base.trans_a, report.base.trans_b) for values, report in passed.items() if values}
    found = inconsistent_instance(layouts)
    if found is None:
        return None
    report, (trial, last) = passed[found[0]], passed[found[0]].verdicts[0]
    reason = (f"{report.entry} ignores {found[1]}: it computes the same layout as the instantiation with the other "
              f"value of {found[1]}, though it changes the layout of the others")  # fmt: skip
    report.verdicts.append((replace(trial, label=MODES), replace(last, reasons=(reason,))))
    report.certificate = None
    return report


def dispatch_of(spec: KernelSpec) -> Dispatch | None:
    """How host code chooses among instantiations; None where it does not, by sizes."""
    return spec.geometry.dispatch() if isinstance(spec.geometry, UserLaunch) else None


def taken(spec: KernelSpec, dispatch: Dispatch, problem: Problem) -> bool:
    """Whether host code launches this instantiation for a product."""
    assert isinstance(spec.geometry, UserLaunch)
    return dispatch.takes(spec.geometry.own_sizes(problem), _scalars(problem))


def others_take(spec: KernelSpec, dispatch: Dispatch, problem: Problem) -> bool:
    """Whether host code launches another instantiation for a product."""
    assert isinstance(spec.geometry, UserLaunch)
    return dispatch.others_take(spec.geometry.own_sizes(problem), _scalars(problem))


def _scalars(problem: Problem) -> dict[str, Fraction]:
    return {"alpha": Fraction(problem.alpha), "beta": Fraction(problem.beta)}


def launched_trials(spec: KernelSpec, report: Report, asked: Asked, distinct: Problem) -> Iterator[Trial]:
    """Ragged shapes that host code launches this instantiation for."""
    dispatch = dispatch_of(spec) if asked.ragged else None
    if dispatch is None or not isinstance(spec.geometry, UserLaunch):
        return
    other = {"M": "N", "N": "M"} if spec.geometry.swapped else {}
    ragged = {other.get(role, role) for role in asked.ragged}
    found: list[Problem] = []
    for base in (report.base, distinct):
        for added in _RAGGED if base is report.base else _RAGGED[:2]:
            m, n, k = (more if role in ragged else 0 for role, more in zip(EXTENTS, added, strict=True))
            near = base.with_(m=base.m + m, n=base.n + n, k=base.k + k)
            problem = next((each for each in _scaled(spec, near) if taken(spec, dispatch, each)), None)
            if problem is not None and problem not in found and (m or n or k):
                found.append(problem)
    beyond = _beyond_thresholds(spec, report.base, dispatch, sorted(ragged))
    # The last ones have M, N and K of different size.
    chosen = found if len(found) <= _MOST_SHAPES else [*found[: _MOST_SHAPES - 1], found[-1]]
    c = report.trials[0].c if report.trials else "unset"
    for problem in (*chosen, *(each for each in beyond if each not in chosen)):
        yield Trial(LAUNCHED, problem, "exact", "integers", "lockstep", "set" if problem.beta else c)


def _beyond_thresholds(spec: KernelSpec, base: Problem, dispatch: Dispatch, ragged: list[str]) -> list[Problem]:
    """Ragged products a little beyond each number that host code compares sizes with, and a little below it, for which
    it launches this instantiation: ``K % 2 == 0 || K > 256`` lets an odd K through from 257 on."""
    found: list[Problem] = []
    for axis, number in product(ragged, dispatch.thresholds):
        for extent in (number + 3, number - 1):
            others = {other.lower(): _SHORT + at for at, other in enumerate(EXTENTS) if other != axis}
            near = base.with_(**{axis.lower(): extent}, **others) if extent > 0 else base
            problem = next((each for each in _scaled(spec, near) if taken(spec, dispatch, each)), None)
            if problem is not None and problem != base and work_of(problem) <= _MOST_WORK:
                found.append(problem)
    return found[:_MOST_BEYOND]


def _scaled(spec: KernelSpec, problem: Problem) -> Iterator[Problem]:
    """A product as it is, and with other scalars, of which host code may launch this instantiation for some."""
    alphas, betas = (values if spec.signature.has(role) else ()
                     for role, values in (("alpha", (1.0, 2.0)), ("beta", (0.0, -2.0, 1.0))))  # fmt: skip
    yield problem
    for alpha, beta in product(alphas or (problem.alpha,), betas or (problem.beta,)):
        yield problem.with_(alpha=alpha, beta=beta)


def _is_whole(asked: Asked) -> bool:
    """Whether a whole check is asked for, without a shape, a trial or a GPU."""
    return asked.free and not asked.trial.trial and asked.budget > 0 and not asked.device.wants_gpu


def _is_chosen(spec: KernelSpec) -> bool:
    """Whether the user says which instantiation is meant."""
    facts = spec.geometry.facts if isinstance(spec.geometry, UserLaunch) else None
    return facts is None or any(parameter.name in facts.given for parameter in facts.kernel.template or ())


def _is_ragged(problem: Problem) -> bool:
    return all(extent % 2 for extent in (problem.m, problem.n, problem.k))


def _add(report: Report, *lines: str) -> None:
    report.settled = replace(report.settled, lines=(*lines, *report.settled.lines))
