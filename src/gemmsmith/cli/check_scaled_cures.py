"""Causes for products with scales: changes are tried on copies of the file, until its check passes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.cure.fault import Fault, fault_from
from gemmsmith.cure.program import program_of
from gemmsmith.cure.search import Outcome, find_cure
from gemmsmith.cure.suggestion import Suggestion
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.verify.meaning.launch_trial import RIGHT
from gemmsmith.verify.meaning.scaled_check import EDGES
from gemmsmith.verify.meaning.scaled_check import ScaledCheck as Check
from gemmsmith.verify.meaning.scaled_meanings import formula
from gemmsmith.verify.trials.trial import DISTINCT, Trial

Judge = Callable[[Path, str], Check]  # of the file at a path: the whole check, or the trial of that name


@dataclass(frozen=True)
class _CopyBench:
    """Runs copies of a file, in a folder of their own."""

    file: Path
    judge: Judge
    label: str

    def fails(self, edited: Edited, _trial: Trial | None = None) -> Outcome | None:
        found = self._judged(edited, self.label)
        if found is None:
            return None
        return Outcome(True) if found.ok else Outcome(False, scaled_fault(found, self.file))

    def whole_check(self, edited: Edited) -> Outcome | None:
        found = self._judged(edited, "")
        if found is None or not found.ok or (self.label in EDGES and found.status != RIGHT):
            return None  # whole tiles were right before
        passed = f"all {len(found.trials)} trials pass" if found.status == RIGHT else "whole tiles pass"
        return Outcome(True, tried=f"{passed}, as {formula(found.meaning, found.parameters)}")

    def _judged(self, edited: Edited, label: str) -> Check | None:
        text = next((text for path, text in edited if path.resolve() == self.file.resolve()), None)
        if text is None or len(edited) != 1:
            return None
        with tempfile.TemporaryDirectory(prefix="gemmsmith-") as folder:
            copy = Path(folder) / self.file.name
            copy.write_text(text, encoding="utf-8")
            try:
                return self.judge(copy, label)
            except GemmsmithError:
                return None


def scaled_causes(
    spec: KernelSpec, parameters: Iterable[ScaledParameter], fault: Fault, label: str, judge: Judge,
    seconds: float,
) -> tuple[Suggestion, ...]:  # fmt: skip
    """The change that cures, if one does; none for a kernel whose sources are several files."""
    if not seconds > 0:
        return ()
    try:
        program = program_of(spec)
        if len(program.files) != 1:
            return ()
        scales = tuple(each.name for each in parameters if each.role in ("scale", "zero") and each.pointer)
        bench = _CopyBench(program.files[0].path, judge, label or DISTINCT)
        found = find_cure(replace(program, scales=scales), fault, bench, seconds)
    except GemmsmithError:
        return ()
    return (found,) if found is not None else ()


def scaled_fault(check: Check, file: Path) -> Fault:
    """The fault of the trial that failed."""
    failed = next(trial for trial in check.trials if not trial.ok)
    outcomes = [each for each in failed.check.outcomes if not each.ok]
    hazards = [hazard for each in outcomes for hazard in each.hazards]
    text = "\n".join(reason for each in outcomes for reason in each.reasons)
    return fault_from(text, hazards, {file.name}, dict(zip("MNK", failed.shape, strict=True)))
