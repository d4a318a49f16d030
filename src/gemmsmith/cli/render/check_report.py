"""What gemmsmith check prints: the launch, each trial, what is wrong and what that means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gemmsmith.cli.launch_report import launch_line
from gemmsmith.cli.render.output import bytes_text, item, print_json, say
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.leniency import read_note
from gemmsmith.verify.verdict import Verdict

DISTINCT = "M, N and K all different"
RAGGED = "a shape that is no multiple of the tile"
UNREAD = "C is not read when beta = 0"


@dataclass(frozen=True)
class Trial:
    """One launch: its purpose, problem, oracle, data, order of warps, and what C holds before it."""

    label: str
    problem: Problem
    mode: str
    fill: str
    schedule: str
    c: str = "unset"

    @property
    def shape(self) -> str:
        return f"{self.problem.m}x{self.problem.n}x{self.problem.k}"


@dataclass
class Report:
    """The result of a check; ``verdicts`` grows as trials are run.

    skipped  trials that could not be run, with the reason
    strict   reading C when beta = 0 is a failure
    hints    causes of a failure other than the kernel
    """

    spec: KernelSpec
    compiled: CompiledKernel
    base: Problem
    launch: dict[str, Any]
    trials: list[Trial]
    skipped: list[tuple[str, str]]
    strict: bool
    verdicts: list[tuple[Trial, Verdict]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(v.trusted for t, v in self.verdicts if self.strict or t.label != UNREAD)

    @property
    def advice(self) -> list[Verdict]:
        """Failures that do not count: reading C when beta = 0."""
        return [v for t, v in self.verdicts if t.label == UNREAD and not v.trusted and not self.strict]

    @property
    def left(self) -> list[str]:
        """Trials that came after the failure."""
        return [trial.label for trial in self.trials[len(self.verdicts) :]]

    def show(self, json: bool) -> None:
        """Print it, as JSON or as text."""
        if json:
            print_json(self._json())
        else:
            self._print()

    def _json(self) -> dict[str, Any]:
        used = self.compiled.resources
        return {
            "kernel": self.spec.name, "entry": self.compiled.entry, "ok": self.ok, "arch": self.compiled.arch,
            "registers": used.registers, "static_smem": used.static_smem, "launch": self.launch,
            "trials": [{"label": t.label, "schedule": t.schedule, "c": t.c, **v.to_json()} for t, v in self.verdicts],
            "hints": self.hints, "note": self.note(),
            "warnings": [f"C is read when beta = 0: {reason}" for v in self.advice for reason in v.reasons[:2]],
            "skipped": [{"label": label, "reason": why} for label, why in self.skipped],
            "not_run": self.left,
        }  # fmt: skip

    def _print(self) -> None:
        used = self.compiled.resources
        item(f"{self.spec.name}: {self.compiled.entry}, {used.registers} registers, "
             f"{bytes_text(used.static_smem)} static shared memory, {self.compiled.arch}")  # fmt: skip
        if not self.spec.is_rung:
            item(launch_line(self.launch))
        advice = self.advice
        for trial, verdict in self.verdicts:
            failed = ("note ", "yellow") if verdict in advice else ("WRONG", "red")
            mark, style = ("ok   ", "green") if verdict.trusted else failed
            say(f"  {mark} {trial.label} ({trial.problem})", lead=f"  {mark}", lead_style=style, hang=" " * 6)
        for label, why in self.skipped:
            say(f"  skipped {label}: {why}", "dim", hang=" " * 6)
        for verdict in advice:
            item(read_note(verdict), "yellow")
        for hint in self.hints:
            item(hint, "yellow")
        for _, verdict in self.verdicts:
            if not verdict.trusted and verdict not in advice:
                item(str(verdict), "red")
        if note := self.note():
            say(note)
        if self.left:
            item(f"not run after the failure: {', '.join(self.left)}", "dim")

    def note(self) -> str:
        """What it means that only another shape failed; empty where that is not the case."""
        *before, (trial, verdict) = self.verdicts
        if trial.label not in (DISTINCT, RAGGED) or verdict.trusted:
            return ""
        passed = [t for t, v in before if v.trusted]
        others = [t.shape for t in passed if t.label == DISTINCT]
        same = f"All {len(passed) - len(others)} trials of {self.base} passed"
        if trial.label == DISTINCT:
            return (
                f"{same}, but not {trial.shape}, where M, N and K all differ: look for one of them used in place of "
                "another, as a stride or a loop bound, and for a grid whose x and y are swapped."
            )
        apart = others or len({self.base.m, self.base.n, self.base.k}) == 3
        too = f" ({others[0]}, too)" if others else ""
        right = f"multiples of the tile are right{too}" if apart else "square multiples of the tile are right"
        outside = any("out-of-bounds" in reason for reason in verdict.reasons)
        return (
            f"{same}: {right}{', but for other shapes it accesses memory outside its matrices' if outside else ''}. "
            "For every shape it needs guards at the edges: row < M, col < N, k < K."
        )
