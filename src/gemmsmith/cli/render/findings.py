"""What a check found, as records: one for each kernel, with the faults and their source lines.

Made from the JSON object that ``gemmsmith check --json`` prints for one kernel, so that a kernel checked in another
process and one checked here are reported alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsmith.verify.trials.trial import LARGE

NOT_RUNNABLE = "not_runnable"
NOT_A_PRODUCT = "not_a_product"
NOTE = "note"
_PLACE = re.compile(r"(?<![\w./-])((?:[\w.+-]+/)*[\w.+-]+\.\w{1,4}):(\d+)\b")
# The first rule whose words are in a reason gives it its name.
_RULES = (
    ("race", "race"), ("out-of-bounds", "out-of-bounds"), ("misaligned", "misaligned"),
    ("divergent barrier", "divergent-barrier"), ("never completes", "hang"), ("did not end", "hang"),
    ("uninitialised", "uninitialised-read"), ("never written", "unwritten-output"),
)  # fmt: skip
RULES = {
    "race": "Two accesses that nothing orders", "out-of-bounds": "An access outside its allocation",
    "misaligned": "An access at an address its width does not allow",
    "divergent-barrier": "Threads of a block wait at different barriers", "hang": "A launch that never ends",
    "uninitialised-read": "Memory is read before it is written", "unwritten-output": "Outputs that are never written",
    "wrong-result": "The result is not the product", "restricted": "Right for some shapes only",
    "not-runnable": "The kernel could not be checked", "warp": "A warp-wide instruction without all of its lanes",
    "assertion": "An assert of the kernel failed",
    "forbidden-read": "C, or A and B, is read where it may hold anything", NOTE: "Legal, but worth knowing",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A line of a source file, or part of it; line 0 is the file as a whole. ``text`` says what happens there."""

    file: str
    line: int = 0
    column: int = 0
    length: int = 0
    text: str = ""


@dataclass(frozen=True)
class Finding:
    """A fault of a kernel. ``level`` is "error", "warning" or "note"; ``related`` are further lines it names, ``fixes``
    changes that cured it in a copy, as in check's JSON."""

    rule: str
    level: str
    message: str
    place: Place
    related: tuple[Place, ...] = ()
    fixes: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Checked:
    """One kernel of a file, checked. ``status`` is check's own word, "not_runnable", or "not_a_product"."""

    file: str
    entry: str
    status: str
    ok: bool
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    line: int = 0
    summary: str = ""
    kind: str = ""  # of the error, where it was not runnable

    @property
    def failed(self) -> bool:
        """Whether it was checked and is wrong or racy."""
        return self.status not in (NOT_RUNNABLE, NOT_A_PRODUCT) and not self.ok

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


def checked(file: Path, entry: str, report: Mapping[str, Any], *, line: int = 0, seconds: float = 0.0) -> Checked:
    """The record of one kernel, from the JSON object of its check."""
    if "error" in report:
        return _refused(file, entry, report["error"], line, seconds)
    # Where indices overflow in large matrices only, a warning says so; addresses and registers would add nothing.
    trials = [t for t in report["trials"] if not (report["ok"] and t.get("label", "").startswith(LARGE))]
    found = [finding for trial in trials for finding in _trial_findings(trial, report, file, line)]
    found = _with_fixes(found, report)
    if report["ok"]:  # what limits a kernel that is right is no error
        found = [replace(finding, level="warning") for finding in found]
    notes = [Finding("restricted", "warning", text, Place(file.as_posix(), line)) for text in report["warnings"]]
    notes += [replace(_finding(text, file, line), rule=NOTE, level="note") for text in report.get("notes", ())]
    status = report.get("status") or ("right" if report["ok"] else "wrong")
    told = report["warnings"] if report["ok"] else [finding.message for finding in found]
    limits = [text for text in told if report["ok"] and " is right for " in text]
    summary = (*limits, *told, report.get("note", ""))[0]
    return Checked(file.as_posix(), entry, status, report["ok"], (*found, *notes), seconds, line, summary)


