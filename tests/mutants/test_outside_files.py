"""Whole files with one mistake each, written without looking at `check`, and files that are right and look suspicious.

outside/w_*.cu has a wrong product, h_*.cu a hazard, i_*.cu neither. Most were missed or accused when they were written.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "outside").glob("*.cu"))}
# Arrays that blocks share, scalars of fp64 beyond fp32, subnormals that tf32 rounds away.
# Atomics of block scope between blocks, an array in a struct of arguments.
# A read after a flag without a fence, shared memory of another block, sums that pass through half.
FEW = ("h_ticket_no_fence", "w_beta_as_float", "i_wmma_tf32", "h_flag_relaxed_load", "h_cluster_local_barrier",
       "w_half_overflow", "h_sum_block_scope", "i_struct_workspace")  # fmt: skip


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
    assert code == (0 if name.startswith("i_") else 1), status
