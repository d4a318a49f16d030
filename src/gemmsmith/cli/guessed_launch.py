"""Failures under a launch that was guessed, and that may be the guess's own fault: refusals, not verdicts."""

from __future__ import annotations

import re

from gemmsmith.cli.check_refusals import first_failure
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.verify.trials.trial import HEADS
from gemmsmith.verify.verdict import is_hazard

_HINT = (
    "if the kernel is right, give its launch: --grid 'ceil(N/64),ceil(M/64)' --block 256 (and --smem, if it needs any)"
)
_BY_BATCH = "--grid 'ceil(N/16),ceil(M/16),batch' --block 16,16, where batch is the number of products"
_SHARES_A_SUM = re.compile(r"\bgridDim\s*\.\s*z\b|\batomicAdd\w*\s*\(|\bred\.(?:global|relaxed|add)|fetch_add")

# What tells a kernel how many threads its block has, and how many blocks there are: it is then made for any number.
_ASKS_FOR_THREADS = re.compile(r"\b(?:blockDim|meta_group_size|num_threads|group_dim)\b|\.size\(\)|%ntid")
_ASKS_FOR_BLOCKS = re.compile(r"\b(?:gridDim|num_blocks)\b|%nctaid")


def refuse_guessed_grid(report: Report) -> None:
    """Raise where host code's launch is not understood, and the guess in its place leaves outputs as they are."""
    place, failed = getattr(report.spec.geometry, "misread", ""), first_failure(report)
    if not place or failed is None or is_hazard(failed) or failed.faulted:
        return
    if 0 < failed.unwritten >= failed.wrong:
        raise UsageError(
            f"{report.entry}: the launch at {place} is not understood, and a guessed one leaves "
            f"{failed.unwritten} of the {failed.total} outputs of {report.own(failed.problem)} unwritten",
            _HINT,
        )


def refuse_mere_guess(report: Report) -> None:
    """Raise where nothing tells the launch, and a failure may be the guess's own: outputs that are left unwritten by a
    kernel that does not ask for the number of blocks; races and faults of one that does not ask for its threads."""
    failed, geometry = first_failure(report), report.spec.geometry
    if failed is None or not getattr(geometry, "is_mere_guess", False):
        return
    races = any(" race on " in reason for reason in failed.reasons)
    text: str = geometry.facts.reached  # type: ignore[attr-defined]
    left_out = 0 < failed.unwritten >= failed.wrong and not _ASKS_FOR_BLOCKS.search(text)
    if left_out or ((races or failed.faults or failed.faulted) and not _ASKS_FOR_THREADS.search(text)):
        raise UsageError(
            f"{report.entry}: no host code launches it, and under a guessed launch it fails for "
            f"{report.own(failed.problem)}: the guess may be at fault",
            _HINT,
        )


def refuse_unseen_blocks(report: Report, config: Config) -> None:
    """Raise where a kernel passed in one layer of blocks, though it asks for ``blockIdx.z`` and how many layers its
    launch has is not understood: others may compute other products, or parts of this one."""
    geometry = report.spec.geometry
    if report.spec.is_rung or report.spec.batched or any(trial.label == HEADS for trial, _ in report.verdicts):
        return
    sources = getattr(geometry, "sources", None)
    guessed = report.settled.launch_found or (sources is not None and sources(report.base)[1] == "guessed")
    unseen = guessed or getattr(geometry, "counts_products", False)
    if unseen and "blockIdx.z" in geometry.facts.reached and geometry(report.base, config).grid[2] == 1:  # type: ignore[attr-defined]
        raise UsageError(
            f"{report.entry} uses blockIdx.z, and how many blocks its launch has along z is not understood: only "
            "blockIdx.z = 0 was judged, and passed",
            f"give its launch: {_BY_BATCH}; or run it with gemmsmith.launch and arguments of your own",
        )


def refuse_given_layers(report: Report, config: Config) -> None:
    """Raise where the user gives a number of blocks along z, and the kernel fails, which may make a product for each:
    their number is then that of a batch."""
    geometry = report.spec.geometry
    options = getattr(geometry, "options", None)
    if first_failure(report) is None or options is None or not options.grid or report.spec.batched:
        return
    code: str = geometry.facts.reached  # type: ignore[attr-defined]
    layers = geometry(report.base, config).grid[2]
    if layers > 1 and "blockIdx.z" in code and not _SHARES_A_SUM.search(code):
        raise UsageError(
            f"{report.entry} fails with {layers} blocks along z, as --grid says: it may make one product for each",
            f"if they are a batch, write {_BY_BATCH}",
        )
