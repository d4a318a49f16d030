"""The report on a product that is judged launch by launch: one with scales, or one that a formula describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from gemmsmith.cli.launch_report import source_text
from gemmsmith.cli.render.excerpt import print_fault
from gemmsmith.cli.render.launch_text import geometry_line, kernel_line
from gemmsmith.cli.render.output import item, patch, say
from gemmsmith.cure.suggestion import Suggestion
from gemmsmith.verify.meaning.launch_trial import ALIGNED, RIGHT, WHOLE_TILES, LaunchTrial
from gemmsmith.verify.trials.trial import ODD

_ALIGNED_ROWS = "rows that start on multiples of 16 bytes"
_MULTIPLES = {ALIGNED: "N and K that are multiples of 16", WHOLE_TILES: "whole tiles"}


class ProductCheck(Protocol):
    """What a judge of such a product found."""

    @property
    def trials(self) -> Sequence[LaunchTrial]: ...
    @property
    def status(self) -> str: ...
    @property
    def multiples(self) -> tuple[str, ...]: ...
    @property
    def ok(self) -> bool: ...
    @property
    def entry(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def formula(self) -> str: ...


@dataclass(frozen=True)
class ProductReport:
    """What check found, as text and as JSON."""

    check: ProductCheck
    lines: tuple[str, ...]
    source: str  # where its launch comes from
    seconds: float
    verbose: bool = False
    causes: tuple[Suggestion, ...] = ()

    @property
    def ok(self) -> bool:
        return self.check.ok

    @property
    def entry(self) -> str:
        return self.check.entry

    def conclusion(self) -> str:
        """The verdict in one line."""
        found = self.check
        as_what = f"as {found.formula}"
        passed = sum(trial.ok for trial in found.trials)
        if found.status == RIGHT:
            return f"{self.entry} is right, {as_what}: {passed} trials passed"
        if found.ok:
            extents = f" of {' and '.join(found.multiples)}" if found.multiples else ""
            sizes = _ALIGNED_ROWS if any(each.label == ODD for each in found.trials) else _MULTIPLES[found.status]
            return f"{self.entry} is right, {as_what}, for {sizes}{extents} only"
        failed = next(trial for trial in found.trials if not trial.ok)
        verb = "races" if found.status == "racy" else "is wrong"
        return f"{self.entry} {verb}, {as_what}: {failed.label} ({_shape(failed)})"

    def to_json(self) -> dict[str, Any]:
        kernel, geometry = self.check.trials[0].check.kernel, self.check.trials[0].check.launch.geometry
        used = kernel.compiled.resources
        return {
            "kernel": self.check.name, "entry": self.entry, "symbol": kernel.compiled.entry, "ok": self.ok,
            "status": self.check.status, "arch": kernel.compiled.arch, "found": list(self.lines),
            "registers": used.registers, "static_smem": used.static_smem,
            "launch": {"grid": list(geometry.grid), "block": list(geometry.block), "smem": geometry.smem,
                       "source": self.source},
            "trials": [_trial_json(trial) for trial in self.check.trials],
            "causes": [cause.to_json() for cause in self.causes], "remedies": [], "hints": [],
            "note": "", "verdict": self.conclusion(), "next": "", "notes": [], "skipped": [], "not_run": [],
            "warnings": [self.conclusion()] if self.ok and self.check.status != RIGHT else [],
            "seconds": round(self.seconds, 2), "certificate": None,
        }  # fmt: skip

    def show(self) -> None:
        """For people: the trials, what is wrong, and the verdict."""
        for line in self.lines:
            item(line, "cyan")
        first = self.check.trials[0].check
        item(kernel_line(first.kernel))
        item(f"{geometry_line(first.launch.geometry)} ({source_text(self.source)})")
        limited = self.check.ok
        for (label, ok), alike in groupby(self.check.trials, key=lambda trial: (trial.label, trial.ok)):
            mark, style = ("ok   ", "green") if ok else ("limit", "yellow") if limited else ("WRONG", "red")
            shapes = ", ".join(map(_shape, alike))
            say(f"  {mark} {label} ({shapes})", lead=f"  {mark}", lead_style=style, hang=" " * 8)
        item(self.conclusion(), "green" if self.check.status == RIGHT else "yellow" if self.ok else "red")
        for cause in self.causes:
            item(cause.sentence, "green")
            patch(cause.diff)
        for outcome in (each for trial in self.check.trials if not trial.ok for each in trial.check.outcomes):
            for fault in outcome.faults:
                print_fault(fault, "yellow" if limited else "red", self.verbose)
            for reason in outcome.reasons[outcome.told :]:
                item(f"  {reason}", "yellow" if limited else "red")


def _shape(trial: LaunchTrial) -> str:
    return "x".join(map(str, trial.shape))


def _trial_json(trial: LaunchTrial) -> dict[str, Any]:
    m, n, k = trial.shape
    reasons = [reason for outcome in trial.check.outcomes for reason in outcome.reasons]
    return {"label": trial.label, "schedule": "lockstep", "ok": trial.ok, "problem": {"m": m, "n": n, "k": k},
            "reasons": reasons, "hazards": [], "mistrusted": False, "damage": []}  # fmt: skip
