"""The edge cases of one kernel, or some of them: what ``verify`` runs in its own process and what its tasks run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from gemmsmith.call.binding import CompileFn
from gemmsmith.choose.precision import promises
from gemmsmith.cli.check_chain import kernel_before
from gemmsmith.cli.check_prepare import Asked, prepare
from gemmsmith.cli.check_run import check_one
from gemmsmith.cli.launch_report import repeat_words
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.compile.target import check_target
from gemmsmith.errors import GemmsmithError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import DType, Problem
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.cases import Case, edge_cases, tile_of
from gemmsmith.verify.code.float_constants import adds_in_memory
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.host.cleared import not_cleared
from gemmsmith.verify.leniency import is_lenient, tests_beta, verify_leniently, verify_unused
from gemmsmith.verify.trials.fit import fitted_trials
from gemmsmith.verify.trials.trial import Size
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.verdict import Verdict

_USUAL_SIZE = 128
_OF_HOST_CODE = (64, 128, 192)  # a product for which host code is asked what it clears
CASES_PER_TASK = 12  # of a rung: the cases of a file share what is found out about it


@dataclass(frozen=True)
class VerifyAsked:
    """What the command line says about every kernel."""

    options: KernelOptions
    checks: VerificationOptions
    full: bool
    precision: str
    schedule: str
    device: str

    @property
    def words(self) -> tuple[str, ...]:
        return repeat_words(self.options.launch, self.device, self.checks, self.schedule, 0)


@dataclass(frozen=True)
class Verified:
    """Verdicts on cases of one kernel, in their order. ``lacks`` says why the device runs none of them."""

    name: str
    device: str
    lacks: str = ""
    verdicts: tuple[Verdict, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Cases ``first`` to ``last`` of a kernel, and, if ``fitted``, the trials that fit it."""

    first: int = 0
    last: int = 1 << 30
    fitted: bool = True

    def to_json(self) -> Mapping[str, Any]:
        return {"first": self.first, "last": self.last, "fitted": self.fitted}

    def __str__(self) -> str:
        return "fitted trials" if self.first == self.last else f"cases {self.first}-{self.last}"


def parts_of(spec: KernelSpec, config: Config, asked: VerifyAsked) -> list[Part]:
    """The tasks of one kernel. A file is one task: what its trials need is found out once."""
    if not spec.is_rung:
        return [Part()]
    count = sum(1 for _ in _kept(spec, config, asked))
    cut = [Part(at, min(at + CASES_PER_TASK, count), False) for at in range(0, count, CASES_PER_TASK)]
    return [*cut, Part(count, count)] if asked.full else cut


def _kept(spec: KernelSpec, config: Config, asked: VerifyAsked) -> list[Case]:
    return [case for case in edge_cases(spec, config, "full" if asked.full else "quick")
            if keeps(spec, case.problem.dtype, asked.precision)]  # fmt: skip


