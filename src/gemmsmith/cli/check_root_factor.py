"""gemmsmith check of products divided by the square root of K, as attention's scores are, where that is no parameter.

A copy without the factor is judged as a product. The kernel itself must then give the copy's results divided by √K, for
every K that is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import GemmsmithError, TimeLimitError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.root_factor import without_root
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.meaning.launch_probe import LaunchProbe, operands
from gemmsmith.verify.meaning.meaning_search import fitting

Check = Callable[[KernelSpec, Config, Asked], Report]
_DEPTHS = (1, 2, 5)  # times the K of the trials
_PRODUCTS = 3  # of a batch
_ULPS = 8  # a root, its reciprocal and a product; each approximate function is within two


def report_without_root(spec: KernelSpec, config: Config, asked: Asked, check: Check) -> Report | None:
    """The report on a copy of the kernel without the factor 1/√K; None where it has none, or another one."""
    launch = spec.geometry
    if spec.is_rung or not isinstance(launch, UserLaunch) or asked.device.wants_gpu:
        return None
    found = without_root(launch.facts.kernel, spec.edited)
    if found is None:
        return None
    edited, root = found
    try:
        uncertified = replace(asked, certified=False)  # a proof of the copy is none of the kernel
        report = check(replace(spec, edited=edited), config, uncertified)
        if report.settled.reading is None or not _divides_by_root(spec, report, config, asked):
            return None
    except TimeLimitError:
        raise
    except GemmsmithError:
        return None
    line = f"its results are divided by √K (`{root}`): that factor is right, and the product is judged without it"
    report.settled = replace(report.settled, lines=(line, *report.settled.lines))
    return report


def _divides_by_root(spec: KernelSpec, report: Report, config: Config, asked: Asked) -> bool:
    """Whether the kernel gives the results of the copy that was judged, divided by √K."""
    judged, base = report.spec, report.base
    meant = judged.signature.transposed() if judged.signature.column_major else judged.signature
    whole = replace(judged, edited=spec.edited)
    compiled = asked.cache.compiler(whole, *aligned_code(whole, config, base), report.compiled.arch)
    probes = [LaunchProbe(lambda: SimDevice(report.compiled.arch), each, config, lambda *_, code=code: code)
              for each, code in ((whole, compiled), (judged, report.compiled))]  # fmt: skip
    for seed, shape in enumerate(_shapes(report, meant)):
        batch = _PRODUCTS if judged.batched else 1
        values = operands(judged, meant, shape, seed, batch)
        own, plain = (probe.computed(meant, shape, values, batch) for probe in probes)
        if own is None or plain is None or not plain.any():
            return False
        expected = plain.astype(np.float64) / math.sqrt(shape[2])
        unit = 2.0**-7 if own.itemsize == 2 else 2.0**-23  # of bfloat16, of fp32
        if not np.allclose(own.astype(np.float64), expected, rtol=_ULPS * unit, atol=0.0):
            return False
    return True


def _shapes(report: Report, meant: Signature) -> Iterator[Shape]:
    """Several K, and a ragged shape where the kernel takes one: its edges may have code of their own."""
    base = report.base
    ragged = report.multiples.up(base.with_(m=base.m + 1, n=base.n + 1, k=base.k + 3))
    several = [base.with_(k=times * base.k) for times in _DEPTHS] + [ragged]
    for each in several[:1] if meant.fixed else several:
        rows, columns = (each.n, each.m) if report.spec.signature.column_major else (each.m, each.n)
        yield fitting(meant, (rows, columns, each.k))
