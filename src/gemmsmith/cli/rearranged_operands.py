"""Failures of a kernel whose operands host code rearranges before: no verdict, as their layout is not known."""

from __future__ import annotations

from gemmsmith.cli.check_refusals import first_failure
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.userfile.kernels.rearranged_operands import rearranged_by
from gemmsmith.userfile.kernels.user_kernel import is_product
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.verdict import is_hazard


def rearranged(report: Report) -> str:
    """What writes an operand of a kernel that failed, as "pack at gemm.cu:40"; empty where nothing does, or where the
    failure is one for any operands: a race."""
    launch, failed = report.spec.geometry, first_failure(report)
    if report.ok or failed is None or is_hazard(failed):
        return ""
    if not isinstance(launch, UserLaunch) or launch.site is None or launch.options.signature:
        return ""
    signature, passed = launch.signature, launch.site.site.arguments
    places = [signature.place(i) for i, arg in enumerate(signature.arguments) if arg.role in ("A", "B")]
    members = [launch.signature.arguments[i].name for i, arg in enumerate(signature.arguments)
               if arg.role in ("A", "B")]  # fmt: skip
    texts = [passed[place] + "".join(name.partition(".")[1:]) for place, name in zip(places, members, strict=True)
             if place < len(passed)]  # fmt: skip
    return rearranged_by(launch.site.site, texts, is_product)


def refuse_rearranged(report: Report) -> None:
    """Raise for such a kernel."""
    if before := rearranged(report):
        raise UsageError(
            f"{report.entry}: its operands are what {before} leaves in memory, in a layout that is not known, and as "
            "plain matrices they give no right product",
            "gemmsmith.launch runs several kernels with arguments of your own; or give --signature, if the operands "
            "are plain matrices",
        )
