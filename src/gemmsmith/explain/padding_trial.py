"""A bank conflict's remedy tried in a copy of the kernel: the array with longer rows, compiled and counted again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.bottleneck import conflicts_of
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.pattern_words import padded, padding
from gemmsmith.kernel.spec import KernelSpec


@dataclass(frozen=True)
class Tried:
    """A copy of the kernel with the remedy: its diagnosis, and whether its result is right ('' if it is)."""

    diagnosis: Diagnosis
    wrong: str


Try = Callable[[KernelSpec], Tried]


def with_trials(found: Diagnosis, spec: KernelSpec, attempt: Try) -> Diagnosis:
    """The diagnosis with what the remedy of its bank conflicts did in a copy; a user's file only."""
    if spec.is_rung:
        return found
    findings = [
        _tried(found, each, spec, attempt) if each.kind == "bank conflicts" else each for each in found.findings
    ]
    return replace(found, findings=tuple(findings))


def _tried(found: Diagnosis, finding: Finding, spec: KernelSpec, attempt: Try) -> Finding:
    copy = padded_copy(spec, finding.pattern) if finding.pattern is not None else None
    if copy is None:
        return finding
    try:
        tried = attempt(copy)
    except GemmsmithError as error:
        reason = error.message.splitlines()[0]
        return replace(finding, tried=f"Tried in a copy: it does not compile or run so ({reason}); other code names "
                                      "the length of a row too.")  # fmt: skip
    before, after = (_share(each) for each in (found, tried.diagnosis))
    gain = found.case.estimate.longest / tried.diagnosis.case.estimate.longest
    if tried.wrong:
        text = f"Tried in a copy: its result is then wrong ({tried.wrong}); other code relies on the length of a row."
    else:
        text = (f"Tried in a copy: the share of bank conflicts changes from {before:.0%} to {after:.0%}, the result is "
                f"right, and the copy is predicted to be {gain:.2f} times as fast.")  # fmt: skip
    return replace(finding, tried=text)


def _share(diagnosis: Diagnosis) -> float:
    return conflicts_of(diagnosis.case.profile) / max(1.0, diagnosis.case.work.wavefronts)


def padded_copy(spec: KernelSpec, pattern: AccessPattern) -> KernelSpec | None:
    """The kernel with longer rows of the array; None if padding is no remedy or the declaration is not found."""
    declared, more = pattern.declaration, padding(pattern)
    if declared is None or not more:
        return None
    path = _file(spec, declared.file)
    if path is None:
        return None
    lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines(keepends=True)
    old = re.compile(
        rf"\b{re.escape(declared.name)}\s*" + r"\s*".join(rf"\[\s*{re.escape(e)}\s*\]" for e in declared.extents)
    )
    changed = old.sub(lambda _: padded(declared, more), lines[declared.line - 1], count=1)
    if changed == lines[declared.line - 1]:
        return None
    lines[declared.line - 1] = changed
    return replace(spec, edited=(*spec.edited, (path, "".join(lines))))


def _file(spec: KernelSpec, name: str) -> Path | None:
    """The file that the compiler calls ``name``."""
    for path in (spec.source, spec.unit, spec.source.parent / name):
        if path is not None and path.name == Path(name).name and path.is_file():
            return path
    return None
