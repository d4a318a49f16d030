"""How ``gemmsmith accuracy`` shows its points: a table of all kernels, ratios, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.markup import escape

from gemmsmith.cli.render.output import columns, item, print_table, say
from gemmsmith.fills import fill_named
from gemmsmith.problem import TF32
from gemmsmith.verify.oracles.accuracy_study import MEASURES, Plan, Point, Ratio, Subject, ratios

_ALL_COLUMNS = 90  # on a narrower terminal, the largest error is shown in units of u only


@dataclass(frozen=True)
class Study:
    """A finished study, with its origin and the command that repeats it."""

    subjects: tuple[Subject, ...]
    plan: Plan
    points: tuple[Point, ...]
    origin: str
    device: str
    command: str
    version: str
    date: str
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        many = f", {self.plan.seeds} seeds" if self.plan.seeds > 1 else ""
        return f"Errors of {self.plan.m}×{self.plan.n} products of {self.operands}, {self.origin} ({self.device}{many})"

    @property
    def operands(self) -> str:
        return "fp32 matrices for tf32" if self.plan.dtype == TF32 else f"{self.plan.dtype} matrices"

    @property
    def missing(self) -> int:
        """How many points the time limit cut off."""
        plan = self.plan
        return len(plan.distributions) * len(plan.depths) * len(self.subjects) - len(self.points)

    @property
    def compared(self) -> tuple[Ratio, ...]:
        """Each kernel beside each baseline."""
        pairs = [(s.name, b.name) for s in self.subjects for b in self.subjects if b.is_baseline and not s.is_baseline]
        return tuple(ratio for subject, baseline in pairs for ratio in ratios(self.points, subject, baseline))


def print_study(study: Study) -> None:
    heads = [("data", "bar"), ("K", "right"), ("kernel", "bar"), ("in", "bar"), ("‖E‖/‖C‖", "right"),
             ("largest", "right"), ("in u", "right"), ("mean\nin u", "right"), ("relative", "right"),
             ("", "left")]  # fmt: skip
    rows = _rows(study.points)
    if columns() < _ALL_COLUMNS:
        at = [head for head, _ in heads].index("largest")
        heads, rows = heads[:at] + heads[at + 1 :], [row[:at] + row[at + 1 :] for row in rows]
    print_table(heads, rows, study.title)
    say()
    for subject, baseline in dict.fromkeys((r.subject, r.baseline) for r in study.compared):
        found = [r for r in study.compared if (r.subject, r.baseline) == (subject, baseline)]
        words = "; ".join(f"{_MEANT[r.measure]} ×{_short(r.value)} ({r.distribution}, K = {r.k})" for r in found)
        item(f"{subject} beside {baseline}, at worst: {words}")
    for note in study.notes:
        item(f"note: {note}")
    units = dict.fromkeys((p.arithmetic, p.unit) for p in study.points)
    say(_explained(study, list(units)), "dim")


_MEANT = {"largest": "largest error", "frobenius": "‖E‖/‖C‖"}


def _rows(points: Sequence[Point]) -> list[list[str]]:
    """Each distribution and K is named once."""
    rows: list[list[str]] = []
    before: tuple[str, int] = ("", 0)
    for point in points:
        here = (point.distribution, point.k)
        e = point.errors
        rows.append([
            point.distribution if here[0] != before[0] else "", str(point.k) if here != before else "",
            escape(point.subject), point.arithmetic, _short(e.frobenius), _short(e.largest * point.unit),
            _short(e.largest), _short(e.mean), _short(e.relative), "[red]beyond gate[/red]" if point.wrong else "",
        ])  # fmt: skip
        before = here
    return rows


def _short(value: float) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "inf"
    return f"{value:.2e}" if value and not 0.01 <= value < 10_000 else f"{value:.3g}"


def _explained(study: Study, units: Sequence[tuple[str, float]]) -> str:
    u = ", ".join(f"{name}: 2^{math.log2(unit):.0f}" for name, unit in units)
    seeds = "Over seeds: the maximum of largest and relative, the mean of the others. " if study.plan.seeds > 1 else ""
    return (
        f"E: the {study.origin} result minus the product in float64. largest, mean: of the components of |E|/(|A||B|), "
        f"plain and in units u of the arithmetic's roundoff ({u}). relative: the largest |E|/|C| of components that "
        f"are not tiny. {seeds}docs/accuracy.md says more."
    )


def _plain(value: float) -> float | str | None:
    """A number for JSON: null for NaN, 'inf' for infinity."""
    return None if math.isnan(value) else "inf" if math.isinf(value) else value


def point_facts(point: Point) -> dict[str, Any]:
    errors = {name: _plain(value) for name, value in asdict(point.errors).items()}
    return {"distribution": point.distribution, "k": point.k, "kernel": point.subject, "arithmetic": point.arithmetic,
            "unit": point.unit, **errors, "gate": point.gate, "beyond_gate": point.wrong,
            "seeds": point.seeds}  # fmt: skip


def study_json(study: Study) -> dict[str, Any]:
    plan = study.plan
    return {
        "what": "errors of matrix products", "origin": study.origin, "device": study.device,
        "gemmsmith": study.version, "date": study.date, "command": study.command, "dtype": plan.dtype.name,
        "m": plan.m, "n": plan.n, "k": list(plan.depths), "seeds": plan.seeds, "measures": dict(MEASURES),
        "distributions": {name: fill_named(name).meaning for name in plan.distributions},
        "kernels": [{"name": s.name, "arithmetic": s.arithmetic, "baseline": s.is_baseline} for s in study.subjects],
        "points": [point_facts(point) for point in study.points],
        "ratios": [asdict(ratio) | {"value": _plain(ratio.value)} for ratio in study.compared],
        "missing": study.missing, "notes": list(study.notes),
    }  # fmt: skip


def study_csv(study: Study) -> str:
    """One row per point."""
    rows = [{"origin": study.origin, "device": study.device, "m": study.plan.m, "n": study.plan.n,
             "dtype": study.plan.dtype.name} | point_facts(point) for point in study.points]  # fmt: skip
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
