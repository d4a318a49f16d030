"""Findings in the formats that other tools read: JUnit's XML, SARIF, and GitHub's workflow commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from gemmsmith import __version__
from gemmsmith.cli.render.findings import NOT_A_PRODUCT, NOT_RUNNABLE, NOTE, RULES, Checked, Finding, Place
from gemmsmith.cli.render.format_names import Format

_GITHUB = {"note": "notice"}


def formatted(kernels: Sequence[Checked], form: Format) -> str:
    """All kernels in one document (``junit``, ``sarif``) or one line for each finding (``github``)."""
    return {Format.JUNIT: _junit, Format.SARIF: _sarif, Format.GITHUB: _github}[form](kernels)


def _junit(kernels: Sequence[Checked]) -> str:
    errors = [kernel for kernel in kernels if kernel.status == NOT_RUNNABLE]
    others = [kernel for kernel in kernels if kernel.status == NOT_A_PRODUCT]
    numbers = {"tests": len(kernels), "failures": sum(kernel.failed for kernel in kernels), "errors": len(errors),
               "skipped": len(others)}  # fmt: skip
    counts = {name: str(number) for name, number in numbers.items()}
    counts["time"] = f"{sum(kernel.seconds for kernel in kernels):.2f}"
    root = ElementTree.Element("testsuites", {"name": "gemmsmith check"} | counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "gemmsmith check"} | counts)
    for kernel in kernels:
        facts = {"classname": kernel.file, "name": kernel.entry or kernel.file, "file": kernel.file,
                 "time": f"{kernel.seconds:.2f}"}  # fmt: skip
        case = ElementTree.SubElement(suite, "testcase", facts | ({"line": str(kernel.line)} if kernel.line else {}))
        if kernel.errors:
            tag = "error" if kernel in errors else "failure"
            fault = ElementTree.SubElement(case, tag, message=kernel.errors[0].message, type=kernel.errors[0].rule)
            fault.text = "\n".join(f"{_shown(finding.place)}: {finding.message}" for finding in kernel.errors)
        if kernel in others:
            ElementTree.SubElement(case, "skipped", message=kernel.findings[0].message)
            continue
        notes = [finding.message for finding in kernel.findings if finding.level != "error"]
        if notes:
            ElementTree.SubElement(case, "system-out").text = "\n".join(notes)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _printable(text) + "\n"


def _printable(text: str) -> str:
    """XML 1.0 allows no control characters but tab and newlines."""
    return "".join(char for char in text if char >= " " or char in "\t\n\r")


def _sarif(kernels: Sequence[Checked]) -> str:
    findings = [(kernel, finding) for kernel in kernels for finding in kernel.findings if _is_reported(finding)]
    used = sorted({finding.rule for _, finding in findings})
    run = {
        "tool": {
            "driver": {
                "name": "gemmsmith",
                "version": __version__,
                "rules": [{"id": rule, "shortDescription": {"text": RULES[rule]}} for rule in used],
            }
        },
        "results": [_sarif_result(kernel, finding) for kernel, finding in findings],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2) + "\n"


def _is_reported(finding: Finding) -> bool:
    """A kernel that is no product is none of a reviewer's business."""
    return finding.level != "note" or finding.rule == NOTE


def _sarif_result(kernel: Checked, finding: Finding) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": f"{kernel.entry}: {finding.message}" if kernel.entry else finding.message},
        "locations": [_location(finding.place)],
    }
    if finding.related:
        result["relatedLocations"] = [_location(place) | {"id": i} for i, place in enumerate(finding.related)]
    if finding.fixes:
        result["fixes"] = [_fix(cause) for cause in finding.fixes]
    return result


def _fix(cause: Mapping[str, Any]) -> dict[str, object]:
    """A change that an editor can apply, one entry for each file."""
    files: dict[str, list[dict[str, object]]] = {}
    for part in cause["replacements"]:
        region = {"startLine": part["start_line"], "startColumn": part["start_column"], "endLine": part["end_line"],
                  "endColumn": part["end_column"]}  # fmt: skip
        files.setdefault(part["file"], []).append({"deletedRegion": region, "insertedContent": {"text": part["text"]}})
    changes = [{"artifactLocation": {"uri": file}, "replacements": parts} for file, parts in files.items()]
    return {"description": {"text": f"{cause['cause']}: {cause['change']}"}, "artifactChanges": changes}


def _location(place: Place) -> dict[str, object]:
    region = {"startLine": place.line} if place.line else {}
    if place.column:
        region |= {"startColumn": place.column, "endColumn": place.column + place.length}
    physical = {"artifactLocation": {"uri": place.file}} | ({"region": region} if region else {})
    message = {"message": {"text": place.text}} if place.text else {}
    return {"physicalLocation": physical, **message}


def _github(kernels: Sequence[Checked]) -> str:
    """``::error file=…,line=…::message``, which GitHub shows at that line of a pull request."""
    lines = []
    for kernel in kernels:
        for finding in filter(_is_reported, kernel.findings):
            where = f"file={_property(finding.place.file)}"
            where += f",line={finding.place.line}" if finding.place.line else ""
            where += f",title={_property(f'{kernel.entry or kernel.file}: {finding.rule}')}"
            lines.append(f"::{_GITHUB.get(finding.level, finding.level)} {where}::{_data(finding.message)}")
    return "".join(line + "\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _shown(place: Place) -> str:
    return f"{place.file}:{place.line}" if place.line else place.file