def _refused(file: Path, entry: str, error: Mapping[str, Any], line: int, seconds: float) -> Checked:
    """A kernel without a verdict. One whose parameters are not those of a product is no fault."""
    other = error["kind"] == "SignatureError"
    message = ". ".join(filter(None, (error["message"], error.get("hint", ""))))
    places = _places(error["message"] + " " + error.get("log", ""), file) or [Place(file.as_posix(), line)]
    finding = Finding("not-runnable", "note" if other else "error", message, places[0])
    status = NOT_A_PRODUCT if other else NOT_RUNNABLE
    return Checked(file.as_posix(), entry, status, False, (finding,), seconds, line, error["message"], error["kind"])


def _with_fixes(found: list[Finding], report: Mapping[str, Any]) -> list[Finding]:
    """The first finding with the cause that was confirmed, if there is one."""
    causes = tuple(report.get("causes", ()))
    if not found or not causes:
        return found
    said = " ".join(f"Cause: {cause['cause']}. Cure: {cause['change']} (tried in a copy: {cause['tried']})."
                    for cause in causes)  # fmt: skip
    return [replace(found[0], message=f"{found[0].message}. {said}", fixes=causes), *found[1:]]


def _trial_findings(trial: Mapping[str, Any], report: Mapping[str, Any], file: Path, line: int) -> list[Finding]:
    """The findings of a trial: faults that come with their places, or else what the reasons name."""
    reasons = _reasons(trial, report)
    if not reasons or not trial.get("faults"):
        return _faults(reasons, file, line)
    rest = " ".join(trial["reasons"][trial["told"] :])
    found = []
    for fault in trial["faults"]:
        marks = [Place(_relative(m["file"]), m["line"], m["column"], m["length"], m["text"]) for m in fault["marks"]]
        places = marks or [Place(file.as_posix(), line)]
        lines = [fault["title"], *(f"{place.text} ({place.file}:{place.line})" for place in marks), *fault["notes"]]
        message = "\n".join(filter(None, (*lines, rest)))
        found.append(Finding(fault["rule"], "error", message, places[0], tuple(places[1:])))
    return found


def _relative(path: str) -> str:
    """A path below the current folder as CI systems have it."""
    absolute = Path(path)
    here = Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else absolute.as_posix()


def _faults(reasons: list[str], file: Path, line: int) -> list[Finding]:
    """A finding for each reason that names a place; what follows without one belongs to the reason before it."""
    found: list[Finding] = []
    for reason in reasons:
        if found and not _places(reason, file):
            found[-1] = replace(found[-1], message=f"{found[-1].message}. {reason}")
        else:
            found.append(_finding(reason, file, line))
    return found


def _reasons(trial: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    """What is wrong in a trial that counts."""
    if trial["ok"] and not trial["mistrusted"]:
        return []
    said = [*trial["reasons"], *(damage["text"] for damage in trial["damage"])]
    read_c = any(reason in warning for warning in report["warnings"] for reason in said)
    return [] if read_c else said


def _finding(reason: str, file: Path, line: int) -> Finding:
    rule = next((name for words, name in _RULES if words in reason), "wrong-result")
    places = _places(reason, file) or [Place(file.as_posix(), line)]
    return Finding(rule, "error", reason, places[0], tuple(places[1:]))


def _places(text: str, file: Path) -> list[Place]:
    """Each ``name.cu:12`` in a text as a path that exists: the checked file, or one relative to its folders."""
    found = []
    for name, number in _PLACE.findall(text):
        path = file if name == file.name else next(
            (folder / name for folder in file.parents if (folder / name).is_file()), None)  # fmt: skip
        if path is not None and (place := Place(path.as_posix(), int(number))) not in found:
            found.append(place)
    return found
