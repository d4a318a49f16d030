"""Grade an answer of ``gemmsmith learn`` with the machinery of ``check`` and ``profile``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.cli.check_attempts import check_product
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.check_refusals import first_failure
from gemmsmith.cli.options.device import DEFAULT_ARCH, DEFAULT_GPU, CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import FittedShapeOptions, ProblemOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.check_report import Report
from gemmsmith.cli.subject import find_subject
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.errors import CompileError, GemmsmithError, MissingDeviceError, UsageError
from gemmsmith.explain.diagnosis import case_of
from gemmsmith.explain.findings import Case
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.gpus import gpu_named
from gemmsmith.learn.grade import Grade, missing_work, reached_goals
from gemmsmith.learn.task import Task, task_named, task_of
from gemmsmith.problem import Problem
from gemmsmith.regular_file import regular
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

__all__ = ["Graded", "find_task", "grade_file", "seconds_used"]

_BUDGET = 6.0  # seconds of trials; the rest of 15 is for compiling, counting and the last launch
_TIMEOUT = 8.0  # seconds of one simulated launch
_LARGEST = 1 << 20  # bytes of an answer
_AFFORDABLE = 1 << 22  # multiply-adds of a launch that is verified besides


@dataclass(frozen=True)
class Graded:
    """A grade, and the failing launch for those who want to see where."""

    grade: Grade
    report: Report | None = None
    failed: Verdict | None = None


def find_task(file: Path, name: str) -> Task:
    """The task that ``--task`` or the file itself names."""
    try:
        with regular(file).open("rb") as opened:
            text = opened.read(_LARGEST).decode("utf-8", "replace")
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}", "gemmsmith learn start NAME writes one") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "give the .cu file with your answer") from None
    if name:
        return task_named(name)
    found = task_of(text)
    if found is None:
        raise UsageError(
            f"{file} does not say which task it answers", "add --task NAME; gemmsmith learn lists the names"
        )
    return found


def grade_file(file: Path, task: Task, cache: CacheOptions) -> Graded:
    """Check the product, then count the launch that the goals are about."""
    asked = Asked(str(file), KernelOptions(), FittedShapeOptions().shape, True, DeviceOptions("sim"), _TIMEOUT,
                  VerificationOptions(), cache, budget=_BUDGET, certified=False)  # fmt: skip
    try:
        report = check_product(asked)
    except MissingDeviceError:
        raise
    except CompileError as error:
        said = next((line for line in error.log.splitlines() if "error" in line), error.message)
        return Graded(Grade(task, "it does not compile", said.strip()))
    except GemmsmithError as error:
        return Graded(Grade(task, "there is no verdict", str(error)))
    fault = _fault(task, report)
    if fault:
        failed = first_failure(report) or next((verdict for _, verdict in report.failed), None)
        return Graded(Grade(task, report.conclusion(), fault), report, failed)
    problem = report.spec.problem(*task.shape)
    verdict = _verified(report, problem)
    if verdict is not None and not verdict.trusted:
        said = f"it is wrong at {problem}, the shape whose counters are graded"
        return Graded(Grade(task, said, said), report, verdict)
    case = _counted(file, problem, cache)
    fault = missing_work(case)
    reached = () if fault else reached_goals(task, case)
    return Graded(Grade(task, _praise(report), fault, reached), report)


def _fault(task: Task, report: Report) -> str:
    """Why the product does not pass; empty if it does."""
    if report.status not in task.accepted or not report.ok:
        return re.sub(r" \(--strict.*", "", report.conclusion())
    if task.unread_c and report.advice:
        return f"{report.entry} reads C when beta is 0, where C may hold anything, NaN too"
    if task.unread_c and not report.spec.signature.has("beta"):
        return f"{report.entry} has no parameter beta any more: keep the parameters as they are"
    return ""


def _praise(report: Report) -> str:
    return f"{report.entry} is right: {len(report.verdicts)} trials, five orders of warps, no race"


def _verified(report: Report, problem: Problem) -> Verdict | None:
    """The launch whose counters are graded, verified with random data; None if it would take too long."""
    if problem.flops > 2 * _AFFORDABLE:
        return None
    accumulates = report.spec.signature.accumulates
    return verify_launch(SimDevice(DEFAULT_ARCH, hazards=True, timeout=_TIMEOUT), report.spec, report.spec.config(),
                         problem, compile_fn=lambda *_: report.compiled, fill="normal", mode="float",
                         c="zero" if accumulates else "set")  # fmt: skip


def _counted(file: Path, problem: Problem, cache: CacheOptions) -> Case:
    """What ``gemmsmith profile FILE`` counts at that shape, on the GPU that commands predict for."""
    m, n, k = problem.m, problem.n, problem.k
    subject = find_subject(str(file), KernelOptions(), ProblemOptions(m, n, k), DEFAULT_ARCH, cache.compiler)
    gpu = gpu_named(DEFAULT_GPU)
    if problem.flops > 2 * _AFFORDABLE:
        return case_of(subject.profile()[0], gpu)
    return case_of(simulate(subject.spec, subject.config, subject.problem, subject.compiled), gpu)
