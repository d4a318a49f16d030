"""Judge a kernel that a formula explains, in all instances of its template that host code launches.

One instance has the verdict. The others are held to the same formula, each in a share of the seconds; one that may
compute something else is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel, other_instances, same_but_for_sizes
from gemmsmith.verify.formula.case import Runner
from gemmsmith.verify.formula.documented import Documented, documented
from gemmsmith.verify.formula.find import SEARCH_S, Found, find_formula
from gemmsmith.verify.formula.formula import ONE, Formula
from gemmsmith.verify.formula.judge import BUDGET_S, FormulaCheck, Judge
from gemmsmith.verify.formula.named_objects import activations_named_by, other_than_named
from gemmsmith.verify.formula.takes import takes

_EXTENTS = (64, 16, 8, 32, 48, 128, 192, 256, 320, 512, 640, 1024, 2048, 4096)


def check_formula(
    kernel: FormulaKernel, timeout: float, cache: CompileCache | None, refused: GemmsmithError, only: str = ""
) -> FormulaCheck:  # fmt: skip
    """The verdict, or the outcome of the trial ``only``; raises ``refused`` where no formula explains the kernel."""
    first, others = _Subject.of(kernel, timeout, cache, SEARCH_S), other_instances(kernel)
    share = SEARCH_S / 2 / max(1, len(others))
    subjects = [first, *(_Subject.of(each, timeout, cache, share) for each in others)]
    explained = next((each for each in subjects if each is not None and each.found is not None), None)
    if explained is None or explained.found is None:
        raise refused
    check = FormulaCheck(explained.runner.kernel, explained.found)
    check = Judge(explained.runner, explained.told, check, refused, only).judged()
    if not check.ok or only:
        return check
    for each in (each for each in subjects if each is not None and each is not explained):
        judged = each.judged_like(explained, refused, len(others))
        if judged is not None and not judged.ok:
            return judged
        said = "not judged" if judged is None else judged.status.replace("_", " ")
        check.also += (f"{each.runner.kernel.entry}: {said}",)
    return check


def check_instance(
    kernel: FormulaKernel, beside: FormulaKernel | None, timeout: float, cache: CompileCache | None,
    refused: GemmsmithError, seconds: float,
) -> FormulaCheck | None:  # fmt: skip
    """The verdict on one instance of a template by its own formula, or by that of an instance ``beside`` it and the
    activation that its function object is called after; None where there is no such formula."""
    subject = _Subject.of(kernel, timeout, cache, seconds / 2)
    found = None if subject is None else subject.found
    named = activations_named_by(kernel)
    if subject is None or (found is None and not named):
        return None
    if found is None and beside is not None:
        other = _Subject.of(beside, timeout, cache, seconds / 2)
        found = None if other is None or other.found is None else other_than_named(subject.runner, other.found, named)
    if found is None:
        return None
    check = FormulaCheck(kernel, found, named=subject.found is None)
    judge = Judge(subject.runner, subject.told, check, refused, "")
    judge.start -= max(0.0, BUDGET_S - seconds)
    try:
        return judge.judged()
    except GemmsmithError:
        return None


@dataclass(frozen=True)
class _Subject:
    """An instance of the kernel, with the formula that explains a launch of it."""

    runner: Runner
    told: Documented
    found: Found | None

    @classmethod
    def of(cls, kernel: FormulaKernel, timeout: float, cache: CompileCache | None, seconds: float) -> _Subject | None:
        try:
            runner = Runner(kernel, takes(kernel), timeout, cache)
            told = documented(kernel.text, runner.taken.extents)
            return cls(runner, told, find_formula(runner, told, seconds))
        except GemmsmithError:
            return None

    def judged_like(self, other: _Subject, refused: GemmsmithError, shares: int) -> FormulaCheck | None:
        """The verdict, in a share of the seconds: by its own formula, or by that of the other where they differ in
        sizes alone; None where it may compute something else."""
        assert other.found is not None
        found, kernel = self.found, self.runner.kernel
        if found is None and same_but_for_sizes(other.runner.kernel, kernel):
            sizes = next((each for each in self._sizes(other.found.case.sizes) if kernel.is_launched(each)), None)
            found = None if sizes is None else replace(other.found, case=other.found.case.with_sizes(**sizes))
        if found is None or self._of_any_size(found.formula) != other._of_any_size(other.found.formula):
            return None
        judge = Judge(self.runner, self.told, FormulaCheck(kernel, found), refused, "")
        judge.start -= BUDGET_S * (1 - 1 / shares)
        try:
            return judge.judged()
        except GemmsmithError:
            return None

    def _of_any_size(self, formula: Formula) -> Formula:
        """The formula without the extents that its template fixes: ``skinny<1>`` and ``skinny<4>`` compute the same."""
        return formula.with_ones(set(self.runner.kernel.integers) - set(self.runner.taken.extents) | {ONE})

    def _sizes(self, base: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Extents for which host code may launch this instance, with the integers of its template."""
        taken, integers = self.runner.taken, self.runner.kernel.integers
        own = {name: value for name, value in integers.items() if name not in taken.extents}
        for name in taken.extents:
            for extent in _EXTENTS:
                yield {**base, **own, name: extent}
