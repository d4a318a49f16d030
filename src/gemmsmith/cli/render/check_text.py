"""What gemmsmith check prints for people: the trials, the verdict and its cause, the evidence, the next command."""

from __future__ import annotations

from collections import Counter

from gemmsmith.cli.launch_report import launch_line
from gemmsmith.cli.render.certificate_text import certificate_lines
from gemmsmith.cli.render.check_json import report_json
from gemmsmith.cli.render.check_note import failure_note
from gemmsmith.cli.render.check_report import LIMIT, Report
from gemmsmith.cli.render.excerpt import Shown, print_verdict
from gemmsmith.cli.render.output import bytes_text, item, patch, print_json, say
from gemmsmith.verify.leniency import read_note
from gemmsmith.verify.oracles.exact_run import NOT_THE_PRODUCT
from gemmsmith.verify.trials.trial import UNREAD, Trial
from gemmsmith.verify.verdict import Verdict

_STYLES = {"ok": "green", LIMIT: "yellow"}
_SHOWN = 3  # places that no size reaches


def show_report(report: Report, json: bool) -> None:
    """Print it, as JSON or as text."""
    if json:
        print_json(report_json(report))
    else:
        print_report(report)


def print_report(report: Report) -> None:
    """For people: trials, verdict, causes, evidence, what was left out, the certificate and the next command."""
    used = report.compiled.resources
    for line in report.settled.lines:
        item(f"{report.entry}: {line}", "cyan")
    item(f"{report.spec.name}: {report.entry}, {used.registers} registers, "
         f"{bytes_text(used.static_smem)} static shared memory, {report.compiled.arch}")  # fmt: skip
    if not report.spec.is_rung:
        item(launch_line(report.launch))
    for trial, verdict in report.verdicts:
        if trial.group and verdict.trusted:
            continue
        mark = "ok" if verdict.trusted else report.mark(trial, verdict)
        style = _STYLES.get(mark, "red")
        text = f"  {mark:<5} {_trial_text(trial, verdict)} ({report.own(trial.problem)})"
        say(text, lead=f"  {mark:<5}", lead_style=style, hang=" " * 6)
    if fitted := _fitted_line(report):
        say(f"  ok    {fitted}", lead="  ok   ", lead_style="green", hang=" " * 6)
    for label, why in _skipped(report) if not report.only else ():
        say(f"  skipped {label}: {why}", "dim", hang=" " * 6)
    for verdict in report.advice:
        item(read_note(verdict, _advice(report, "c-read")), "yellow")
    for remark in report.remarks:
        item(f"{report.entry}: {remark}{'' if report.strict else ' (--strict makes this a failure)'}", "yellow")
    for hint in report.hints if not report.ok else ():
        item(hint, "yellow")
    right = report.status in ("right", "column_major")
    item(report.conclusion(), "green" if right else "yellow" if report.ok else "red")
    for cause in report.causes:
        item(cause.sentence, "green")
        patch(cause.diff)
    _print_evidence(report)
    if note := failure_note(report):
        say(note)
    for note in report.launch_notes:
        item(f"note: {note}", "yellow")
    if left := _left_line(report):
        item(left, "dim")
    if report.unreached:
        more = f" and {len(report.unreached) - _SHOWN} more" if len(report.unreached) > _SHOWN else ""
        item(
            f"branches that always went the same way at the sizes tried: {', '.join(report.unreached[:_SHOWN])}{more}",
            "dim",
        )
    if report.settled.rejected and not report.ok:
        item(f"Note: {report.settled.rejected}. If that is meant, say so with --layout.", "yellow")
    for line in _certificate_lines(report):
        item(line, "yellow" if NOT_THE_PRODUCT in line else "")
    if report.budget:
        item(_budget_line(report), "dim")
    if report.next_command():
        item(f"next: {report.next_command()}")


def _trial_text(trial: Trial, verdict: Verdict) -> str:
    """A trial's label; of one that says what must not happen, what happened."""
    return trial.label.replace(UNREAD, "C is read when beta = 0") if not verdict.trusted else trial.label


def _skipped(report: Report) -> list[tuple[str, str]]:
    """Trials that could not be run, those with the same reason on one line."""
    labels: dict[str, list[str]] = {}
    for label, why in report.skipped:
        labels.setdefault(why, []).append(label)
    return [("; ".join(some), why) for why, some in labels.items()]


def _advice(report: Report, kind: str) -> str:
    return next((each.advice for each in report.remedies if each.kind == kind), "")


def _print_evidence(report: Report) -> None:
    """The failed trials with their source lines: what makes the kernel wrong before what only restricts it."""
    shown: Shown = set()
    told = [(t, v) for t, v in report.verdicts if not v.trusted and (report.strict or not report.is_remark(t, v))]
    for trial, verdict in sorted(told, key=lambda each: report.mark(*each) == LIMIT):
        mark, style = report.mark(trial, verdict), "yellow" if report.mark(trial, verdict) == LIMIT else "red"
        head = verdict.head.replace(str(verdict.problem), report.own(verdict.problem), 1)
        print_verdict(verdict, head.replace("WRONG:", f"{mark}:", 1), style, report.verbose, shown)


def _fitted_line(report: Report) -> str:
    """How many of the trials chosen for the kernel passed, by what they are about."""
    passed = Counter(trial.group for trial, verdict in report.verdicts if trial.group and verdict.trusted)
    if not passed:
        return ""
    plural = "s" if passed.total() != 1 else ""
    return f"{passed.total()} trial{plural} chosen for this kernel: " + ", ".join(
        f"{group} {n}" for group, n in passed.items()
    )


def _left_line(report: Report) -> str:
    planned = {trial.label for trial in report.trials if not trial.group}
    plain = [label for label in report.left if label in planned]
    if plain:
        return f"not run after the failure: {', '.join(plain)}"
    plural = "s" if len(report.left) != 1 else ""
    return f"not run for lack of time: {len(report.left)} trial{plural} chosen for this kernel" if report.left else ""


def _budget_line(report: Report) -> str:
    run = f"{len(report.verdicts)} trials in {report.seconds:.1f} s of {report.budget:g} s"
    more = report.more + (len(report.left) if report.ok else 0)
    return f"{run}; gemmsmith verify --full runs {more} more" if more > 0 else run


def _certificate_lines(report: Report) -> list[str]:
    return [] if report.certificate is None else certificate_lines(report.certificate, report.spec, report.own)
