"""Findings of a check in other tools' formats: JUnit, SARIF, GitHub's workflow commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gemmsmith.cli.render.findings import Checked, Place, checked
from gemmsmith.cli.render.format_names import Format
from gemmsmith.cli.render.formats import formatted

RACE = (
    "write-after-read race on shared address 0x4 of block (0,0,0): read at tile.cu:10 by thread (0,0,0), then write "
    "at tile.cu:7 by thread (1,0,0); a __syncthreads() must come between them"
)


def trial(*reasons: str) -> dict[str, Any]:
    return {"ok": not reasons, "mistrusted": False, "reasons": list(reasons), "damage": []}


def report(*reasons: str, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"ok": not reasons, "trials": [trial(), trial(*reasons)], "warnings": list(warnings), "note": ""}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tile.cu").write_text("__global__ void f() {}\n", encoding="utf-8")
    return tmp_path / "tile.cu"


@pytest.fixture
def kernels(file: Path) -> list[Checked]:
    refused = {"error": {"kind": "CompileError", "message": "f: 50% of 'q' is unknown", "hint": "use, -I"}}
    reduction = {"error": {"kind": "SignatureError", "message": "f is not a matrix product", "hint": "use --args"}}
    return [
        checked(file, "right", report(), seconds=1.5, line=3),
        checked(file, "racy", report(RACE), seconds=2, line=5),
        checked(file, "strange", refused),
        checked(file, "loose", report(warnings=("C is read when beta = 0: tile.cu:9",))),
        checked(file, "reduction", reduction),
    ]


def test_a_race_is_at_the_line_of_its_first_access(kernels: list[Checked], file: Path) -> None:
    (found,) = kernels[1].findings
    assert (found.rule, found.level, found.place) == ("race", "error", Place(file.as_posix(), 10))
    assert found.related == (Place(file.as_posix(), 7),)


def test_a_header_is_found_beside_the_file_or_above_it(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "common.cuh").write_text("\n", encoding="utf-8")
    found = checked(tmp_path / "kernels" / "a.cu", "k", report("out-of-bounds load at common.cuh:3, not gone.cuh:4"))
    assert found.findings[0].place == Place((tmp_path / "common.cuh").as_posix(), 3)
    assert found.findings[0].related == ()
    assert found.findings[0].rule == "out-of-bounds"


def test_a_sentence_without_a_place_belongs_to_the_reason_before_it(file: Path) -> None:
    found = checked(file, "racy", report(RACE, "the result is right in the order of this run"))
    assert [finding.message for finding in found.findings] == [f"{RACE}. the result is right in the order of this run"]


def test_a_refusal_is_no_verdict(kernels: list[Checked]) -> None:
    assert (kernels[2].status, kernels[2].ok, kernels[2].findings[0].rule) == ("not_runnable", False, "not-runnable")


def test_junit(kernels: list[Checked]) -> None:
    suite = ElementTree.fromstring(formatted(kernels, Format.JUNIT).encode())[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "1"]
    right, racy, strange, loose, reduction = suite
    assert reduction.find("skipped") is not None
    assert [len(right), right.get("line"), right.get("time")] == [0, "3", "1.50"]
    assert racy.find("failure").get("type") == "race"
    assert "tile.cu:10: " in racy.find("failure").text
    assert strange.find("error").get("message").startswith("f: 50%")
    assert loose.find("failure") is None
    assert "C is read" in loose.find("system-out").text


def test_junit_has_no_control_characters(file: Path) -> None:
    text = formatted([checked(file, "k", report("bad \x07 < & byte"))], Format.JUNIT)
    assert ElementTree.fromstring(text.encode()).find(".//failure").get("message") == "bad  < & byte"


def test_sarif(kernels: list[Checked], file: Path) -> None:
    document = json.loads(formatted(kernels, Format.SARIF))
    run = document["runs"][0]
    assert document["version"] == "2.1.0"
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {"race", "not-runnable", "restricted"}
    race = run["results"][0]
    assert (race["ruleId"], race["level"]) == ("race", "error")
    assert race["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": file.as_posix()}, "region": {"startLine": 10}
    }  # fmt: skip
    assert race["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 7
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning"]


def test_a_message_of_several_lines_is_one_annotation(file: Path) -> None:
    text = formatted([checked(file, "k", report("first\nsecond"))], Format.GITHUB)
    assert text.splitlines()[0].endswith("::first%0Asecond")
    assert len(text.splitlines()) == 1


def test_github(kernels: list[Checked], file: Path) -> None:
    lines = formatted(kernels, Format.GITHUB).splitlines()
    assert lines[0] == f"::error file={file.as_posix()},line=10,title=racy%3A race::{RACE}"
    assert lines[1].endswith("::f: 50%25 of 'q' is unknown. use, -I")
    assert lines[2].startswith("::warning ")
    assert len(lines) == 3
