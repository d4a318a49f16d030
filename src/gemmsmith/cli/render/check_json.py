"""The result of gemmsmith check as JSON."""

from __future__ import annotations

from typing import Any

from gemmsmith.cli.render.certificate_text import certificate_json
from gemmsmith.cli.render.check_note import failure_note
from gemmsmith.cli.render.check_report import Report
from gemmsmith.verify.verdict import Verdict


def report_json(report: Report) -> dict[str, Any]:
    """Everything that a report says."""
    used = report.compiled.resources
    return {
        "kernel": report.spec.name, "entry": report.entry, "symbol": report.compiled.entry, "ok": report.ok,
        "status": report.status, "arch": report.compiled.arch, "found": list(report.settled.lines),
        "registers": used.registers, "static_smem": used.static_smem, "launch": report.launch,
        "trials": [{"label": t.label, "schedule": t.schedule, "c": t.c, **_own_json(report, v)}
                   for t, v in report.verdicts],
        "causes": [cause.to_json() for cause in report.causes], "not_reached": list(report.unreached),
        "remedies": [remedy.to_json() for remedy in report.remedies],
        "hints": report.hints, "note": failure_note(report), "verdict": report.conclusion(),
        "next": report.next_command(), "warnings": _warnings(report), "notes": report.launch_notes,
        "skipped": [{"label": label, "reason": why} for label, why in report.skipped],
        "not_run": report.left, "seconds": round(report.seconds, 2), "budget": report.budget, "more": report.more,
        "multiples": {"m": report.multiples.m, "n": report.multiples.n, "k": report.multiples.k}
        | ({"from_k": report.multiples.from_k} if report.multiples.from_k else {}),
        "certificate": _certificate_json(report),
    }  # fmt: skip


def _warnings(report: Report) -> list[str]:
    found = [f"C is read when beta = 0: {reason}" for v in report.advice for reason in v.reasons[:2]]
    found += [f"{report.entry}: {remark}" for remark in report.remarks]
    return found + ([report.conclusion()] if report.restrictions() and report.ok else [])


def _own_json(report: Report, verdict: Verdict) -> dict[str, Any]:
    """A verdict with the user's own M and N."""
    found: dict[str, Any] = dict(verdict.to_json())
    if report.is_column_major:
        problem = dict(found["problem"])
        problem["m"], problem["n"], problem["lda"], problem["ldb"] = (
            problem["n"], problem["m"], problem["ldb"], problem["lda"])  # fmt: skip
        found["problem"] = problem | {"layout": report.layout_word()}
    return found


def _certificate_json(report: Report) -> dict[str, Any] | None:
    return None if report.certificate is None else certificate_json(report.certificate, report.spec, report.own)
