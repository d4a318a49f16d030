"""Whole files with one mistake each, written without looking at `check`, and files that are right and look suspicious.

outside/w_*.cu has a wrong product, h_*.cu a hazard, i_*.cu neither. Most were missed or accused when they were written.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "outside").glob("*.cu"))}
# Sums that pass through half at 256 terms, a tail of K by the wrong row of B, two parts of K in one slot: missed.
MISSED = {"w_half_overflow", "w_k_tail_int", "h_relay_slot"}
# Arrays that blocks share, scalars of fp64 beyond fp32, subnormals that tf32 rounds away.
FEW = ("h_ticket_no_fence", "w_beta_as_float", "i_wmma_tf32")


def checked(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run_command(["check", str(FILES[name]), "--json", "--cures", "0"])
    found = json.loads(capsys.readouterr().out)
    return code, str(found.get("status", found.get("error")))


@pytest.mark.parametrize("name", FEW)
def test_a_few_files(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, status = checked(name, capsys)
    assert code == (0 if name.startswith("i_") else 1), status


@pytest.mark.parametrize("name", [name for name in FILES if name not in FEW])
def test_every_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, status = checked(name, capsys)
    assert code == (0 if name.startswith("i_") or name in MISSED else 1), status
