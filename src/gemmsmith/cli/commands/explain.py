"""gemmsmith explain: what bounds a kernel, and fixes in order of estimated gain."""

from __future__ import annotations

from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, TargetOptions
from gemmsmith.cli.options.kernel import KernelName, KernelOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.subject import Subject, find_subject
from gemmsmith.explain.diagnosis import MODEL, Diagnosis, diagnose, to_json

_WORTH = 1.005  # smaller gains are rounding


def command(
    kernel: KernelName, options: KernelOptions, problem: ProblemOptions, arguments: ArgumentOptions,
    target: TargetOptions, cache: CacheOptions, output: OutputOptions,
) -> None:  # fmt: skip
    """Say what bounds a kernel on a GPU, and list fixes by estimated gain."""
    if arguments.launches(kernel):
        from gemmsmith.cli.launch_commands import explain_launches

        explain_launches(kernel, options, arguments, target, cache, output.json)
        return
    gpu = target.model
    subject = find_subject(kernel, options, problem, target.architecture, cache.compiler)
    with progress() as bar:
        task = bar.add_task(f"simulating {subject.spec.name}", total=1)
        found = diagnose(*subject.profile(), gpu)
        bar.advance(task)
    if output.json:
        print_json(to_json(found))
    else:
        _print(subject, found)


def _print(subject: Subject, found: Diagnosis) -> None:
    say(f"{subject.title} on {found.case.gpu.name}", "bold")
    say()
    for sentence in found.sentences:
        say(sentence)
    shown = [f for f in found.findings if f.gain >= _WORTH]
    hidden = [f for f in found.findings if f.gain < _WORTH]
    if shown:
        say("\nWhat to do, by estimated gain", "bold")
    for number, finding in enumerate(shown, 1):
        start = f"{number}. {finding.kind}"
        say(f"{start}: {finding.gain:.2f} times as fast", lead=start)
        say(f"{finding.sentence} {finding.fix}", indent="   ")
    if hidden:
        say("\nNo gain by itself, while the above bounds the kernel", "bold")
    for finding in hidden:
        say(f"- {finding.kind}", "bold")
        say(f"{finding.sentence} {finding.fix}", indent="   ")
    say()
    say(MODEL, "dim")
