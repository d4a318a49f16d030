"""Wrong use: exit code 2, a message and a hint, nothing on stdout."""

from __future__ import annotations

import re
import shlex

import pytest
from command_output import Say

from gemmsmith.cli.error_output import report_error
from gemmsmith.errors import UsageError


@pytest.mark.parametrize(("command", "message"), [
    ("run nonsuch", "no rung called 'nonsuch'"), ("run warp_tle", "did you mean warp_tile?"),
    ("run ./none.cu", "there is no file none.cu"), ("verify nonsuch", "no rung called"),
    ("run naive --m -3", "M=-3 is negative"), ("run naive --m 3000000000", "exceeds 2147483647"),
    ("run naive --lda 1", "lda=1 is smaller"), ("run naive --dtype fp64", "unknown data type 'fp64'"),
    ("run naive --dtype fp16", "naive takes fp32 inputs"), ("run warp_tile --trans-a", "use naive or coalesced"),
    ("run naive --config TILE=7", "TILE=7 is not one of 8, 16, 32"),
    ("run naive --config TILE", "--config TILE gives TILE no value"),
    ("run naive --config TILE=x", "TILE must be an integer, not 'x'"), ("run naive -D 8", "'8' is not NAME=VALUE"),
    ("run naive -DBM=8", "naive has no parameter BM"), ("run naive --preset big", "its presets: 32x32"),
    ("run naive --offsets 1,2", "is not three integers"), ("run naive --offsets 1,2,-3", "offsets must be"),
    ("run naive --mode fast", "unknown mode 'fast'"), ("run naive --fill zeros", "unknown fill 'zeros'"),
    ("run naive --mode exact --fill normal", "needs the fill 'integers'"), ("run naive --seed -1", "seed"),
    ("run naive --schedule fast", "unknown schedule 'fast'"), ("run naive --device tpu", "use auto, sim or gpu"),
    ("run naive --grid 1", "is a rung"), ("show naive --ptx --sass", "choose one of"),
    ("show naive --arch sm_12", "sm_12"), ("show naive --arch x", "x"),
    ("sweep padded --vary PAD=0,1 --device sim --db .", ". is a folder"),
    ("climb --size -1", "--size -1 is not positive"), ("check naive --m -1", "M=-1 is negative"),
])  # fmt: skip
def test_wrong_use_exits_2(say: Say, command: str, message: str) -> None:
    said = say(*shlex.split(command))
    assert said.code == 2, said.out + said.err
    assert message in said.err
    assert said.err.startswith("error: ")
    assert len(re.findall(r"^error: .*\n(?:  .+\n){0,3}", said.err)) == 1, "a line, and a short hint"
    assert max(map(len, said.err.splitlines())) <= 100
    assert said.out == ""


@pytest.mark.parametrize("command", ["nonsense", "run", "show", "check", "run naive --m x", "run naive --nonsense",
                                     "list extra", "climb --size"])  # fmt: skip
def test_what_the_parser_refuses_exits_2(say: Say, command: str) -> None:
    said = say(*shlex.split(command))
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert " -h lists the " in said.err
    assert "pytest" not in said.err
    assert len(said.err.splitlines()) <= 3
    assert said.out == ""


@pytest.mark.parametrize("command", [
    "bench nosuch", "compare wmma nosuch", "sweep padded --vary PAD=0,1 --device sim --show nosuch",
    "sweep --experiment nosuch",
])  # fmt: skip
def test_messages_are_at_most_100_columns_wide(say: Say, command: str) -> None:
    said = say(*command.split())
    assert (said.code, said.out) == (2, "")
    first, *hint = said.err.splitlines()
    assert first.endswith("'nosuch'")
    assert len(hint) > 1
    assert all(line.startswith("  ") and len(line) <= 100 for line in hint)


def test_a_message_keeps_its_lines_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/" + "folder-of-a-long-name/" * 6
    report_error(
        UsageError(f"{'word ' * 18}{path} ends", f"first line\n    second  line\n{'x' * 120} {'y' * 10}"), False
    )
    assert capsys.readouterr().err.splitlines() == [
        "error: " + "word " * 17 + "word", f"  {path}", "  ends", "  first line", "      second  line",
        "  " + "x" * 120, "  " + "y" * 10,
    ]  # fmt: skip
