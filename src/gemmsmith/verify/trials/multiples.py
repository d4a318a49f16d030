"""Multiples that M, N and K must have for a kernel to be right, and what is wrong where they have not."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import Problem
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.verdict import Verdict


@dataclass(frozen=True)
class Multiples:
    """M, N and K must be multiples of these; 1: any. ``from_k``: the least K; 0: the first multiple."""

    m: int = 1
    n: int = 1
    k: int = 1
    from_k: int = 0

    def up(self, problem: Problem) -> Problem:
        """The product with extents rounded up to multiples."""
        k = max(round_up(problem.k, self.k), self.from_k)
        return problem.with_(m=round_up(problem.m, self.m), n=round_up(problem.n, self.n), k=k)

    def __str__(self) -> str:
        words = [f"{step} in {axis}" for axis, step in (("M", self.m), ("N", self.n), ("K", self.k)) if step > 1]
        return ", ".join(words) + (f" from {self.from_k}" if self.from_k else "")


ANY = Multiples()


@dataclass(frozen=True)
class Raggedness:
    """What is right at ragged shapes. ``wrong``: an extent whose guards are, and the trial that shows it. ``told``: a
    comment or host code allows that size, whatever the guards say."""

    multiples: Multiples
    wrong: str = ""
    trial: Trial | None = None
    verdict: Verdict | None = None
    told: bool = False


class WrongGuard(Exception):  # noqa: N818 - it ends the search, and is no error
    """A trial that no multiple explains: the kernel was meant to be right there. ``extent``: which of M, N and K."""

    def __init__(self, extent: str, trial: Trial, verdict: Verdict | None) -> None:
        super().__init__(trial.label)
        self.found = Raggedness(ANY, extent, trial, verdict)


def round_up(extent: int, step: int) -> int:
    return -(-extent // step) * step
