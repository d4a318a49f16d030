"""Runs of the cycle model: the blocks of one SM at two short K, each combination of circumstances once."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.explain.timing.prediction import Changes
from gemmsmith.explain.timing.rates import Rates
from gemmsmith.explain.timing.sampled import Sample, only, times_issued
from gemmsmith.explain.timing.shorter import Shorter
from gemmsmith.gpus import GPU
from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import GpuParameters, SmParameters
from gemmsmith.sim.timing.shared_start import run_both
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.table import Row, rows_of

NO_CHANGES = Changes()
RunKey = tuple[int, int, bool, SmParameters]  # K, blocks, whether data come from DRAM, and parameters of a run


class SampleRuns(Shorter):
    """Executes the blocks of an SM and runs the cycle model on them; keeps what it found."""

    model: GpuParameters
    gpu: GPU
    rates: Rates
    resident: int
    shares_tiles: bool
    _senders: dict[int, Sample]
    _sent: dict[tuple[int, SmParameters, Memory], float]  # when the first block had stored its sums
    _samples: list[Sample]
    _known: dict[RunKey, Outcome]
    _known_rows: dict[SmParameters, list[Row | None]]

    @property
    def program(self) -> MachineProgram:
        return self.subject.program

    @property
    def samples(self) -> list[Sample]:
        if not self._samples:
            depths = list(dict.fromkeys(self._depths()))
            if self.shares_tiles:
                self._choose_slower(depths[0])
            self._samples = [self._sampled(k) for k in depths]
            low, high = self._samples[0], self._samples[-1]
            deeper = 3 * high.k - 2 * low.k
            if self.spec.persistent and self._stores(low) != self._stores(high) and deeper < self.problem.k:
                # Shares of K that end in another tile: one of these is not on the line.
                self._samples = [high, self._sampled(deeper)]
        return self._samples

    def _choose_slower(self, k: int) -> None:
        """Of the last cluster, which waits for most, and one in the middle, which sends and receives partial sums."""
        together = self.subject.together
        middle = self.blocks // together // 2 * together
        found = []
        tried = list(dict.fromkeys((self.chosen[0], middle)))
        *samples, self._senders[k] = self.subject.samples(self._short(k), [*([block] for block in tried), [0]])
        for block, sample in zip(tried, samples, strict=True):
            model = self.rates.sm(self.resident, sample.apart)
            memory = self._after_sender(sample, model, self._memory(self.resident, False, NO_CHANGES, sample.workspace))
            sm = Sm(self._rows(model), sample.streams, model, memory, sample.sm_of)
            sm.accounts = False
            found.append((sm.run().cycles, block, sample))
        _, block, self._tried = max(found, key=lambda each: each[0])
        self.chosen = [block]

    def _rows(self, model: SmParameters) -> list[Row | None]:
        if model not in self._known_rows:
            self._known_rows[model] = rows_of(self.program, model)
        return self._known_rows[model]

    def _stores(self, sample: Sample) -> int:
        code = self.program.instructions
        return sum(times for p, times in times_issued(sample).items() if code[p].opcode == "STG")

    def _sampled(self, k: int) -> Sample:
        if self._tried and self._tried.k == k:
            return self._tried
        if not self.shares_tiles:
            return self.subject.sample(self._short(k), self.chosen)
        sample, self._senders[k] = self.subject.samples(self._short(k), [self.chosen, [0]])
        return sample

    def _run_samples(self, size: int, cold: bool, changes: Changes, busy: int, accounts: bool) -> list[Outcome]:
        """``accounts``: whether the stalls of the longer sample are wanted."""
        keys = [self._key(sample, size, cold, changes, busy) for sample in self.samples]
        wanted = [accounts and sample is self.samples[-1] for sample in self.samples]
        if len(keys) == 2 and changes == NO_CHANGES and not any(map(self._knows, keys, wanted)):
            low, high = (self._sm(sample, size, cold, changes, busy) for sample in self.samples)
            low.accounts = high.accounts = accounts
            self._known.update(zip(keys, run_both(low, high, stalls_of_shorter=False), strict=True))
        return [self._run(sample, size, cold, changes, busy, stalls)
                for sample, stalls in zip(self.samples, wanted, strict=True)]  # fmt: skip

    def _knows(self, key: RunKey, accounts: bool) -> bool:
        found = self._known.get(key)
        return found is not None and (found.accounted or not accounts)

    def _run(
        self, sample: Sample, size: int, cold: bool, changes: Changes, busy: int = 0, accounts: bool = True
    ) -> Outcome:
        key = self._key(sample, size, cold, changes, busy)
        if changes == NO_CHANGES and self._knows(key, accounts):
            return self._known[key]
        sm = self._sm(sample, size, cold, changes, busy)
        sm.accounts = accounts
        found = sm.run()
        if changes == NO_CHANGES:
            self._known[key] = found
        return found

    def _key(self, sample: Sample, size: int, cold: bool, changes: Changes, busy: int) -> RunKey:
        return sample.k, size, cold, replace(self.rates.sm(size, self.samples[0].apart, busy), **changes.sm)

    def _sm(self, sample: Sample, size: int, cold: bool, changes: Changes, busy: int = 0) -> Sm:
        """The SM, or the SMs of a cluster, that run a sample's blocks."""
        _, _, _, model = self._key(sample, size, cold, changes, busy)
        memory = self._memory(size, cold, changes, sample.workspace)
        if self.shares_tiles:
            memory = self._after_sender(sample, model, memory)
        first = set(self.chosen[:size])
        numbers = {b: sm for b, sm in sample.sm_of.items() if sample.cluster_of[b] in first}
        streams = [s for s in sample.streams if s.block in numbers]
        if changes.dropped is not None:
            left = {n for n, i in enumerate(self.program.instructions) if not changes.dropped(i)}
            streams = [only(s, left) for s in streams]
        return Sm(self._rows(model), streams, model, memory, numbers)

    def _after_sender(self, sample: Sample, model: SmParameters, memory: Memory) -> Memory:
        """The same with partial sums of other blocks there from when the first block, which only sends, stored its."""
        if sample.k not in self._senders:
            self._senders[sample.k] = self.subject.sample(self._short(sample.k), [0])
        sender = self._senders[sample.k]
        mine = replace(memory, near=sender.workspace)
        key = sample.k, model, mine
        if key not in self._sent:
            sm = Sm(self._rows(model), sender.streams, model, mine, sender.sm_of)
            sm.accounts = False
            self._sent[key] = sm.left_at()
        return replace(memory, near_from=self._sent[key])

    def _memory(self, size: int, cold: bool, changes: Changes, near: tuple[int, int]) -> Memory:
        geometry = self.plan.kernel.geometry
        smem = (geometry.smem + self.subject.compiled.resources.static_smem + self.gpu.reserved_smem_per_block) * size
        return Memory(cold, max(64, (self.model.sm.l1_bytes - smem) // 128), changes.conflicts, changes.coalesced,
                      near)  # fmt: skip
