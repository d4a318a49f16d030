"""What explain and compare do with a user's kernel besides counting: check it first, and try a remedy in a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.subject import Subject
from gemmsmith.compile.sass import disassemble
from gemmsmith.cure.program import program_of
from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.diagnosis import Diagnosis, diagnose
from gemmsmith.explain.padding_trial import Tried, with_trials
from gemmsmith.explain.register_limit import with_register_limit
from gemmsmith.explain.swap_trial import with_array_names, with_staging, with_swap
from gemmsmith.gpus import GPU
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.text.source import read_text
from gemmsmith.verify.quick_check import QuickCheck, quick_check


def checked_subject(subject: Subject, compiler: Compiler) -> QuickCheck | None:
    """A quick check of a user's kernel; None for a rung, which the tests verify."""
    if subject.spec.is_rung:
        return None
    return quick_check(subject.spec, subject.config, compiler, subject.compiled.arch, subject.options.layout)


def diagnosed_subject(subject: Subject, compiler: Compiler, gpu: GPU, check: QuickCheck | None) -> Diagnosis:
    """The diagnosis of a subject; the remedy of bank conflicts is tried in a copy of a kernel that is right."""
    found = diagnose(*subject.profile(), gpu)
    if not subject.spec.is_rung:
        entry = subject.spec.signature.entry.split("<")[0].rsplit("::", 1)[-1]
        found = with_register_limit(found, read_text(subject.spec.source), entry, subject.spec.source.name)
    if check is None or not check.ok:
        return found

    def attempt(copy: KernelSpec) -> Tried:
        arch = subject.compiled.arch
        fitted, seen = aligned_code(copy, subject.config, subject.problem)
        compiled = compiler(copy, fitted, seen, arch)
        again = subject.counted(copy, fitted, compiled, disassemble(compiled))
        verdict = quick_check(copy, subject.config, compiler, arch, subject.options.layout)
        return Tried(diagnose(*again, gpu), "" if verdict.ok else verdict.said.rstrip("."), copy)

    spec = subject.spec
    tried = with_array_names(with_trials(found, spec, attempt), spec.signature, subject.problem, spec.code)
    return with_staging(_with_swap(subject, tried, attempt))


def _with_swap(subject: Subject, found: Diagnosis, attempt: Callable[[KernelSpec], Tried]) -> Diagnosis:
    """x and y swapped, where accesses are uncoalesced; of square blocks, which stay as they are. Of blocks along x
    alone, quotient and remainder of threadIdx.x."""
    spec = subject.spec
    block = spec.geometry(subject.problem, subject.config).block
    flat = block[1] == block[2] == 1
    if spec.is_rung or (block[0] != block[1] and not flat) or subject.options.grid or subject.options.block:
        return found

    def copied(edited: Edited) -> Tried:
        launch = replace(subject.options.launch, defines=subject.options.pairs, edited=edited)
        copy = user_kernel(Path(subject.name), launch)
        return attempt(copy.read_as(spec.signature, spec.layouts[0]))

    try:
        return with_swap(found, program_of(spec), copied, flat=flat)
    except GemmsmithError:
        return found