class KernelVerification:
    """One kernel on one device."""

    def __init__(self, name: str, asked: VerifyAsked, where: SimDevice | CudaDevice, cache: CacheOptions) -> None:
        self.name, self.asked, self.where, self.cache = name, asked, where, cache
        self._own = find_kernel(name, asked.options)

    @cached_property
    def lacks(self) -> str:
        """Why the device runs the kernel with none of its types; empty if it runs one."""
        spec = self._own[0]
        if all(lacks(self.where.arch, spec, dtype) for dtype in spec.dtypes):
            return lacks(self.where.arch, spec, spec.dtypes[0])
        return ""

    @cached_property
    def runner(self) -> tuple[TrialRunner, Problem] | None:
        """What finds out, on the simulator, which trials fit a kernel, and a product of whole tiles that it takes."""
        spec, config = self._own
        if spec.is_rung and not (self.asked.full and self.where.kind == "sim"):
            return None
        size = max(tile_of(spec, config)[:2]) if spec.is_rung else _USUAL_SIZE
        asked = Asked(self.name, self.asked.options, ShapeOptions(size, size, _USUAL_SIZE), not spec.is_rung,
                      DeviceOptions(device="sim"), math.inf, self.asked.checks, self.cache)  # fmt: skip
        try:
            prepared = prepare(spec, config, asked)
        except GemmsmithError:  # no product under any reading: it is judged as its file says
            return None
        compile_fn: CompileFn = self.cache.compiler if spec.is_rung else lambda *_: prepared.compiled
        found = TrialRunner(prepared.spec, config, prepared.compiled, prepared.bench.open, compile_fn)
        return found, prepared.base

    @property
    def spec(self) -> KernelSpec:
        return self.runner[0].spec if self.runner is not None else self._own[0]

    @cached_property
    def cases(self) -> list[Case]:
        spec, config = self.spec, self._own[1]
        return [replace(case, skip=case.skip or lacks(self.where.arch, spec, case.problem.dtype) or self._flushes(case))
                for case in _kept(spec, config, self.asked)]  # fmt: skip

    def _flushes(self, case: Case) -> str:
        """Why subnormal sums tell nothing about the kernel; empty if they do."""
        if case.fill != "subnormal" or self.runner is None or not adds_in_memory(self.runner[0].compiled.ptx):
            return ""
        return "it adds floats in global memory, where the hardware flushes subnormal sums to zero"

    def run(self, part: Part, done: Any = lambda: None) -> Verified:
        """The verdicts on ``part``; ``done`` hears of every case."""
        if self.lacks:
            return Verified(self._own[0].name, self.where.name, self.lacks)
        verdicts: list[Verdict] = []
        skipped: list[str] = []
        notes: list[str] = []
        checks = self.asked.checks
        lenient = is_lenient(self.spec, checks.c, checks.strict)
        spares_c = lenient and self._spares_c()
        for case in self.cases[part.first : part.last]:
            if case.skip:
                skipped.append(f"{case.label}: {case.skip}")
            else:
                verdict, note = verify_leniently(partial(self._judged, case), lenient, checks.fill, spares_c)
                verdicts.append(verdict)
                notes += [note.split("\n")[0]] if note else []
            done()
        if part.fitted:
            verdicts += self._fitted(checks.fill or ("set" if lenient and not spares_c else "unset"))
            asked = self.spec.problem(*_OF_HOST_CODE)
            if verdicts and (found := not_cleared(self.spec, asked, verdicts[-1], free=True)) is not None:
                verdicts.append(replace(found, repeat=shlex.join(["gemmsmith", "verify", self.name])))
            verdicts += self._with_kernel_before()
        return Verified(self.spec.name, self.where.name, "", tuple(verdicts), tuple(skipped), tuple(notes))

    def _spares_c(self) -> bool:
        """Whether the kernel asks if beta is 0, or does not read C in one launch with it: it means not to in any."""
        one = next((case for case in self.cases if not case.skip and case.problem.beta == 0 < case.problem.k
                    and 0 < abs(case.problem.alpha) < 1), None)  # fmt: skip
        return tests_beta(self.spec) or (one is not None and self._judged(one, "unset").trusted)

    def _with_kernel_before(self) -> list[Verdict]:
        """What fails where the kernel that host code launches before this one is run with it, as ``check`` does."""
        spec = self._own[0]
        if spec.is_rung or self.runner is None:
            return []
        asked = Asked(self.name, self.asked.options, ShapeOptions(), True, DeviceOptions(device="sim"), math.inf,
                      self.asked.checks, self.cache, certified=False)  # fmt: skip
        report = kernel_before(spec, asked, self.spec.signature.accumulates, check_one)
        if report is None or (report.ok and not self.asked.checks.strict):
            return []
        return [_labelled(verdict, trial.label, self.asked.words) for trial, verdict in report.failed
                if not report.only_warns(trial, verdict)]  # fmt: skip

    def _judged(self, case: Case, c: str) -> Verdict:
        on_simulator = self.where.kind == "sim" and self.runner is not None
        compile_fn = self.runner[0].compile_fn if on_simulator and self.runner else self.cache.compiler
        judge = partial(verify_launch, self.where, self.spec, self._own[1], case.problem, compile_fn=compile_fn,
                        fill=case.fill, seed=case.seed, offsets=case.offsets, mode=case.mode,
                        launch=self.asked.words)  # fmt: skip
        return verify_unused(lambda c: judge(c=c), self.spec, c)

    def _fitted(self, c: str) -> list[Verdict]:
        """The trials that fit the kernel; whole products run on the GPU where there is one."""
        if self.runner is None:
            return []
        runner, base = self.runner
        here = replace(runner, open_device=lambda *_: self.where, compile_fn=self.cache.compiler)
        found = []
        for trial in fitted_trials(runner, base, c, self.asked.full):
            chosen = here if self.where.kind == "gpu" and trial.size is Size.WHOLE else runner
            found.append(_labelled(chosen.run(trial), trial.label, self.asked.words))
        return found


def _labelled(verdict: Verdict, label: str, words: tuple[str, ...]) -> Verdict:
    """A failure with the trial's purpose, and a command that repeats it; of a sparse launch, all of it."""
    if verdict.trusted:
        return verdict
    repeat = verdict.repeat or shlex.join(["gemmsmith", "verify", "--full", verdict.kernel])
    return replace(verdict, reasons=(label, *verdict.reasons), repeat=shlex.join([*shlex.split(repeat), *words]))


def keeps(spec: KernelSpec, dtype: DType, precision: str) -> bool:
    return not precision or precision in promises(spec, dtype)


def lacks(arch: str, spec: KernelSpec, dtype: DType) -> str:
    """Why ``spec`` does not run on ``arch`` with inputs of ``dtype``; empty if it does."""
    try:
        check_target(spec, arch, dtype)
    except UnsupportedError as error:
        return error.message
    return ""
