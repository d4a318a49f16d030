"""Prose is wrapped once, to the terminal or COLUMNS; a stdout that is not UTF-8 gets ASCII."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gemmsmith.cli.commands.show import Paragraph, header_of, header_paragraphs
from gemmsmith.cli.main import run_command
from gemmsmith.cli.render import output
from gemmsmith.cli.render.ascii import to_ascii
from gemmsmith.cli.render.output import columns, print_table, say, wrap
from gemmsmith.ladder.registry import rungs


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    settings = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-m", "gemmsmith", *words], capture_output=True, env=settings, check=False)


# --- width


def test_a_line_that_fits_stays_and_a_longer_one_is_wrapped_once() -> None:
    text = "one  two\n  " + "word " * 8
    assert wrap(text, 20) == "one  two\n  word word word\n  word word word\n  word word"
    assert wrap("- " + "word " * 5, 14, hang="  ") == "- word word\n  word word\n  word"
    assert wrap("a " + "x" * 40 + " b", 20) == "a\n" + "x" * 40 + "\nb", "a word is never broken"
    assert wrap("--max-points 64 of-them", 15) == "--max-points 64\nof-them", "nor at a hyphen"
    assert wrap("", 20) == ""
    assert wrap("  repeat: gemmsmith run naive --m 3", 20) == "  repeat: gemmsmith run naive --m 3", "nor a command"


@pytest.mark.parametrize(("given", "expected"), [("80", 80), ("60", 60), ("120", 120), ("5", 20), ("0", 100), ("", 100),
                                                 ("many", 100), ("-3", 100), ("9" * 99, 999999)])  # fmt: skip
def test_columns_in_a_pipe(given: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", given)
    assert columns() == expected


@pytest.mark.parametrize(("terminal", "expected"), [(80, 80), (60, 60), (200, 100), (0, 100), (7, 20)])
def test_columns_on_a_terminal(terminal: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    master, slave = pty.openpty()
    try:
        with open(slave, "w", closefd=False) as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            monkeypatch.setattr(output.os, "get_terminal_size", lambda _: os.terminal_size((terminal, 24)))
            assert columns() == expected
            monkeypatch.undo()
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_commands_keep_to_the_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    commands = ["list", "doctor", "explain naive --m 256 --n 256 --k 64", "run naive --m 9 --n 9 --k 9 --device sim",
                "sweep --list"]  # fmt: skip
    if width >= 80:  # its ten columns of numbers need 73
        commands.append("occupancy naive --gpu H200")
    for command in commands:
        assert run_command(command.split()) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(len(line.rstrip()) for line in lines) <= width, command


def test_prose_is_wrapped_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A paragraph wrapped twice has short lines in its middle: every line but the last must be full."""
    for width in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        say("word " * 60)
        *lines, _ = capsys.readouterr().out.splitlines()
        assert {len(line) for line in lines} == {(width + 1) // 5 * 5 - 1}


def test_a_number_in_a_table_is_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    heads = (("name", "left"), ("text", "left"), *((f"n{i}", "right") for i in range(4)))
    print_table(heads, [("a", "several words of text", *["123,456,789"] * 4)], "A title")
    text = capsys.readouterr().out
    assert text.count("123,456,789") == 4
    assert text.startswith("A title\n")


@pytest.mark.parametrize("spec", rungs(), ids=lambda spec: spec.name)
def test_a_header_is_paragraphs_and_pictures(spec: object) -> None:
    header = header_of(spec.code)  # type: ignore[attr-defined]
    found = list(header_paragraphs(header))
    assert [paragraph.text.split() for paragraph in found if paragraph.picture] != []
    assert " ".join(" ".join(p.text for p in found).split()) == " ".join(header.split()), "no word is lost"
    labels = {p.text.split("  ")[0] for p in found if p.hang}
    assert {"Idea", "Changed", "Owns", "Budget", "Needs", "Try next"} <= labels


def test_a_picture_keeps_its_lines() -> None:
    header = (
        "01 x: y.\n\nIdea      One\n          two.\nOwns      This:\n\n  +--+   +--+\n  |  |   |  |\n\n          More."
    )
    assert list(header_paragraphs(header)) == [
        Paragraph("01 x: y.", picture=True), Paragraph("", picture=True), Paragraph("Idea      One two.", " " * 10),
        Paragraph("Owns      This:", " " * 10), Paragraph("", picture=True), Paragraph("  +--+   +--+", picture=True),
        Paragraph("  |  |   |  |", picture=True), Paragraph("", picture=True), Paragraph("          More."),
    ]  # fmt: skip


# --- encoding


@pytest.mark.parametrize(("text", "expected"), [
    ("4096³ in 3 µs", "4096^3 in 3 us"), ("2⁻²⁴", "2^-24"), ("A·B × 2 ± 1", "A*B x 2 +/- 1"), ("╭─╮│█", "+-+|#"),
    ("worst ρ ≤ 16 …", "worst rho <= 16 ..."), ("‖E‖", "||E||"), ("naïve", "naive"), ("→ ✓ ✗ ◀", "-> + x <"),
    ("plain", "plain"), ("\udcff.cu", "\\xff.cu"), ("漢", "?"), ("⟨8×8, 256⟩", "<8x8, 256>"),
])  # fmt: skip
def test_ascii(text: str, expected: str) -> None:
    assert to_ascii(text) == expected


def test_every_character_of_ours_has_an_ascii_form() -> None:
    """In Python sources and in the specifications and kernels that commands print."""
    root = Path(output.__file__).parents[2]
    files = [*root.rglob("*.py"), *root.rglob("*.cu"), *root.rglob("*.cuh"), *root.rglob("*.toml")]
    used = {char for file in files for char in file.read_text(encoding="utf-8") if not char.isascii()}
    assert {char for char in used if "?" in to_ascii(char)} <= set("★◇◆▲▣■⇔÷⊕漢")


@pytest.mark.parametrize(("encoding", "command"), [
    ("latin-1", "list"), ("cp437", "list"), ("ascii", "list"), ("ascii", "show naive"), ("ascii", "run --help"),
    ("ascii", "occupancy naive --gpu H200 --curve registers"),
    ("ascii", "accuracy naive --m 8 --k 4 --distributions normal --device sim"),
])  # fmt: skip
def test_a_stdout_that_is_not_utf_8_gets_ascii(encoding: str, command: str) -> None:
    done = run(*command.split(), PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stdout.isascii()
    assert done.stderr == b""


def test_an_error_on_a_stderr_that_is_not_utf_8() -> None:
    done = run("run", b"\xff\xe2\x80\xa6.cu".decode("utf-8", "surrogateescape"), PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: there is no file \\xff")


def test_a_file_name_that_is_not_utf_8_is_told() -> None:
    done = run("run", b"\xff.cu".decode("utf-8", "surrogateescape"))
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, b"error: there is no file \\xff.cu")


def test_a_reader_that_stops_reading_is_no_error() -> None:
    program = f"'{sys.executable}' -m gemmsmith list --json | head -c 10"
    done = subprocess.run(["bash", "-c", program], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b'{\n  "rungs', b"")


@pytest.mark.parametrize("command", ["list", "list --json", "show naive", "history --json", "run nothing"])
@pytest.mark.parametrize("stream", ["1>&-", "2>&-", ">/dev/full"])
def test_a_stream_that_is_closed_or_full(command: str, stream: str) -> None:
    done = subprocess.run(["bash", "-c", f"'{sys.executable}' -m gemmsmith {command} {stream}"], capture_output=True,
                          check=False)  # fmt: skip
    assert done.returncode in (0, 1, 2)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
