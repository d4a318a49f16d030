"""gemmsmith check of a product with scales, zero points or operands of two types: its report."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.cli.check_scaled_cures import scaled_causes, scaled_fault
from gemmsmith.cli.launch_report import launch_source
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.trial import TrialOptions
from gemmsmith.cli.product_report import ProductReport
from gemmsmith.cli.scaled_reading import ScaledReading, asked_of, scaled_parameters
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.cure.fault import fault_from
from gemmsmith.cure.suggestion import Suggestion
from gemmsmith.errors import GemmsmithError, SignatureError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.files.edited import edited_text
from gemmsmith.userfile.kernels.group_lengths import group_lengths
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter, other_readings
from gemmsmith.userfile.kernels.user_kernel import found_values, scaled_kernel
from gemmsmith.userfile.text.source import read_text
from gemmsmith.verify.meaning.launch_search import TileLaunch
from gemmsmith.verify.meaning.scaled_check import (
    ScaledCheck,
    check_scaled,
    launches_of_scaled,
)


def scaled_report(
    word: str, options: KernelOptions, device: DeviceOptions, timeout: float, cache: CacheOptions, trial: TrialOptions,
    refused: SignatureError, started: float, cures: float,
) -> ProductReport:  # fmt: skip
    """The report on such a product; raises ``refused`` for any other kernel."""
    spec, parameters = scaled_parameters(word, options, refused)
    path, asked = asked_of(word, options)
    own = CompileCache(cache.cache_dir) if cache.cache_dir is not None else None
    judge = _Judge(asked, refused, "gpu" if device.wants_gpu else "sim", timeout, own)
    seconds = 0.0 if device.wants_gpu or trial.trial else cures
    try:
        (meant, parameters), check = judge(path, trial.trial)
    except SignatureError as error:
        fault = fault_from(error.message, (), {path.name}, {})
        for cause in scaled_causes(spec, parameters, fault, "", judge.check, seconds):
            error.hint = f"If this is a mistake: {cause.cause}. {cause.advice}. Else {error.hint}"
        raise
    causes: tuple[Suggestion, ...] = ()
    if not check.ok:
        failed = next(each for each in check.trials if not each.ok)
        causes = scaled_causes(meant, parameters, scaled_fault(check, path), failed.label, judge.check, seconds)
    m, n, k = check.trials[0].shape
    sizes = Problem(m, n, k) if meant.signature == spec.signature else Problem(m, k, n)
    lines = f"{spec.entry}: {_roles(parameters)}", *(f"  {each}" for each in found_values(path, asked, sizes))
    if isinstance(meant.geometry, TileLaunch):
        lines = (f"{spec.entry}: its launch was found by trying: {meant.geometry}", *lines)
    source = launch_source(meant, asked, sizes)
    return ProductReport(check, lines, source, seconds_used() - started, trial.verbose, causes)


@dataclass(frozen=True)
class _Judge:
    """Runs the trials of a file or of a changed copy, with K columns where N gives no product."""

    asked: UserOptions
    refused: SignatureError
    kind: str
    timeout: float
    cache: CompileCache | None

    def __call__(self, file: Path, label: str) -> tuple[ScaledReading, ScaledCheck]:
        read = scaled_kernel(file, self.asked)
        if read is None:
            raise self.refused
        group = _groups(read[0], read[1])
        first: GemmsmithError | None = None
        for each in _readings(*read):
            try:
                return each, check_scaled(*each, group, self.kind, self.timeout, self.cache, label)
            except GemmsmithError as error:
                first = first or error
        for spec in launches_of_scaled(*read, group, self.timeout, self.cache) if self.kind == "sim" else ():
            with suppress(GemmsmithError):
                return (spec, read[1]), check_scaled(spec, read[1], group, self.kind, self.timeout, self.cache, label,
                                                     tried_launch=True)  # fmt: skip
        raise first or self.refused

    def check(self, file: Path, label: str) -> ScaledCheck:
        return self(file, label)[1]


def _readings(spec: KernelSpec, parameters: tuple[ScaledParameter, ...]) -> list[ScaledReading]:
    """The kernel as it is read: under the launch that a comment describes, under its own, and with K columns."""
    described = getattr(spec.geometry, "as_described", lambda: None)()
    own = (spec, parameters)
    found = [own] if described is None else [(replace(spec, geometry=described), parameters), own]
    others = [(found[0][0], each) for each in other_readings(parameters)]
    return [*found, *others, _with_columns_last(*found[0])]


def _with_columns_last(spec: KernelSpec, parameters: tuple[ScaledParameter, ...]) -> ScaledReading:
    """The kernel read with K columns and a sum over N, as A[M][N] and B[N][K] have them."""
    swapped = {"N": "K", "K": "N"}
    arguments = tuple(replace(arg, role=swapped.get(arg.role, arg.role)) for arg in spec.signature.arguments)
    signature = replace(spec.signature, arguments=arguments)
    return spec.read_as(signature, spec.layouts[0]), tuple(
        replace(each, role=swapped.get(each.role, each.role)) for each in parameters
    )


def _groups(spec: KernelSpec, parameters: tuple[ScaledParameter, ...]) -> tuple[int, ...]:
    """The lengths of groups that host code passes, or that the file names; empty if it names none."""
    pairs = zip(spec.signature.arguments, parameters, strict=True)
    passed = next((arg for arg, each in pairs if each.role == "group"), None)
    if passed is None or passed.passed.isdecimal():
        return (int(passed.passed),) if passed is not None else ()
    text = edited_text(spec.source, spec.edited) or read_text(spec.source)
    return group_lengths(passed.name.rpartition(".")[2], text)


def _roles(parameters: tuple[ScaledParameter, ...]) -> str:
    words = {"zero": "a zero point", "scale": "a scale", "group": "the size of a group", "bias": "the bias"}
    said = [f"{each.name} is {words.get(each.role, each.role)}" for each in parameters
            if each.name != each.role and (each.role in words or each.role in ("A", "B", "C"))]  # fmt: skip
    return f"taken as a product with scales or mixed types{': ' if said else ''}{', '.join(said)}"
