"""The trials of gemmsmith check, and what they find.

    prepare ─► trials ─► after a failure: causes; after a pass: proofs ─► report

On the simulator the trials also look for races: a kernel that races fails, even if its result is correct.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from gemmsmith.call.binding import CompileFn
from gemmsmith.cli.affordable_trials import PlainPace, affordable
from gemmsmith.cli.callers_flag import refuse_callers_flag
from gemmsmith.cli.check_beyond_trials import BEYOND, is_right_beyond_trials
from gemmsmith.cli.check_certificate import add_certificate
from gemmsmith.cli.check_chain import chain_report, kernel_before, with_kernel_before
from gemmsmith.cli.check_clock import CheckClock
from gemmsmith.cli.check_cures import find_causes, find_remedies
from gemmsmith.cli.check_dispatch import dispatch_of, launched_trials, taken
from gemmsmith.cli.check_fitted import SPARE, FittedTrials, after_failure, repeat_of
from gemmsmith.cli.check_prepare import Asked, Prepared, prepare
from gemmsmith.cli.check_refusals import refuse_by_host_code
from gemmsmith.cli.estimate import check_memory
from gemmsmith.cli.guessed_launch import (
    refuse_given_layers,
    refuse_guessed_grid,
    refuse_mere_guess,
    refuse_unseen_blocks,
)
from gemmsmith.cli.launch_report import launch_facts
from gemmsmith.cli.lighter_trials import LighterTrials, lighter_trials
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.other_formula import refuse_other_formula
from gemmsmith.cli.rearranged_operands import rearranged, refuse_rearranged
from gemmsmith.cli.render.check_report import Report
from gemmsmith.cli.render.output import progress
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem
from gemmsmith.verify.code.float_constants import adds_in_memory
from gemmsmith.verify.host.launched_products import launched_ragged
from gemmsmith.verify.host.meant_shapes import means_rectangles
from gemmsmith.verify.host.second_launch import second_launch
from gemmsmith.verify.leniency import is_lenient
from gemmsmith.verify.meaning.footprints import touches_as_product
from gemmsmith.verify.meaning.launch_probe import LaunchProbe
from gemmsmith.verify.meaning.product_evidence import refuse_doubtful
from gemmsmith.verify.trials.asserted_sizes import refuse_asserted
from gemmsmith.verify.trials.trial import DISTINCT, RAGGED, SQUARE, Trial
from gemmsmith.verify.trials.trial_paces import Paces
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.trials.trials import (
    SAMPLED,
    most_telling,
    obstacle,
    planned_trials,
    square,
    square_ragged,
    taller,
)
from gemmsmith.verify.verdict import Verdict

__all__ = ["Asked", "run_check"]

_SMEM_UNKNOWN = "how many bytes host code gives it is not known, so it gets all that a GPU has; set them with --smem"
_FOR_ANOTHER = "its host code launches another instantiation for that shape"


def run_check(spec: KernelSpec, config: Config, asked: Asked) -> Report:
    """The report on ``spec``, or on the two kernels that make its product together."""
    together = chain_report(spec, config, asked, check_one)
    if together is not None:
        refuse_rearranged(together)
        return together
    report = check_one(spec, config, asked)
    if rearranged(report):  # by one kernel before it, whose operands are plain, or by more
        both = kernel_before(spec, asked, report.spec.signature.accumulates, check_one) if asked.free else None
        if both is None or rearranged(both):
            refuse_rearranged(report)
        return both or report
    return with_kernel_before(spec, asked, report, check_one)


def check_one(spec: KernelSpec, config: Config, asked: Asked) -> Report:
    """Compile ``spec``, find out what it computes, and run the trials until one fails."""
    clock = asked.clock or CheckClock()
    prepared = prepare(spec, config, asked)
    check_accepts(prepared.spec, prepared.base)
    check_memory(prepared.base)
    compiled = prepared.compiled
    compile_fn: CompileFn = asked.cache.compiler if prepared.spec.is_rung else lambda *_: compiled
    runner = TrialRunner(prepared.spec, config, compiled, prepared.bench.open, compile_fn, prepared.blocks)
    report, fitted, paces = _planned(prepared, config, asked), None, Paces()
    with progress() as bar:
        task = bar.add_task(prepared.spec.name, total=None)
        passed = _plain_trials(runner, prepared, report, asked, clock, paces, lambda: bar.advance(task))
        passed = (
            passed
            and _launched_trials(runner, prepared, report, asked)
            and (not report.verdicts or is_right_beyond_trials(prepared, report, config, asked.free))
        )
        free = asked.free and asked.fitted and not asked.trial.trial and asked.budget > 0
        if passed and free and prepared.bench.kind == "sim" and prepared.blocks is None:
            fitted = FittedTrials(runner, report, asked, clock, lambda: bar.advance(task), paces=paces)
            passed = fitted.plan() and fitted.run()
        report.seconds = clock.cpu()
        if passed and asked.certified and not asked.trial.trial:  # a certificate is of all trials
            _after_pass(runner, report)
        if passed and fitted is not None and not fitted.run_rest():
            passed, report.certificate = False, None
    report.seconds = clock.cpu()
    if passed and asked.free:
        refuse_unseen_blocks(report, config)
    if not passed and asked.free:
        refuse_by_host_code(report, config)
        refuse_guessed_grid(report)
        refuse_mere_guess(report)
        refuse_given_layers(report, config)
        refuse_callers_flag(report, runner)
        refuse_other_formula(report, asked)
    if report.ok or not asked.only_right:
        report.causes = find_causes(report, runner, asked, run_check)
    report.remedies = find_remedies(report, runner, asked, run_check)
    return report


def _plain_trials(
    runner: TrialRunner, prepared: Prepared, report: Report, asked: Asked, clock: CheckClock, paces: Paces,
    advance: Callable[[], None],
) -> bool:  # fmt: skip
    """Whether every trial that any kernel is given passed, or only warns. Where seconds are short, other orders of
    warps are left out: races are found in any order. Where none are left, the other trials no longer look for races.
    """
    again = _check_command(asked)
    pace, planned = PlainPace(), list(report.trials)
    lighter = _lighter(runner, prepared, asked)
    for number in range(len(planned)):
        before, left = clock.work(), asked.budget * (1 - SPARE) - clock.used()
        if number:
            planned[number:] = lighter.lighten(planned[number:], pace.slowest, left)
        place = len(report.verdicts)
        allowed = affordable(planned[number:], pace, left, report, asked)
        if allowed is None:
            del report.trials[place]
            continue
        larger = lighter.larger(allowed)
        trial, verdict = _run(runner, allowed, report)
        if larger is not None and not verdict.trusted:  # the grid may not show the tile: the larger one decides
            trial, verdict = _run(runner, replace(larger, hazards=trial.hazards), report)
            if verdict.trusted:  # the next would fail on fewer tiles as well
                planned[number + 1 :] = lighter.restored(planned[number + 1 :])
        planned[number] = report.trials[place] = trial
        took = clock.work() - before
        pace.ran(trial, took)
        if prepared.blocks is None:
            paces.stepped(trial, took)
        first = not report.verdicts and not asked.trial.trial
        if not verdict.trusted and first and prepared.settled.reading is None:
            refuse_asserted(prepared.spec, verdict)
            probe = LaunchProbe(prepared.bench.open, prepared.spec, runner.config, runner.compile_fn)
            touches = partial(touches_as_product, probe, prepared.shapes.distinct)
            refuse_doubtful(prepared.spec, prepared.compiled.ptx, verdict, touches)
            prepared.settled.refuse_doubtful_launch()
        report.verdicts.append((trial, replace(verdict, repeat=f"{again} --trial {shlex.quote(trial.label)}")))
        advance()
        if not verdict.trusted and not report.only_warns(trial, verdict):
            after_failure(runner, trial, verdict, report, asked)
            return False  # later failures often follow from the first
    return True


def _lighter(runner: TrialRunner, prepared: Prepared, asked: Asked) -> LighterTrials:
    """The same trials on fewer tiles, where the grid tells the tile and the shape is free."""
    if not asked.free or asked.trial.trial or prepared.bench.kind != "sim" or prepared.blocks is not None:
        return LighterTrials()
    if not prepared.tile_is_known(runner.config) or runner.spec.is_rung:
        return LighterTrials()
    planned = partial(_plain, prepared, asked, runner.config)
    return lighter_trials(runner.spec, runner.config, prepared.base, prepared.distinct, planned)


def _launched_trials(runner: TrialRunner, prepared: Prepared, report: Report, asked: Asked) -> bool:
    """Whether the shapes passed for which host code launches this instantiation of several."""
    for trial in launched_trials(runner.spec, report, asked, prepared.distinct):
        verdict = runner.run(trial)
        report.trials.append(trial)
        report.verdicts.append((trial, replace(verdict, repeat=repeat_of(verdict, asked, report))))
        if not verdict.trusted:
            after_failure(runner, trial, verdict, report, asked)
            return False
    return True


def _run(runner: TrialRunner, trial: Trial, report: Report) -> tuple[Trial, Verdict]:
    """Run a trial; where it is the one that tells M and N apart, find out whether squares are right."""
    base = report.base
    if report.square and trial.label == RAGGED:
        trial = replace(trial, problem=square_ragged(base))
    verdict = runner.run(trial)
    tells = trial.label == DISTINCT and base.m == base.n and not runner.spec.is_rung
    if not verdict.trusted and tells and not runner.spec.signature.tied:
        report.square = runner.run(replace(trial, label=SQUARE, problem=square(base))).trusted
        if report.square:  # right for M > N as well: it takes any extents, and confuses two of them
            report.square = not runner.run(replace(trial, label=SQUARE, problem=taller(base))).trusted
        if report.square and (report.settled.only or means_rectangles(runner.spec)):
            only = report.settled.only or "M = N"  # known before, as a layout that it does not mean
            report.square, report.settled = False, replace(report.settled, only=only)
    return trial, verdict


def _after_pass(runner: TrialRunner, report: Report) -> None:
    """Add to the report what holds beyond the trials; each trial passed or only warns."""
    add_certificate(report, runner)


def _adds_to_zeros(prepared: Prepared) -> bool:
    """Whether the kernel adds to C in memory, for some tiles at least, and host code sets C to zero before."""
    spec = prepared.spec
    zeroed = not spec.is_rung and bool(getattr(spec.geometry, "zeroes_output", False))
    return zeroed and not spec.signature.accumulates and adds_in_memory(prepared.compiled.ptx)


def _plain(prepared: Prepared, asked: Asked, config: Config, base: Problem, distinct: Problem) -> Iterator[Trial]:
    """The trials that any kernel is given, on these shapes."""
    spec = prepared.spec
    lenient = is_lenient(spec, asked.checks.fill, reads_c=prepared.reads_c)
    fill = asked.checks.fill or ("zero" if _adds_to_zeros(prepared) else "")
    planned = planned_trials(spec, base, distinct, prepared.bench.kind, fill, lenient and not fill)
    for trial in _with_second_launch(prepared, planned):
        if trial.label == RAGGED and asked.free:
            trial = replace(trial, problem=launched_ragged(spec, base, trial.problem))
        wider = replace(trial, problem=trial.problem.with_(n=2 * base.n - 1))
        # A grid that is rounded down has no block for less than a tile, and too few for more.
        none = trial.label == RAGGED and asked.free and obstacle(spec, config, trial)
        yield wider if none and not obstacle(spec, config, wider) else trial


def _with_second_launch(prepared: Prepared, planned: Iterator[Trial]) -> Iterator[Trial]:
    """The trials; where the kernel may find what it left at an earlier launch, one of that is the second."""
    first = next(planned)
    yield first
    again = second_launch(prepared.spec, prepared.compiled, first)
    if again is not None:
        yield again
    yield from planned


def _planned(prepared: Prepared, config: Config, asked: Asked) -> Report:
    """The report before the first trial: what is run, and what cannot be."""
    spec, base, checks = prepared.spec, prepared.base, asked.checks
    user = replace(asked.options.launch, defines=spec.extra_defines)
    launch = launch_facts(spec, config, base, user)
    planned = list(_plain(prepared, asked, config, base, prepared.distinct))
    skipped = [(trial.label, why) for trial in planned if (why := obstacle(spec, config, trial))]
    if prepared.bench.kind != "sim":
        skipped.append(
            ("other orders of warps, races", "only the simulator can choose the order of warps and find races")
        )
    trials = [trial for trial in planned if not obstacle(spec, config, trial)]
    if prepared.blocks is not None:
        trials = [trial for trial in trials if trial.label in SAMPLED]
    elif asked.brief:
        trials = most_telling(trials)
    if not asked.fitted and (dispatch := dispatch_of(spec)) is not None:
        skipped += [(t.label, _FOR_ANOTHER) for t in trials if not taken(spec, dispatch, t.problem)]
        trials = [trial for trial in trials if taken(spec, dispatch, trial.problem)]
    if getattr(spec.geometry, "guesses_smem", lambda _: False)(base):
        skipped.append(("accesses beyond its dynamic shared memory", _SMEM_UNKNOWN))
    trials = asked.trial.chosen(trials, skipped, BEYOND)
    report = Report(spec, prepared.compiled, base, launch, trials, skipped, checks.strict or spec.is_rung,
                  prepared.settled, asked.kernel, list(option_words(asked.options)), only=asked.trial.trial,
                  verbose=asked.trial.verbose,
                  ragged=next((trial for trial in planned if trial.label == RAGGED), None))  # fmt: skip
    report.trials = [trial for trial in trials if trial.label == RAGGED or not report.ruled_out(trial)]
    return report


def _check_command(asked: Asked) -> str:
    """The command line of this check: no other command repeats races and schedules."""
    words = ["gemmsmith", "check", asked.kernel]
    words += [] if asked.free else option_words(asked.shape, always=("m", "n", "k"))
    words += ["--device", asked.device.device] if asked.device.device != "sim" else []
    return shlex.join([*words, *option_words(asked.options, asked.checks)])
