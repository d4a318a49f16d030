"""gemmsmith explain: what bounds a kernel, at which line, and what to change."""

from __future__ import annotations

from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, TargetOptions
from gemmsmith.cli.options.kernel import KernelName, KernelOptions
from gemmsmith.cli.options.output import DetailOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.render.diagnosis_text import check_json, print_findings, print_quick_check
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.render.short_answer import print_other_costs, print_short_answer
from gemmsmith.cli.render.stall_text import print_lines, untold
from gemmsmith.cli.subject import Subject, find_subject
from gemmsmith.cli.subject_check import checked_subject, diagnosed_subject
from gemmsmith.cli.timed_subject import time_subject, timed_json, with_copy_gain
from gemmsmith.explain.diagnosis import MODEL, SPEED, Diagnosis, to_json
from gemmsmith.explain.timing.advice import with_model_gains
from gemmsmith.explain.timing.summary import recorded_stalls, stalls_beside
from gemmsmith.explain.timing.timed import TIME_MODEL, Timed
from gemmsmith.verify.quick_check import QuickCheck


def command(
    kernel: KernelName, options: KernelOptions, problem: ProblemOptions, arguments: ArgumentOptions,
    target: TargetOptions, cache: CacheOptions, output: DetailOptions,
) -> None:  # fmt: skip
    """Say what bounds a kernel on a GPU, at which line, and what to change.

    A user's kernel is checked first, on one shape; a wrong one gets no advice.
    """
    if arguments.launches(kernel):
        from gemmsmith.cli.launch_commands import explain_launches

        explain_launches(kernel, options, arguments, target, cache, output.json)
        return
    gpu = target.model
    subject = find_subject(kernel, options, problem, target.architecture, cache.compiler)
    with progress() as bar:
        task = bar.add_task(f"simulating {subject.spec.name}", total=3)
        check = checked_subject(subject, cache.compiler)
        bar.advance(task)
        found = diagnosed_subject(subject, cache.compiler, gpu, check)
        bar.advance(task)
        time = time_subject(subject, gpu, check)
        found = with_copy_gain(with_model_gains(found, time), subject, gpu, time)
        bar.advance(task)
    if output.json:
        print_json(check_json(check) | timed_json(to_json(found), time))
    else:
        _print(subject, found, check, time, output.details)


def _print(subject: Subject, found: Diagnosis, check: QuickCheck | None, time: Timed, details: bool) -> None:
    """The answer, on one screen; with ``details`` also every cost, and the figures behind it."""
    say(f"{subject.title} on {found.case.gpu.name}", "bold")
    print_quick_check(subject.spec.name, check)
    print_short_answer(found, time, check, with_patch=not details)
    say()
    say(time.sentences[0])
    if time.predicted is None:
        say(found.sentences[0])
    if details:
        _print_details(subject, found, check, time)
    else:
        print_other_costs(found, check)
    say()
    if details:
        say(MODEL if time.predicted is None else TIME_MODEL, "dim")
        return
    what = "" if time.predicted is None else "Predicted, not measured. "
    say(f"{what}--details: every cost, the figures, and where warps wait.", "dim")


def _print_details(subject: Subject, found: Diagnosis, check: QuickCheck | None, time: Timed) -> None:
    """What costs time and what to do about it, then the figures behind it."""
    # The bound and the speed of the older estimate give way to the cycle model's.
    kept = [text for i, text in enumerate(found.sentences) if not (time.counts_only and i == SPEED)]
    print_findings(found.findings, check)
    say()
    say("Figures", "bold")
    for sentence in untold(time, found.findings):
        say(sentence)
    for sentence in kept[1 if time.predicted is None else 2 :]:
        say(sentence)
    source, seen = recorded_stalls(subject.spec.name, str(subject.config), subject.problem, found.case.gpu)
    if seen and time.predicted is not None:
        say(stalls_beside(time, source, seen))
    print_lines(time)
