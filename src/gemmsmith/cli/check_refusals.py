"""Failures that are no verdict on a kernel, by what its host code does with it: refusals, with the way out."""

from __future__ import annotations

from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.counted_products import unclear_extents
from gemmsmith.verify.harness import in_rounds
from gemmsmith.verify.host.launched_products import excluded, launched
from gemmsmith.verify.trials.trial import HEADS
from gemmsmith.verify.verdict import Verdict, is_hazard


def first_failure(report: Report) -> Verdict | None:
    """The first verdict that makes the kernel wrong."""
    return next((verdict for trial, verdict in report.failed if not report.only_warns(trial, verdict)), None)


def refuse_by_host_code(report: Report, config: Config) -> None:
    """Raise where what failed may be another part of host code, not the kernel."""
    _refuse_unfinished(report, config)
    _refuse_several_products(report)
    _refuse_other_parts(report)
    _refuse_one_size(report)
    _refuse_one_extent(report)
    _refuse_unread_condition(report)
    _refuse_unclear_number(report)


def _refuse_unclear_number(report: Report) -> None:
    """Raise for a kernel that never gave a product and accesses memory out of bounds, if a number that it got as an
    extent may be another: nothing but its type says that it is one, and it may count matrices."""
    failed, spec = first_failure(report), report.spec
    if failed is None or report.settled.reading is not None or spec.is_rung or spec.declared_signature:
        return
    if not any("out-of-bounds" in reason for reason in failed.reasons):
        return
    body: str = spec.geometry.facts.reached  # type: ignore[attr-defined]
    site = getattr(spec.geometry, "site", None)
    grid = site.origin(0)[1] if site is not None else ""
    unclear = unclear_extents(spec.signature, body, grid)
    if unclear:
        raise UsageError(
            f"{report.entry} accesses memory out of bounds for {report.own(failed.problem)}, but what {unclear[0]} "
            "means is not clear: with another number in its place it may not",
            f"give --signature, with the meaning of {unclear[0]} in its place (as read: "
            f"{spec.signature.declaration()})",
        )


def _refuse_other_parts(report: Report) -> None:
    """Raise for a kernel that host code launches for one part of its matrices after another, if it fails for another
    shape than the first: its parts may not be larger."""
    loop = "" if in_rounds(report.spec) else getattr(report.spec.geometry, "loop", "")
    failed = first_failure(report)
    if not loop or failed is None or is_hazard(failed) or not report.verdicts[0][1].trusted:
        return
    if failed.problem.with_() != report.base.with_():
        raise UsageError(
            f"{report.entry} is right for {report.own(report.base)} and not for {report.own(failed.problem)}, but its "
            f"host code launches it for parts of the product ({loop}), and how large they are is not known",
            "choose a size of one part with --m, --n and --k",
        )


def _refuse_one_size(report: Report) -> None:
    """Raise for a kernel that host code launches for one size alone, if it fails for another: a condition there names
    it. A race is one for every size."""
    condition = getattr(report.spec.geometry, "one_size", "")
    failed = first_failure(report)
    if condition and failed is not None and not is_hazard(failed):
        raise UsageError(
            f"{report.entry}: its host code launches it for one size alone (`{condition}`), and it is not right for "
            f"{report.own(failed.problem)}",
            "choose that size with --m, --n and --k",
        )


def _refuse_one_extent(report: Report) -> None:
    """Raise for a kernel whose grid is made for one number of rows or columns, if it leaves others unwritten."""
    extent = getattr(report.spec.geometry, "one_extent", "")
    failed = first_failure(report)
    if extent and failed is not None and not failed.hazards and 0 < failed.unwritten >= failed.wrong:
        raise UsageError(
            f"{report.entry}: its host code launches it for {extent} alone, and {failed.unwritten} of the "
            f"{failed.total} outputs of {report.own(failed.problem)} are not written",
            "choose that size with --m, --n and --k, or give a grid with --grid",
        )


def _refuse_unread_condition(report: Report) -> None:
    """Raise for a kernel that host code launches under a condition that was not understood: it may rule out the
    product that failed."""
    failed = first_failure(report)
    if failed is None or is_hazard(failed):
        return
    condition = launched(report.spec, failed.problem).unread
    outside = excluded(report.spec, failed.problem) if condition is None else None
    if condition is not None or outside is not None:
        why = "which is not understood" if condition is not None else "which no small shape meets"
        raise UsageError(
            f"{report.entry}: its host code launches it only if {condition or outside}, {why}; it is wrong for "
            f"{report.own(failed.problem)}, a shape that this may exclude",
            "give a shape for which it is launched with --m, --n and --k; or allow every shape with --grid and --block",
        )


def _refuse_unfinished(report: Report, config: Config) -> None:
    """Raise for a kernel that leaves a part of every sum in each of its slices or in a workspace, if another one adds
    them up.

    What it writes may be read by others too, which compare or print it: blocks along z tell the slices.
    """
    launch, failed = report.spec.geometry, first_failure(report)
    joined = getattr(launch, "second", None) is not None
    workspace = "" if joined else getattr(launch, "workspace_read_by", "")
    after = workspace or getattr(launch, "passed_on", "")
    if not after or failed is None or is_hazard(failed) or report.verdicts[0][1].trusted or report.spec.batched:
        return
    if workspace or launch(report.base, config).grid[2] > 1:
        raise UsageError(
            f"{report.entry} does not finish the product: its host code passes the result on to {after}",
            "the launch that finishes it is not understood; gemmsmith.launch runs several with arguments of your own",
        )


def _refuse_several_products(report: Report) -> None:
    """Raise for a kernel that is right for one product and not for several, if the number that host code launches it
    for may be one of heads, whose matrices are interleaved."""
    counter = getattr(report.spec.geometry, "products", "")
    failed = first_failure(report)
    if not counter or failed is None or failed.problem.batch == 1 or is_hazard(failed):
        return
    if report.verdicts[-1][0].label == HEADS:  # where they lie is known, and is wrong
        return
    if any(verdict.trusted and verdict.problem.batch > 1 for _, verdict in report.verdicts):  # as these showed
        return
    raise UsageError(
        f"{report.entry} makes {counter} products, one for each blockIdx.z, and where their matrices begin is not "
        "known: it is right for one, but not for several stored one after another",
        "gemmsmith.launch runs it with arguments of your own; or give --signature with batch in its place",
    )
