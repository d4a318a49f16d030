"""The rounds of a launch: each SM holds as many blocks as fit, and takes new ones as these end."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.explain.timing.prediction import Changes, RoundTime
from gemmsmith.explain.timing.sample_runs import SampleRuns
from gemmsmith.sim.timing.outcome import Outcome

_IN_STEP, _TO_DRIFT = 0.75, 0.15  # the busiest unit's share of the time: above the first blocks drift apart
_FEW = 0.1  # first touches below this share are left out
_STORING = 0.6  # of the time: outputs that leave for longer hide the k-tiles


class Rounds(SampleRuns):
    """Times the rounds: the line through two short K gives the time at the real one."""

    sms: int
    per_sm: int

    def _rounds(self, changes: Changes, all_stalls: bool = False) -> list[tuple[int, RoundTime]]:
        """How often each kind of round runs. Stalls take time: by default only those of most blocks are accounted."""
        if reads := self.rates.first_readers:
            share = sum(each.blocks for each in reads) / self.per_sm if changes.cold else 0.0
            every = self._timed(1, True, changes) if share > 1 - _FEW else self._part_cold(1, share, changes)
            return [(self.per_sm, every)]
        full, rest = divmod(self.per_sm, self.resident)
        warm = self._warm()
        kinds = [(1, self.resident, True), (full - 1, self.resident, not warm), (1 if rest else 0, rest, not warm)]
        most = 0 if all_stalls else max(times * size for times, size, _ in kinds)
        made = [(times, self._round(size, cold and changes.cold, changes, first=n == 0 and self.resident > 1,
                                    accounts=times * size >= most))
                for n, (times, size, cold) in enumerate(kinds) if times]  # fmt: skip
        left = self.blocks - (self.per_sm - 1) * self.sms
        if self.resident == 1 and self.per_sm > 1 and left < self.sms and self.samples[0].apart:
            # The last blocks run on few SMs, and share L2 with few.
            times, last = made[-1]
            made[-1:] = [(times - 1, last)] if times > 1 else []
            made.append((1, self._round(1, not warm and changes.cold, changes, left)))
        return made

    def _round(
        self, size: int, cold: bool, changes: Changes, busy: int = 0, first: bool = False, accounts: bool = True
    ) -> RoundTime:
        """Blocks that drift apart find in L2 what the first of them fetched; those in step all wait for DRAM.

        So do all blocks of the ``first`` round, which start together. ``busy``: SMs at work, 0 for all with blocks.
        """
        share = (1.0 if first else self.rates.first_touch(size)) if cold else 0.0
        if share >= 1:
            return self._timed(size, True, changes, busy, accounts)
        if cold:  # blocks of a kernel that waits most of the time stay in step
            hot = self._timed(size, False, changes, busy, accounts)
            share = max(share, min(1.0, (_IN_STEP - max(hot.outcome.busy.values())) / _TO_DRIFT))
        return self._part_cold(size, share, changes, busy, accounts)

    def _part_cold(self, size: int, share: float, changes: Changes, busy: int = 0, accounts: bool = True) -> RoundTime:
        """A round of which a ``share`` of all blocks waits for DRAM."""
        hot = self._timed(size, False, changes, busy, accounts)
        if share < _FEW:
            return hot
        far = self._timed(size, True, changes, busy, accounts=False)
        return replace(hot, cycles=hot.cycles + share * (far.cycles - hot.cycles))

    def _waits_for_dram(self, size: int) -> bool:
        """Whether blocks, ``size`` of them on an SM, wait for DRAM in most rounds."""
        if reads := self.rates.first_readers:
            return sum(each.blocks for each in reads) > self.per_sm / 2
        return self.rates.first_touch(size) >= 1

    def _timed(self, size: int, cold: bool, changes: Changes, busy: int = 0, accounts: bool = True) -> RoundTime:
        """``accounts``: whether the stalls are wanted, not only the time."""
        results = self._run_samples(size, cold, changes, busy, accounts)
        if self._waits_for_outputs(results[0], busy):
            # Outputs leave beside the k-tiles of the next tile: with few k-tiles the outputs take all the time.
            self._samples = [self.samples[-1], self._sampled(2 * self.samples[-1].k)]
            return self._timed(size, cold, changes, busy, accounts)
        low, high = results[0], results[-1]
        if len(results) == 1:
            return RoundTime(size, low.cycles * self.longer, low)
        # Short K may hide behind starts and epilogues; a deep one takes at least what its busiest unit needs.
        busiest = max(high.busy[unit] * high.cycles - low.busy[unit] * low.cycles for unit in high.busy)
        slope = max(high.cycles - low.cycles, busiest) / (self.samples[-1].k - self.samples[0].k)
        cycles = high.cycles + slope * (self.problem.k - self.samples[-1].k)
        return RoundTime(size, cycles * self.longer, high)

    def _waits_for_outputs(self, low: Outcome, busy: int) -> bool:
        """Whether stores by TMA take most of the time of the shorter sample, though the real K is deeper."""
        deeper = self.samples[0].k < self.samples[-1].k and 2 * self.samples[-1].k < self.problem.k
        if not (deeper and self.spec.persistent and self.subject.uses("UTMASTG")):
            return False
        rate = self.rates.sm(self.resident, self.samples[0].apart, busy).tma_store_bytes_cycle
        sms = len(set(self.samples[0].sm_of.values()))
        return low.stored_bytes / sms / rate > _STORING * low.cycles

    def _warm(self) -> bool:
        """Whether rounds after the first find A and B in L2."""
        problem = self.problem
        nbytes = (problem.m + problem.n) * problem.k * problem.dtype.itemsize
        return nbytes < self.rates.kept_bytes
