"""A bank conflict's remedy tried in a copy of the kernel: the array with longer rows, compiled and counted again."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.bottleneck import conflicts_of
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.flat_padding import flat_copy, flat_paddings, flat_remedy
from gemmsmith.explain.pattern_words import padded, paddings, remedy, with_longer_fragments
from gemmsmith.kernel.spec import KernelSpec


@dataclass(frozen=True)
class Tried:
    """A copy of the kernel with the remedy: its diagnosis, and whether its result is right ('' if it is)."""

    diagnosis: Diagnosis
    wrong: str
    copy: KernelSpec | None = None


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
    """The finding with the longer rows that are right and predicted to be fastest, or with what failed."""
    pattern = finding.pattern
    attempts = [(fix, copy, _attempted(copy, attempt)) for fix, copy in _copies(spec, pattern)]
    if not attempts or pattern is None:
        return finding
    right = [(fix, copy, each) for fix, copy, each in attempts if isinstance(each, Tried) and not each.wrong]
    if not right:
        return replace(finding, tried=_why_not(attempts[0][2]))
    fix, copy, best = min(right, key=lambda one: one[2].diagnosis.case.estimate.longest)
    before, after = (_share(each) for each in (found, best.diagnosis))
    text = f"Tried in a copy: bank conflicts fall from {before:.0%} to {after:.0%} of wavefronts; the result is right."
    helps = after < before
    return replace(finding, fix=fix, tried=text, confirmed=helps, diff=_patch(copy) if helps else "",
                   copy=copy if helps else None)  # fmt: skip


def _copies(spec: KernelSpec, pattern: AccessPattern | None) -> Iterator[tuple[str, KernelSpec]]:
    """Copies with longer rows, each with the change in words."""
    if pattern is None:
        return
    for more in paddings(pattern):
        if (copy := padded_copy(spec, pattern, more)) is not None:
            yield remedy(pattern, more), copy
    path = _file(spec, pattern.declaration.file) if pattern.declaration is not None else None
    for more in flat_paddings(pattern):
        if (copy := flat_copy(spec, pattern, more, path)) is not None:
            yield flat_remedy(pattern, more), copy


def _patch(copy: KernelSpec) -> str:
    """The last change of a copy as a unified diff."""
    path, text = copy.edited[-1]
    old = path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    return "\n".join(difflib.unified_diff(old, text.splitlines(), path.name, path.name, n=1, lineterm=""))


def _attempted(copy: KernelSpec, attempt: Try) -> Tried | GemmsmithError:
    try:
        return attempt(copy)
    except GemmsmithError as error:
        return error


def _why_not(failed: Tried | GemmsmithError) -> str:
    if isinstance(failed, Tried):
        return f"Tried in a copy: its result is then wrong ({failed.wrong}); other code relies on the length of a row."
    reason = failed.message.splitlines()[0]
    return f"Tried in a copy: it does not compile or run so ({reason}); other code names the length of a row too."


def _share(diagnosis: Diagnosis) -> float:
    return conflicts_of(diagnosis.case.profile) / max(1.0, diagnosis.case.work.wavefronts)


def padded_copy(spec: KernelSpec, pattern: AccessPattern, more: int) -> KernelSpec | None:
    """The kernel with rows of the array that are ``more`` elements longer; None if the declaration is not found."""
    declared = pattern.declaration
    if declared is None:
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
    text = with_longer_fragments("".join(lines), declared, more)
    return replace(spec, edited=(*spec.edited, (path, text)))


def _file(spec: KernelSpec, name: str) -> Path | None:
    """The file that the compiler calls ``name``."""
    for path in (spec.source, spec.unit, spec.source.parent / name):
        if path is not None and path.name == Path(name).name and path.is_file():
            return path
    return None
