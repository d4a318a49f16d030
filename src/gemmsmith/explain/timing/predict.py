"""Predict the time of a product: every launch of it, from the cycle model of one SM.

A launch runs in rounds: each SM holds as many blocks as fit, and takes new ones as these end. The blocks of a round are
executed for two short K, the cycle model times both, and the line through them gives the time at the real K: k-tiles
are alike once the pipeline is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from gemmsmith.call.launch_plan import PlannedLaunch, plan_launches
from gemmsmith.explain.timing.clock import Activity, clock_mhz
from gemmsmith.explain.timing.prediction import Changes, LaunchTime, Predicted, RoundTime, bound_of, kind_of
from gemmsmith.explain.timing.rates import Rates, usable_sms
from gemmsmith.explain.timing.sampled import Sample, Subject, issued, only, times_issued
from gemmsmith.explain.timing.shorter import MANY, Shorter
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import GpuParameters, SmParameters, errors_of, parameters_of
from gemmsmith.sim.timing.shared_start import run_both
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.table import WARP_PRODUCTS, WARPGROUP_PRODUCTS, Row, rows_of, tensor_flops
from gemmsmith.sim.timing.watched import Issued, WatchedSm

_ALIGNED = Addresses(1 << 20, 2 << 20, 3 << 20)
_IN_STEP, _TO_DRIFT = 0.75, 0.15  # the busiest unit's share of the time: above the first blocks drift apart
_ENOUGH = 40_000  # from here on start and end count little
_SHOWN = 256  # K of a block that is drawn
_FEW = 0.1  # first touches below this share are left out
_STORING = 0.6  # of the time: outputs that leave for longer hide the k-tiles
_FITS_L2 = 0.7  # of L2 that A and B may take so that later rounds find them there
_NONE = Changes()
_Key = tuple[int, int, bool, SmParameters]  # K, blocks, whether data come from DRAM, and parameters of a run


class Predictor(Shorter):
    """Predicts one product on one GPU. What was executed is kept, so that what-ifs run the cycle model alone."""

    def __init__(self, spec: KernelSpec, config: Config, problem: Problem, gpu: GPU,
                 model: GpuParameters | None = None) -> None:  # fmt: skip
        self.spec, self.problem, self.gpu = spec, problem, gpu
        self.model = model or parameters_of(gpu)
        self.arch = f"sm_{gpu.arch}a" if spec.arch_specific == gpu.arch else f"sm_{gpu.arch}"
        self.plan = plan_launches(spec, config, problem, _ALIGNED)
        self.subject = Subject(self.plan.kernel, gpu, self.arch)
        geometry = self.plan.kernel.geometry
        self.sms = usable_sms(gpu, self.model, self.subject.together)
        held = max(1, self.subject.held.blocks_per_sm)
        self.blocks = min(geometry.blocks, self.sms * held) if spec.persistent else geometry.blocks
        self.per_sm = ceil_div(self.blocks, self.sms)
        self.resident = min(held, self.per_sm)
        self.chosen = list(range(0, self.blocks, self.sms))[: self.resident]
        self.shares_tiles = spec.persistent and spec.workspace is not None and self.plan.workspace_bytes > 0
        if self.shares_tiles:
            # Blocks that share tiles wait for those that start before them: the last for most, the first for none.
            self.chosen = [self.blocks - self.subject.together]
        self.rows, self.longer = problem.m, 1.0
        if spec.persistent and not self.shares_tiles:
            self.rows, self.longer = self._fewer_tiles()
        self.rates = Rates(self.plan.kernel, problem, gpu, self.model, self.blocks, self.sms, self.subject.together,
                           self.subject.uses("LDGSTS"))  # fmt: skip
        self._senders: dict[int, Sample] = {}
        self._sent: dict[tuple[int, SmParameters, Memory], float] = {}  # when the first block had stored its sums
        self._samples: list[Sample] = []
        self._tried: Sample | None = None  # of a K that may turn out not to be needed
        self._known: dict[_Key, Outcome] = {}
        self._without_stalls: dict[_Key, Outcome] = {}
        self._known_rows: dict[SmParameters, list[Row | None]] = {}

    def adopt(self, other: Predictor) -> bool:
        """Take what another size of the same kernel executed, if it holds as many blocks and shortens K alike.

        Not if a shorter K executes as much: the kernel loops over something else, such as a row's stride.
        """
        mine, theirs = self.plan.kernel, other.plan.kernel
        same = (mine.spec, mine.config, mine.geometry.smem) == (theirs.spec, theirs.config, theirs.geometry.smem)
        alike = self.resident == other.resident and self._depths() == other._depths()
        if self.spec.persistent or not same or not alike:
            return False
        low, high = other.samples[0], other.samples[-1]
        if low.k < high.k and issued(low) >= issued(high):
            return False
        self.chosen, self._samples = other.chosen, other.samples
        self._known, self._without_stalls = other._known, other._without_stalls
        return True

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
            memory = self._after_sender(sample, model, self._memory(self.resident, False, _NONE, sample.workspace))
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

    def predict(self, changes: Changes = _NONE, mhz: float = 0.0) -> Predicted:
        """The time; ``mhz``: the clock if it is known, else it follows from the energy of the work."""
        rounds = self._rounds(changes)
        cycles = sum(times * each.cycles for times, each in rounds)
        clusters = self.subject.together > 1
        between = self.model.turnover + (self.model.cluster_turnover if clusters else 0.0)
        cycles += between * (sum(times for times, _ in rounds) - 1)
        clock = mhz or self._clock(rounds, cycles)
        dram_us = self.problem.compulsory_bytes / (self.gpu.dram_gbs * self.model.dram_share * 1e3)
        kernel_us = max(cycles / clock, dram_us) + self.model.launch_us + self.model.drain_us
        kernel_us += self.model.cluster_launch_us if clusters else 0.0
        if self.blocks > self.sms * self.resident:
            kernel_us = max(kernel_us, self.model.launch_us + self.blocks * self.model.block_us)
        main = LaunchTime(self.spec.name, self.blocks, self.resident, cycles, kernel_us, tuple(rounds))
        others = [self._prologue(each, clock) for each in self.plan.prologue]
        others += [LaunchTime(e.spec.name, e.geometry.blocks, 0, 0.0, self.model.launch_us + 0.5)
                   for e in self.plan.fallback]  # fmt: skip
        us = sum(each.us for each in (*others, main))
        outcome = max(rounds, key=lambda item: item[0] * item[1].cycles)[1].outcome
        low, high = errors_of(kind_of(self.program), self.gpu)
        bound = "DRAM" if dram_us > cycles / clock else bound_of(outcome)
        return Predicted(self.spec.name, self.gpu.name, us, us * low, us * high, clock, (*others, main), bound,
                         tuple(outcome.busy.items()))  # fmt: skip

    @property
    def filled(self) -> float:
        """The share of the places for blocks that the grid fills, over all rounds."""
        return self.blocks / (self.per_sm * self.sms)

    def once(self, changes: Changes, accounts: bool = True) -> Outcome:
        """The most frequent round alone, without what ``changes`` take away.

        At the shortest K that was executed which has so many instructions that start and end count little.
        ``accounts``: whether stalls are wanted.
        """
        cold = changes.cold and self._waits_for_dram(self.resident)
        tried = [self._tried] if self._tried is not None and not self.subject.uses("UTMALDG") else []
        least = MANY if self.subject.uses("UTMALDG") else _ENOUGH
        known = [*tried, *self.samples]
        sample = next((each for each in known if issued(each) >= least), known[-1])
        return self._run(sample, self.resident, cold, changes, accounts=accounts)

    def watched(self, block: int, depth: int = 0) -> tuple[Sample, list[Issued]]:
        """Run the blocks that share an SM with ``block``; what issued, as the warps of the sample's streams."""
        lane, turn = block % self.sms, block // self.sms // self.resident
        together = list(range(lane, self.blocks, self.sms))[turn * self.resident :][: self.resident]
        depth = depth or (self._depths()[-1] if self.subject.uses("UTMALDG") else _SHOWN)
        k = min(depth, self.problem.k)
        sample = self.subject.sample(self._short(k), together)
        cold = self._waits_for_dram(len(together)) or (turn == 0 and self._warm())
        model = self.rates.sm(len(together), sample.apart)
        sm = WatchedSm(self._rows(model), sample.streams, model,
                       self._memory(len(together), cold, _NONE, sample.workspace), sample.sm_of)  # fmt: skip
        sm.run()
        return sample, sm.log

    # -- rounds -----------------------------------------------------------------------------------

    def _rounds(self, changes: Changes) -> list[tuple[int, RoundTime]]:
        if self.first_readers:
            share = sum(self.first_readers) / self.per_sm if changes.cold else 0.0
            every = self._timed(1, True, changes) if share > 1 - _FEW else self._part_cold(1, share, changes)
            return [(self.per_sm, every)]
        full, rest = divmod(self.per_sm, self.resident)
        warm = self._warm()
        kinds = [(1, self.resident, True), (full - 1, self.resident, False)] if warm else [(full, self.resident, True)]
        if rest:
            kinds.append((1, rest, not warm))
        made = [(times, self._round(size, cold and changes.cold, changes)) for times, size, cold in kinds if times]
        left = self.blocks - (self.per_sm - 1) * self.sms
        if self.resident == 1 and self.per_sm > 1 and left < self.sms and self.samples[0].apart:
            # The last blocks run on few SMs, and share L2 with few.
            times, last = made[-1]
            made[-1:] = [(times - 1, last)] if times > 1 else []
            made.append((1, self._round(1, not warm and changes.cold, changes, left)))
        return made

    def _round(self, size: int, cold: bool, changes: Changes, busy: int = 0) -> RoundTime:
        """Blocks that drift apart find in L2 what the first of them fetched; those in step all wait for DRAM.

        ``busy``: SMs at work, 0 for all that have blocks.
        """
        share = self.rates.first_touch(size) if cold else 0.0
        if share >= 1:
            return self._timed(size, True, changes, busy)
        if cold:  # blocks of a kernel that waits most of the time stay in step
            hot = self._timed(size, False, changes, busy)
            share = max(share, min(1.0, (_IN_STEP - max(hot.outcome.busy.values())) / _TO_DRIFT))
        return self._part_cold(size, share, changes, busy)

    def _part_cold(self, size: int, share: float, changes: Changes, busy: int = 0) -> RoundTime:
        """A round of which a ``share`` of all blocks waits for DRAM."""
        hot = self._timed(size, False, changes, busy)
        if share < _FEW:
            return hot
        far = self._timed(size, True, changes, busy, accounts=False)
        return replace(hot, cycles=hot.cycles + share * (far.cycles - hot.cycles))

    @cached_property
    def first_readers(self) -> list[float]:
        """Of each round the share of blocks that wait for DRAM, where an SM holds one block: nothing hides its wait.

        Empty for other launches, and for clusters and persistent blocks, whose order is their own.
        """
        alone = self.resident == 1 and self.subject.together == 1 and not self.spec.persistent
        return self.rates.first_readers(1) if alone else []

    def _waits_for_dram(self, size: int) -> bool:
        """Whether blocks, ``size`` of them on an SM, wait for DRAM in most rounds."""
        if self.first_readers:
            return sum(self.first_readers) > self.per_sm / 2
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

    def _run_samples(self, size: int, cold: bool, changes: Changes, busy: int, accounts: bool) -> list[Outcome]:
        known = self._known if accounts else self._without_stalls
        keys = [self._key(sample, size, cold, changes, busy) for sample in self.samples]
        if len(keys) == 2 and changes == _NONE and not any(key in known for key in keys):
            low, high = (self._sm(sample, size, cold, changes, busy) for sample in self.samples)
            low.accounts = high.accounts = accounts
            known.update(zip(keys, run_both(low, high, stalls_of_shorter=False), strict=True))
        return [self._run(sample, size, cold, changes, busy, accounts) for sample in self.samples]

    def _run(
        self, sample: Sample, size: int, cold: bool, changes: Changes, busy: int = 0, accounts: bool = True
    ) -> Outcome:
        key, known = self._key(sample, size, cold, changes, busy), self._known if accounts else self._without_stalls
        if changes == _NONE and key in known:
            return known[key]
        if changes == _NONE and key in self._known:  # with stalls, which do not harm
            return self._known[key]
        sm = self._sm(sample, size, cold, changes, busy)
        sm.accounts = accounts
        found = sm.run()
        if changes == _NONE:
            known[key] = found
        return found

    def _key(self, sample: Sample, size: int, cold: bool, changes: Changes, busy: int) -> _Key:
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

    def _warm(self) -> bool:
        """Whether rounds after the first find A and B in L2."""
        problem = self.problem
        nbytes = (problem.m + problem.n) * problem.k * problem.dtype.itemsize
        return nbytes < _FITS_L2 * self.gpu.l2_bytes

    # -- clock and other launches -----------------------------------------------------------------

    def _clock(self, rounds: Sequence[tuple[int, RoundTime]], cycles: float) -> float:
        gpu, problem = self.gpu, self.problem
        if not self.model.base_watts:
            return float(gpu.boost_mhz)
        outcome = rounds[0][1].outcome
        scale = self.gpu.sms / (len(set(self.samples[-1].sm_of.values())) or 1)
        times = cycles / outcome.cycles if outcome.cycles else 0.0
        opcodes: dict[str, float] = {}
        for position, tally in outcome.stalls.items():
            name = self.program.instructions[position].opcode
            opcodes[name] = opcodes.get(name, 0.0) + tally[0]
        activity = Activity(
            gmma_flops=self._tensor_flops(WARPGROUP_PRODUCTS), mma_flops=self._tensor_flops(WARP_PRODUCTS),
            ffma_flops=64.0 * scale * times * sum(opcodes.get(n, 0.0) for n in ("FFMA", "FADD", "FMUL")),
            instructions=outcome.issued * scale * times, shared_bytes=128 * outcome.data_cycles * scale * times,
            l2_bytes=outcome.l2_bytes * scale * times, dram_bytes=float(problem.compulsory_bytes),
        )  # fmt: skip
        return clock_mhz(gpu, self.model, activity, cycles)

    def _tensor_flops(self, opcodes: Sequence[str]) -> float:
        """FLOPs that the launch has its tensor cores do: of the blocks that were executed, along the line through K."""
        each = {n: tensor_flops(i) for n, i in enumerate(self.program.instructions) if i.opcode in opcodes}
        if not each:
            return 0.0
        low, high = (
            sum(each.get(p, 0) * times for p, times in times_issued(sample).items()) / len(sample.sm_of)
            for sample in (self.samples[0], self.samples[-1])
        )
        deeper = self.problem.k - self.samples[-1].k
        slope = (high - low) / (self.samples[-1].k - self.samples[0].k) if deeper else 0.0
        return (high + slope * deeper) * self.longer * self.blocks

    def _prologue(self, launch: PlannedLaunch, clock: float) -> LaunchTime:
        """Launches before the kernel read and write operands once: by bandwidth."""
        nbytes = 0.0
        if launch.spec.name != "zero_workspace":
            copies = 3 if "bf16" in launch.spec.name else 2 if "fp16" in launch.spec.name else 1
            width = self.problem.dtype.itemsize
            nbytes = (
                (self.problem.m + self.problem.n) * self.problem.k * (width + (2 * copies if copies > 1 else width))
            )
        us = self.model.launch_us + 1.0 + nbytes / (0.8 * self.gpu.dram_gbs * self.model.dram_share * 1e3)
        return LaunchTime(launch.spec.name, launch.geometry.blocks, 0, us * clock, us)


def predict(spec: KernelSpec, config: Config, problem: Problem, gpu: GPU, mhz: float = 0.0) -> Predicted:
    """The predicted time of a product."""
    return Predictor(spec, config, problem, gpu).predict(mhz=mhz)
