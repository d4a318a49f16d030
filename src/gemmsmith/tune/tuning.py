"""Find the fastest kernel and configuration for each shape by timing candidates on this machine's GPU.

    candidates, best prediction first ─► very short samples in groups, while the next ones are compiled, until no
        candidate that is left can gain 1 % (search.py) ─► short samples of the best quarter ─► the same for neighbours
        of the best, until a round gains under 1 % ─► verify the best few ─► long samples of those ─► verify the winner
        again ─► store

When the budget is nearly spent, the search ends where it is: the best few so far are verified and timed beside what
calls use now, and stored only where that is 1 % slower.

Every step is written to the tuning file before the next begins, so a run that was killed, stopped or out of time
continues where it ended. A candidate that does not compile, does not run or is incorrect is stored with the reason and
not tried again. If the process dies, the candidate that was running is retried once alone, and excluded if it dies
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from gemmsmith.choose.candidates import Candidate, varied
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.table import Entry
from gemmsmith.choose.tuning_file import History, Tried, TuningFile
from gemmsmith.errors import GemmsmithError, UnsupportedError, UsageError
from gemmsmith.problem import Problem
from gemmsmith.tune.arena import GLANCE, LONG, QUICK, SETTLES, Arena, LostContextError, Runner, Stage, Times
from gemmsmith.tune.plan import Tuned, TuningPlan, Workshop
from gemmsmith.tune.search import GAIN, Outlook, next_candidates

_T = TypeVar("_T")

GROUP = 8  # candidates timed in turn: few, so that rounds are short and their graphs fit
# Finalists are timed again, longer. In short samples long kernels run at a common clock, which hides a lower power
# draw, so more of them are finalists, with different tile sizes.
FINALISTS, LONG_FINALISTS = 4, 8
# A quarter of the candidates, at most KEPT, are timed a second time: those within CLOSE of the best. Set by hand:
# very short samples differ by some per cent from longer ones.
KEPT, CLOSE = 24, 1.06
AHEAD = 4 * GROUP  # candidates that are compiled while others are timed
REFINED = 2  # candidates whose neighbours are timed as well
ROUNDS = 4  # of such neighbours at most
# Of the budget, what is kept for the best so far: a share, and at most so many seconds.
_KEPT_SHARE, _KEPT_SECONDS = 0.25, 5.0
SO_FAR = 2  # candidates that are verified and timed again when time is up
_MOST_DEATHS = 2  # starts of a candidate during which the process died


class _OutOfTimeError(Exception):
    """The budget is spent."""


def tune(problems: Sequence[Problem], shop: Workshop, file: TuningFile, plan: TuningPlan) -> Iterator[Tuned]:
    """Yields each shape when it is finished; when the budget is spent, the remaining ones as unfinished."""
    for problem in problems:
        if problem.beta != 0 or problem != problem.with_() or problem.batch != 1 or not problem.flops:
            raise UsageError(f"{problem} cannot be tuned", "give single products of contiguous matrices, with beta = 0")
    started = shop.rig.stopwatch.now()
    history = file.history(shop.gpu)
    shapes = (_Shape(problem, shop, file, history, plan, started) for problem in problems)
    shape = next(shapes, None)
    while shape is not None:
        shape.begin()
        following = next(shapes, None)
        if following is not None:
            following.begin()
        yield shape.tuned()
        shape = following


def _with_first(first: Candidate | None, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """The candidates, ``first`` first; its prediction is that of the same one among them."""
    if first is None:
        return candidates
    same = next((each for each in candidates if each.name == first.name), first)
    return [same, *(each for each in candidates if each.name != first.name)]


class _Shape:
    """One shape of a run."""

    def __init__(self, problem: Problem, shop: Workshop, file: TuningFile, history: History, plan: TuningPlan,
                 started: float) -> None:  # fmt: skip
        self._problem, self._shop, self._file, self._plan, self._started = problem, shop, file, plan, started
        self._key = shape_key(problem, plan.precision)
        if plan.fresh:
            file.add_fresh(shop.gpu, self._key)
            history.tried.pop(self._key, None)
        is_finished = not plan.fresh and self._key not in history.so_far
        self._finished = history.best.get(self._key) if is_finished else None
        self._known = history.tried.setdefault(self._key, {})
        self._used = shop.used_now(problem)
        # The second also has neighbours, once timed. What calls use now comes first: everything is compared with it.
        self._ranked = self._candidates = _with_first(self._used, shop.candidates(problem))
        self._digests: dict[tuple[str, str], str] = {}
        seen = {(tried.kernel, frozenset(tried.config)) for tried in self._known.values()}
        # Digests take a millisecond each, and only few of thousands of candidates are timed.
        self._found: dict[tuple[str, str], Tried] = {
            c.name: self._known[self._digest(c)] for c in self._candidates
            if (c.spec.name, frozenset(c.config.values)) in seen and self._digest(c) in self._known
        }  # fmt: skip

    def begin(self) -> None:
        """Start compiling the first candidates without a result, unless time is up."""
        if self._out_of_time():
            return
        self._shop.begin_compiling(self._problem, self._next(AHEAD)[0])

    def _next(self, count: int) -> tuple[list[Candidate], Outlook]:
        """The candidates to time next."""
        times = {name: Times(tried.us, tried.cublas_us).score if tried.state == "timed" else math.inf
                 for name, tried in self._found.items() if tried.state}  # fmt: skip
        return next_candidates(self._ranked, times, len(times), self._plan.per_shape, count)

    def tuned(self) -> Tuned:
        if self._finished is not None and not self._next(1)[0]:
            return self._outcome("known", self._finished)
        try:
            self._check_time()
            best, state = self._best()
        except _OutOfTimeError:
            return self._outcome("unfinished", None)
        except UnsupportedError as error:  # operands do not fit in memory
            self._shop.rig.note(f"{self._problem}: skipped: {error.message}")
            return self._outcome("nothing", None)
        return self._outcome(state, best)

    def _outcome(self, state: str, best: Entry | None) -> Tuned:
        found = [tried for tried in self._found.values() if tried.state]
        return Tuned(self._problem, state, best, len(found), tuple(t for t in found if t.state != "timed"),
                     self._next(0)[1])  # fmt: skip

    def _left(self) -> float:
        """Seconds of the budget."""
        return self._plan.budget - (self._shop.rig.stopwatch.now() - self._started)

    def _out_of_time(self) -> bool:
        """Whether what is left of the budget is kept for the best so far."""
        return self._left() < min(_KEPT_SHARE * self._plan.budget, _KEPT_SECONDS)

    def _check_time(self) -> None:
        if self._out_of_time():
            raise _OutOfTimeError

    # --- results of candidates

    def _digest(self, candidate: Candidate) -> str:
        found = self._digests.get(candidate.name)
        if found is None:
            found = self._digests[candidate.name] = self._shop.digest(candidate, self._problem)
        return found

    def _result(self, candidate: Candidate) -> Tried:
        return self._found.get(candidate.name) or Tried(candidate.spec.name, candidate.config.values)

    def _state(self, candidate: Candidate) -> str:
        return self._result(candidate).state

    def _store(self, candidate: Candidate, state: str, times: Times | None = None, why: str = "",
               brief: bool = False) -> None:  # fmt: skip
        us, cublas = (times.seconds * 1e6, times.baseline * 1e6) if times is not None else (math.nan, math.nan)
        tried = replace(self._result(candidate), state=state, us=us, cublas_us=cublas, why=why, brief=brief)
        self._file.add_candidate(self._shop.gpu, self._key, self._digest(candidate), tried)
        self._found[candidate.name] = tried

    # --- the steps

    def _best(self) -> tuple[Entry | None, str]:
        """Time candidates until none can gain 1 %, the best ones again, and find the winner; and the state."""
        with Arena(self._shop.rig, self._problem, self._shop.baseline(), self._plan.seed) as arena:
            try:
                for _ in range(ROUNDS):
                    self._search(arena)
                    self._time(arena, self._close(), QUICK)
                    self._refine(arena)
                    if not self._next(1)[0]:  # longer samples may leave room for others
                        break
                best = self._winner(arena)
            except _OutOfTimeError:
                return self._best_so_far(arena), "unfinished"
            return best, "tuned" if best else "nothing"

    def _search(self, arena: Arena) -> None:
        """Very short samples of the most promising candidates; meanwhile the next ones are compiled."""
        while True:
            ahead, outlook = self._next(AHEAD + GROUP)
            if not ahead:
                return
            self._shop.rig.step(f"{self._problem}: {outlook.tried} candidates timed, {outlook.left} left")
            self._shop.begin_compiling(self._problem, ahead)
            # While the first ones are compiled, the GPU times others that are.
            ready = [c for c in ahead if self._shop.is_compiled(self._problem, c)]
            group = (ready or ahead)[:GROUP]
            self._compile(group)
            self._time(arena, group, GLANCE)

    def _close(self) -> list[Candidate]:
        """Candidates with very short samples only that may be the best."""
        ordered = self._ordered()
        if not ordered:
            return []
        most = min(KEPT, max(LONG_FINALISTS, math.ceil(len(ordered) / 4)))
        near = [c for c in ordered[:most] if self._score(c) <= self._score(ordered[0]) * CLOSE]
        if len(near) <= FINALISTS:  # they are timed again in any case
            return []
        return [c for c in near if self._result(c).brief]

    def _refine(self, arena: Arena) -> None:
        """Time the neighbours of the best, then theirs, until a round gains less than 1 %."""
        for _ in range(ROUNDS):
            ordered = self._ordered()
            around = self._around_the_best()
            self._compile(around)
            self._time(arena, around, QUICK)
            if not around or not ordered or self._score(self._ordered()[0]) > self._score(ordered[0]) * (1 - GAIN):
                return

    def _compile(self, todo: Sequence[Candidate]) -> None:
        for name, why in self._shop.compile_all(self._problem, todo).items():
            self._store(next(c for c in todo if c.name == name), "failed", why=why)

    def _time(self, arena: Arena, todo: Sequence[Candidate], stage: Stage) -> None:
        waiting = [c for c in todo if self._state(c) in ("", "timed")]
        for number, group in enumerate(self._groups(waiting)):
            if stage is not GLANCE:
                self._shop.rig.step(f"{self._problem}: time {number * GROUP + 1} of {len(waiting)} again")
            self._time_group(arena, group, stage)
            self._check_time()

    def _ordered(self) -> list[Candidate]:
        """Timed candidates, fastest first."""
        return sorted((c for c in self._candidates if self._state(c) == "timed"), key=self._score)

    def _around_the_best(self) -> list[Candidate]:
        """New neighbours of the best; they become candidates."""
        known = {c.name for c in self._candidates}
        near = [n for best in self._ordered()[:REFINED] for n in self._shop.neighbours(self._problem, best)]
        near = list({n.name: n for n in near if not self._state(n)}.values())
        self._candidates = [*self._candidates, *(n for n in near if n.name not in known)]
        self._found |= {n.name: self._known[self._digest(n)] for n in near if self._digest(n) in self._known}
        return [n for n in near if not self._state(n)]

    def _groups(self, waiting: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
        """Groups to time. Candidates that were running when a process died come last and alone."""
        unsuspected = [c for c in waiting if self._state(c) or not self._result(c).times]
        yield from (unsuspected[at : at + GROUP] for at in range(0, len(unsuspected), GROUP))
        yield from ([c] for c in waiting if c not in unsuspected)

    def _time_group(self, arena: Arena, group: Sequence[Candidate], stage: Stage) -> None:
        try:
            with ExitStack() as stack:
                entered = [(c, runner) for c in group if (runner := self._entered(arena, c, stack)) is not None]
                times = arena.times([runner for _, runner in entered], stage) if entered else []
                for (candidate, _), found in zip(entered, times, strict=True):
                    self._store(candidate, "timed", found, brief=stage is GLANCE)
        except KeyboardInterrupt:
            for candidate in group:  # the user stopped the process; no candidate is to blame
                if not self._state(candidate):
                    self._file.add_stop(self._shop.gpu, self._key, self._digest(candidate),
                                        candidate.spec.name, candidate.config.values)  # fmt: skip
            raise

    def _entered(self, arena: Arena, candidate: Candidate, stack: ExitStack) -> Runner | None:
        """The candidate prepared for timing; None, with the reason stored, where that fails."""
        if not self._state(candidate):
            deaths = self._result(candidate).times
            if deaths >= _MOST_DEATHS:
                self._store(candidate, "failed", why=f"the process died {deaths} times while it was running")
                return None
            self._file.add_start(self._shop.gpu, self._key, self._digest(candidate), candidate.spec.name,
                                 candidate.config.values)  # fmt: skip
        return self._guarded(candidate, lambda: arena.enter(self._shop.contender(candidate), stack))

    def _guarded(self, candidate: Candidate, work: Callable[[], _T]) -> _T | None:
        """The result of ``work``; None, with the reason stored, where the candidate fails."""
        try:
            return work()
        except LostContextError as error:
            self._store(candidate, "failed", why=error.message)
            raise LostContextError(
                f"{candidate}: {error.message}",
                "this process cannot use the GPU any more; the same command continues without this candidate",
            ) from None
        except GemmsmithError as error:
            self._store(candidate, "failed", why=error.message)
        return None

    def _winner(self, arena: Arena) -> Entry | None:
        """The fastest correct one of the best few in short samples. An incorrect candidate is replaced by the next."""
        with ExitStack() as stack:
            finalists: list[tuple[Candidate, Runner]] = []
            ordered = self._ordered()
            is_long = bool(ordered) and self._result(ordered[0]).us >= SETTLES * 1e6
            for candidate in varied(ordered) if is_long else ordered:
                runner = self._entered(arena, candidate, stack)
                if runner is not None and self._is_correct(arena, candidate, runner):
                    finalists.append((candidate, runner))
                if len(finalists) == (LONG_FINALISTS if is_long else FINALISTS):
                    break
                self._check_time()
            if not finalists:
                return None
            self._shop.rig.step(f"{self._problem}: time the best {len(finalists)} again")
            return self._first_correct(arena, finalists, self._long_samples(arena, finalists), so_far=False)

    def _best_so_far(self, arena: Arena) -> Entry | None:
        """When time is up: the fastest of the best few that is correct, if what calls use now takes 1 % longer."""
        with ExitStack() as stack:
            finalists: list[tuple[Candidate, Runner]] = []
            others = [c for c in self._ordered() if self._used is None or c.name != self._used.name]
            for candidate in others[: 2 * SO_FAR]:
                runner = self._entered(arena, candidate, stack)
                if runner is not None and self._is_correct(arena, candidate, runner):
                    finalists.append((candidate, runner))
                if len(finalists) == SO_FAR or (finalists and self._left() < 0):
                    break
            if not finalists:
                return None
            self._shop.rig.step(f"{self._problem}: out of time: time the best {len(finalists)} so far again")
            used = self._entered(arena, self._used, stack) if self._used is not None else None
            running = finalists if self._used is None or used is None else [*finalists, (self._used, used)]
            times = self._long_samples(arena, running)
            if used is not None:
                most = times.pop().score * (1 - GAIN)
                faster = [(each, found) for each, found in zip(finalists, times, strict=True) if found.score <= most]
                finalists, times = [each for each, _ in faster], [found for _, found in faster]
            best = self._first_correct(arena, finalists, times, so_far=True)
            if best is None and used is not None:
                self._shop.rig.note(f"{self._problem}: none of those timed is 1 % faster than what calls use now: "
                                    "nothing is stored for them")  # fmt: skip
            return best

    def _long_samples(self, arena: Arena, running: Sequence[tuple[Candidate, Runner]]) -> list[Times]:
        """Shorter where less of the budget is left."""
        each = max(QUICK.seconds, self._left() / (len(running) + 1))  # and the baseline
        return arena.times([runner for _, runner in running], replace(LONG, seconds=min(LONG.seconds, each)))

    def _first_correct(self, arena: Arena, finalists: Sequence[tuple[Candidate, Runner]], times: Sequence[Times],
                       so_far: bool) -> Entry | None:  # fmt: skip
        """The fastest that is still correct, stored."""
        for (candidate, runner), found in sorted(zip(finalists, times, strict=True), key=lambda x: x[1].score):
            why = arena.objection(runner, found.seconds)
            if why:
                self._store(candidate, "wrong", why=why)
            elif self._is_correct(arena, candidate, runner):
                self._store(candidate, "timed", found)
                best = Entry(candidate.spec.name, candidate.config.values, found.seconds * 1e6,
                             found.baseline * 1e6)  # fmt: skip
                self._file.add_best(self._shop.gpu, self._key, best, so_far)
                return best
        return None

    def _score(self, candidate: Candidate) -> float:
        found = self._result(candidate)
        return Times(found.us, found.cublas_us).score

    def _is_correct(self, arena: Arena, candidate: Candidate, runner: Runner) -> bool:
        finding = self._guarded(candidate, lambda: arena.judge(runner))
        if finding is not None and finding.why:
            self._store(candidate, "wrong", why=finding.why)
        return finding is not None and not finding.why
