"""gemmsmith check of a kernel whose file fixes M, N and K, and too large for the simulator: with smaller constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gemmsmith.cli.check_run import Asked, run_check
from gemmsmith.cli.options.kernel import find_kernel
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.smaller_sizes import smaller_sizes
from gemmsmith.verify.check_shapes import check_shapes, sampled_blocks


def check_product(spec: KernelSpec, config: Config, asked: Asked, check: Callable[..., Report] = run_check) -> Report:
    """The report on the kernel as it is; one that is too large is checked with smaller constants, which it says.

    A kernel may need more of a size than the first try gives it, so larger ones follow; the last failure is the verdict.
    """
    if spec.is_rung or not spec.signature.fixed or asked.device.wants_gpu or _affordable(spec, config):
        return check(spec, config, asked)
    report: Report | None = None
    options = replace(asked.options.launch, defines=asked.options.pairs)
    for smaller in smaller_sizes(Path(asked.kernel), options):
        define = [*(asked.options.define or ()), *(f"{name}={value}" for name, value in smaller.defines)]
        chosen = replace(asked.options, define=define)
        try:
            report = check(*find_kernel(asked.kernel, chosen), replace(asked, options=chosen))
        except UnsupportedError:
            continue
        line = f"its own size would take the simulator too long, so it is compiled with {smaller}"
        report.settled = replace(report.settled, lines=(line, *report.settled.lines))
        if report.status != "wrong":
            break
    return report if report is not None else check(spec, config, asked)


def _affordable(spec: KernelSpec, config: Config) -> bool:
    try:
        sampled_blocks(spec, config, check_shapes(spec, config).base)
    except UnsupportedError:
        return False
    return True
