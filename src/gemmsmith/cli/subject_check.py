"""What explain and compare do with a user's kernel besides counting: check it first, and try a remedy in a copy."""

from __future__ import annotations

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.subject import Subject
from gemmsmith.compile.sass import disassemble
from gemmsmith.explain.diagnosis import Diagnosis, diagnose
from gemmsmith.explain.padding_trial import Tried, with_trials
from gemmsmith.gpus import GPU
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.verify.quick_check import QuickCheck, quick_check


def checked_subject(subject: Subject, compiler: Compiler) -> QuickCheck | None:
    """A quick check of a user's kernel; None for a rung, which the tests verify."""
    if subject.spec.is_rung:
        return None
    return quick_check(subject.spec, subject.config, compiler, subject.compiled.arch, subject.options.layout)


def diagnosed_subject(subject: Subject, compiler: Compiler, gpu: GPU, check: QuickCheck | None) -> Diagnosis:
    """The diagnosis of a subject; the remedy of bank conflicts is tried in a copy of a kernel that is right."""
    found = diagnose(*subject.profile(), gpu)
    if check is None or not check.ok:
        return found

    def attempt(copy: KernelSpec) -> Tried:
        arch = subject.compiled.arch
        fitted, seen = aligned_code(copy, subject.config, subject.problem)
        compiled = compiler(copy, fitted, seen, arch)
        again = subject.counted(copy, fitted, compiled, disassemble(compiled))
        verdict = quick_check(copy, subject.config, compiler, arch, subject.options.layout)
        return Tried(diagnose(*again, gpu), "" if verdict.ok else verdict.said.rstrip("."))

    return with_trials(found, subject.spec, attempt)
