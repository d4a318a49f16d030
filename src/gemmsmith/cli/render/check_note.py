"""What it means that a kernel fails only at shapes unlike its first ones."""

from __future__ import annotations

from gemmsmith.call.launch_plan import MAP_REFUSED
from gemmsmith.cli.render.check_report import Report
from gemmsmith.userfile.text.short_loops import short_loop
from gemmsmith.verify.trials.trial import DISTINCT, RAGGED

_GUARDS = {"m": "row < M", "n": "col < N", "k": "k < K"}


def failure_note(report: Report) -> str:
    """What it means that only another shape failed; empty where that is not the case."""
    if not report.failed:
        return ""
    trial, verdict = report.failed[-1]
    if trial.label not in (DISTINCT, RAGGED) or report.square or report.causes or report.status == "aligned_rows":
        return ""
    passed = [t for t, v in report.verdicts if v.trusted and not t.group]
    others = [report.shape_of(t.problem) for t in passed if t.label == DISTINCT]
    same = f"All {len(passed) - len(others)} trials of {report.own(report.base)} passed"
    if trial.label == DISTINCT:
        return (
            f"{same}, but not {report.shape_of(trial.problem)}, where M, N and K all differ: look for one of them "
            "used in place of another, as a stride or a loop bound, and for a grid whose x and y are swapped."
        )
    apart = others or len({report.base.m, report.base.n, report.base.k}) == 3
    too = f" ({others[0]}, too)" if others else ""
    right = f"multiples of the tile are right{too}" if apart else "square multiples of the tile are right"
    if any(MAP_REFUSED in reason for reason in report.failed[-1][1].reasons):
        return f"{same}: {right}. For other shapes the host code must encode other tensor maps."
    if verdict.wrong <= verdict.unwritten > 0 and not verdict.faulted:
        return (f"{same}: {right}. For every other shape the grid has too few blocks: round the number of tiles "
                "up, (N + tile - 1) / tile, and guard the edges.")  # fmt: skip
    if not verdict.faulted and (report.multiples.m, report.multiples.n) == (1, 1) and report.multiples.k > 1:
        loop = short_loop(report.spec.code, report.spec.signature.named("K"))
        return (f"{same}: {right}. For every other K {loop} ends before the last terms: add the last "
                f"K % {report.multiples.k} of them after it, or guard them with k < K inside it.")  # fmt: skip
    return f"{same}: {right}. Every other shape needs guards at the edges: {_guards(report)}."


def _guards(report: Report) -> str:
    """The guards that are missing, as far as the multiples tell."""
    missing = [text for name, text in _GUARDS.items() if getattr(report.own_multiples(), name) > 1]
    return ", ".join(missing or _GUARDS.values())
