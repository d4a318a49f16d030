"""What gemmsmith check judges beside its trials: what host code clears, launches and passes, where the matrices of
several products lie, and values that choose another layout."""

from __future__ import annotations

import shlex
from dataclasses import replace

from gemmsmith.cli.check_prepare import Prepared
from gemmsmith.cli.render.check_report import Report
from gemmsmith.kernel.config import Config
from gemmsmith.verify.host.cleared import not_cleared
from gemmsmith.verify.host.launch_mistakes import LAUNCH_MISTAKES, launch_mistake
from gemmsmith.verify.meaning.other_modes import other_modes
from gemmsmith.verify.trials.trial import CLEARED, HEADS, MODES
from gemmsmith.verify.verdict import Verdict

BEYOND = (CLEARED, *LAUNCH_MISTAKES, HEADS, MODES)


def _is_asked(report: Report, *labels: str) -> bool:
    """Whether `--trial` names one of these, or nothing."""
    return not report.only or report.only in labels


def _again(verdict: Verdict, label: str) -> Verdict:
    """The verdict with a command that repeats this judgement alone."""
    return replace(verdict, repeat=f"{verdict.repeat.partition(' --trial ')[0]} --trial {shlex.quote(label)}")


def is_right_beyond_trials(prepared: Prepared, report: Report, config: Config, free: bool) -> bool:
    """Whether all that is judged here is right, after trials that passed."""
    return (
        _is_cleared(prepared, report, free)
        and _is_launched_right(prepared, report, config, free)
        and _are_right(prepared, report)
        and _are_modes_right(prepared, report, config)
    )


def _is_cleared(prepared: Prepared, report: Report, free: bool) -> bool:
    """Whether host code that sets C to zero, for a kernel that adds to it, does so for all of it."""
    trial, last = report.verdicts[-1]
    found = not_cleared(prepared.spec, prepared.distinct, last, free) if _is_asked(report, CLEARED) else None
    if found is not None:
        report.verdicts.append((replace(trial, label=CLEARED, problem=found.problem), _again(found, CLEARED)))
    return found is None


def _is_launched_right(prepared: Prepared, report: Report, config: Config, free: bool) -> bool:
    """Whether host code launches blocks that a GPU has, and passes the sizes and strides that the kernel needs."""
    trial, last = report.verdicts[-1]
    if not free or not _is_asked(report, *LAUNCH_MISTAKES):
        return True
    passed = next((verdict for _, verdict in report.verdicts if verdict.trusted), last)  # without faults to show
    found = launch_mistake(prepared.spec, config, prepared.distinct, passed, report.base)
    if found is not None:
        label, verdict = found
        report.verdicts.append((replace(trial, label=label, problem=verdict.problem), _again(verdict, label)))
    return found is None


def _are_right(prepared: Prepared, report: Report) -> bool:
    """Whether several products are right whose matrices do not follow one another."""
    (trial, last), places = report.verdicts[-1], prepared.places
    if places is None or not _is_asked(report, HEADS):
        return True
    verdict = _again(replace(last, problem=places.problem, reasons=(places.wrong,) if places.wrong else (),
                             fill="integers", mode="exact"), HEADS)  # fmt: skip
    report.trials.append(replace(trial, label=HEADS, problem=places.problem))
    report.verdicts.append((report.trials[-1], verdict))
    return not places.wrong


def _are_modes_right(prepared: Prepared, report: Report, config: Config) -> bool:
    """Whether the kernel gives a product with other values of the numbers that choose a layout."""
    (trial, last), spec = report.verdicts[-1], prepared.spec
    if spec.is_rung or not _is_asked(report, MODES) or prepared.blocks is not None or prepared.bench.kind != "sim":
        return True
    found = other_modes(prepared.bench.open, spec, config, prepared.shapes.distinct, lambda *_: prepared.compiled)
    lines = tuple(f"with {each}" for each in found.right)
    report.settled = replace(report.settled, lines=(*report.settled.lines, *lines))
    if found.wrong:
        reasons = (f"with {found.wrong} it gives no product of A and B, however they are stored",)
        verdict = replace(last, problem=prepared.distinct, reasons=reasons, fill="integers", mode="exact")
        report.verdicts.append((replace(trial, label=MODES, problem=prepared.distinct), _again(verdict, MODES)))
    return not found.wrong
