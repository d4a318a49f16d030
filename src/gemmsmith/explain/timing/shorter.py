"""How far a product is shortened before it is executed: which K, and how many rows of C for persistent blocks."""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.call.launch_plan import LaunchPlan
from gemmsmith.explain.timing.sampled import Sample, Subject, issued, wraps
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.verify.code.kernel_edges import k_tile

MANY = 150_000  # instructions of the blocks of one SM
_UNIT = 64  # K is shortened by multiples of this
_LONGEST = 1024  # K that is executed to see a pipeline wrap
_MUCH = 100_000
_TOO_MUCH = 400_000  # for 64 of K: spills, for example. Two short K are then all that there is time for
_TILES = 4  # of a persistent block that are executed; more take as long each
_ROWS = 256  # by which rows of C are left out


class Shorter:
    """Chooses what a predictor executes. ``rows``: of C; ``longer``: how many times as long all of them take."""

    spec: KernelSpec
    problem: Problem
    plan: LaunchPlan
    subject: Subject
    blocks: int
    chosen: Sequence[int]
    rows: int
    longer: float
    _tried: Sample | None  # of a K that may turn out not to be needed

    def _depths(self) -> tuple[int, int]:
        """The two K that are executed; the problem's own where that is short, or the kernel has no K."""
        k, rest = self.problem.k, self.problem.k % _UNIT
        if not self.spec.signature.has("K"):
            return k, k
        low, high = 128, 256
        if k > high and self.subject.uses("UTMALDG"):
            low = self._longer_than_pipeline(low, rest)
            self._tried = self._tried or self.subject.sample(self._short(low + rest), self.chosen)
            # A full pipeline hides the start at first; where blocks run several tiles it stays full.
            if issued(self._tried) < MANY:
                low = max(low, 512 if self.spec.persistent else 1024)
            elif self.longer > 1:
                low = max(low, 256)
            high = 2 * low
        elif k > high:
            # Blocks drift apart at first, so that a k-tile seems to take less time.
            self._tried = self._tried or self.subject.sample(self._short(64 + rest), self.chosen)
            executed = issued(self._tried)
            low, high = (192, 320 if executed >= _MUCH else 384) if executed < _TOO_MUCH else (_UNIT, 2 * _UNIT)
            step = k_tile(self.spec, self.plan.kernel.config, self.subject.compiled, self.problem)
            if step > _UNIT:  # whole k-tiles: of a part of one, all of it may take its time
                rest, low = k % step, ceil_div(low, step) * step
                high = max(ceil_div(high, step) * step, low + step)
        return (k, k) if k <= high else (low + rest, high + rest)

    def _longer_than_pipeline(self, low: int, rest: int) -> int:
        """A K for which every stage of the pipeline is used: from the spec, else by executing more and more."""
        stages = self.plan.kernel.config.by_name.get("STAGES")
        if stages is not None:
            return max(low, ceil_div(stages, self.spec.stages_per_k_tile) * _UNIT)
        while low < _LONGEST and 2 * low < self.problem.k:
            self._tried = self.subject.sample(self._short(low + rest), self.chosen)
            if wraps(self._tried):
                break
            low *= 2
        return low

    def _fewer_tiles(self) -> tuple[int, float]:
        """Rows of C for which a persistent block has few tiles, and how many times as many it has with all rows."""
        tiles = self.plan.kernel.geometry.blocks
        each = ceil_div(tiles, self.blocks)
        rows = self.problem.m * _TILES // each // _ROWS * _ROWS
        if each <= _TILES or rows < _ROWS:
            return self.problem.m, 1.0
        fewer = self.spec.geometry(self.problem.with_(m=rows), self.plan.kernel.config).blocks
        return (rows, each / ceil_div(fewer, self.blocks)) if fewer >= self.blocks else (self.problem.m, 1.0)

    def _short(self, k: int) -> Problem:
        problem = self.problem.with_(m=self.rows) if self.rows < self.problem.m else self.problem
        if k == problem.k:
            return problem
        if self.spec.prologue is not None or self.spec.align_copies:
            return problem.with_(k=k)
        kept = {} if problem.trans_a else {"lda": problem.lda}
        if problem.trans_b:
            kept["ldb"] = problem.ldb
        return problem.with_(k=k, **kept)
