"""Every claim of the worklogs is run again: the commands show what the page says, and do not if the fault is mended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.cli.worklog_evidence import run_evidence
from gemmsmith.learn.worklogs.claim import KERNELS, Claim, claim_named, claims

NAMES = [claim.name for claim in claims()]


@pytest.mark.parametrize("name", [claim.name for claim in claims() if claim.commands])
def test_the_commands_show_it(name: str) -> None:
    claim = claim_named(name)
    assert [f"{one.command.run}: {one.missing}" for one in run_evidence(claim) if not one.ok] == []


# Each kernel without its fault, and what then no longer holds: the evidence comes from the fault and nothing else.
MENDED = {
    "constants": ("transposed_read.cu", "As[k][y]", "As[y][k]"),
    "refill": ("refilled_buffer.cu", "#define FIXED 0", "#define FIXED 1"),
    "never-stored": ("never_stores.cu", "        __syncthreads();\n    }\n}",
                     "        __syncthreads();\n    }\n    if (row < M && col < N) C[row * N + col] = sum;\n}"),
    "guard-in-k": ("no_guard_in_k.cu", "row < M ? A[row * K + tile + x]",
                   "row < M && tile + x < K ? A[row * K + tile + x]"),
    "beta-zero": ("reads_c.cu", "alpha * sum + beta * C[row * N + col]",
                  "beta == 0.0f ? alpha * sum : alpha * sum + beta * C[row * N + col]"),
    "conflicts": ("stride_of_eight.cu", "#define COLUMNS_OF_FOUR 0", "#define COLUMNS_OF_FOUR 1"),
    "occupancy": ("eight_kilobytes.cu", "__shared__ float As[T][T], Bs[T][T];",
                  "__shared__ float As[T][T + 8], Bs[T][T];"),
}  # fmt: skip


@pytest.mark.parametrize("name", MENDED)
def test_a_mended_kernel_does_not_show_it(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, old, new = MENDED[name]
    for each in claim_named(name).files:
        text = KERNELS.joinpath(each).read_text(encoding="utf-8")
        if each == file:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / each).write_text(text, encoding="utf-8")
    monkeypatch.setattr("gemmsmith.cli.worklog_evidence.KERNELS", tmp_path)
    assert any(not one.ok for one in run_evidence(_first_failing(claim_named(name))))


def _first_failing(claim: Claim) -> Claim:
    """The claim without commands on other variants of its kernel (-D), which are right with and without the fault."""
    return replace(claim, commands=tuple(one for one in claim.commands if "-D" not in one.run))
