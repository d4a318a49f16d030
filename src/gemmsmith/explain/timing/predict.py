"""Predict the time of a product: every launch of it, from the cycle model of one SM.

A launch runs in rounds: each SM holds as many blocks as fit, and takes new ones as these end. The blocks of a round are
executed for two short K, the cycle model times both, and the line through them gives the time at the real K: k-tiles
are alike once the pipeline is full.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.call.launch_plan import PlannedLaunch, plan_launches
from gemmsmith.errors import UnsupportedError
from gemmsmith.explain.timing.clock import Activity, clock_mhz
from gemmsmith.explain.timing.collection import collection_paused
from gemmsmith.explain.timing.prediction import Changes, LaunchTime, Predicted, RoundTime, bound_of, kind_of, longest_of
from gemmsmith.explain.timing.rates import Rates, usable_sms
from gemmsmith.explain.timing.rounds import Rounds
from gemmsmith.explain.timing.sample_runs import NO_CHANGES, RunKey
from gemmsmith.explain.timing.sampled import Sample, Subject, issued, times_issued
from gemmsmith.explain.timing.shorter import MANY
from gemmsmith.explain.timing.working_blocks import BlockKind, kinds_of_blocks
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import GpuParameters, SmParameters, errors_of, parameters_of
from gemmsmith.sim.timing.table import WARP_PRODUCTS, WARPGROUP_PRODUCTS, Row, tensor_flops
from gemmsmith.sim.timing.watched import Issued, WatchedSm

_ALIGNED = Addresses(1 << 20, 2 << 20, 3 << 20)
_ENOUGH = 40_000  # from here on start and end count little
_SHOWN = 256  # K of a block that is drawn
_L2, _BOUND = "L2 to SM", 0.85  # the share of the time from which L2 bounds it
_FEW_K = 64  # of blocks that are executed to see whether they end at once


class Predictor(Rounds):
    """Predicts one product on one GPU. What was executed is kept, so that what-ifs run the cycle model alone."""

    def __init__(self, spec: KernelSpec, config: Config, problem: Problem, gpu: GPU,
                 model: GpuParameters | None = None, kind: BlockKind | None = None) -> None:  # fmt: skip
        """``kind``: the blocks that are predicted, if the grid has others."""
        if getattr(spec.geometry, "guesses_smem", lambda _: False)(problem):
            raise UnsupportedError("how many blocks an SM holds is not known, since the bytes of dynamic shared memory "
                                   "are not: --smem gives them")  # fmt: skip
        self.spec, self.problem, self.gpu = spec, problem, gpu
        self.model = model or parameters_of(gpu)
        self.arch = f"sm_{gpu.arch}a" if spec.arch_specific == gpu.arch else f"sm_{gpu.arch}"
        self.plan = plan_launches(spec, config, problem, _ALIGNED)
        self.subject = Subject(self.plan.kernel, gpu, self.arch)
        geometry = self.plan.kernel.geometry
        self.sms = usable_sms(gpu, self.model, self.subject.together)
        held = max(1, self.subject.held.blocks_per_sm)
        self.blocks = min(geometry.blocks, self.sms * held) if spec.persistent else geometry.blocks
        self.rows, self.longer = problem.m, 1.0
        kinds = [kind] if kind else []
        plain = not spec.is_rung and not spec.persistent and self.subject.together == 1
        if not kind and plain and spec.signature.has("K"):
            short = self._short(min(_FEW_K + problem.k % _FEW_K, problem.k))
            kinds = kinds_of_blocks(self.subject, short, self.sms)
        mine, *others = kinds or [BlockKind(self.blocks, range(self.blocks))]
        self.blocks = mine.blocks
        self.others = [Predictor(spec, config, problem, gpu, model, each) for each in others]
        self.per_sm = ceil_div(self.blocks, self.sms)
        self.resident = min(held, self.per_sm)
        self.chosen = mine.on_one_sm(self.sms, self.resident)
        self.shares_tiles = spec.persistent and spec.workspace is not None and self.plan.workspace_bytes > 0
        if self.shares_tiles:
            # Blocks that share tiles wait for those that start before them: the last for most, the first for none.
            self.chosen = [self.blocks - self.subject.together]
        if spec.persistent and not self.shares_tiles:
            self.rows, self.longer = self._fewer_tiles()
        # With one block on an SM nothing hides its waits. Clusters and persistent blocks have an order of their own.
        alone = self.resident == 1 and self.subject.together == 1 and not spec.persistent
        self.rates = Rates(self.plan.kernel, problem, gpu, self.model, self.blocks, self.sms, self.subject.together,
                           bool(kinds), alone)  # fmt: skip
        self._senders: dict[int, Sample] = {}
        self._sent: dict[tuple[int, SmParameters, Memory], float] = {}  # when the first block had stored its sums
        self._samples: list[Sample] = []
        self._tried: Sample | None = None  # of a K that may turn out not to be needed
        self._known: dict[RunKey, Outcome] = {}
        self._known_rows: dict[SmParameters, list[Row | None]] = {}

    def adopt(self, other: Predictor) -> bool:
        """Take what another size of the same kernel executed, if it holds as many blocks and shortens K alike.

        Not if a shorter K executes as much: the kernel loops over something else, such as a row's stride.
        """
        mine, theirs = self.plan.kernel, other.plan.kernel
        for one, another in zip(self.others, other.others, strict=False):
            one.adopt(another)
        same = (mine.spec, mine.config, mine.geometry.smem) == (theirs.spec, theirs.config, theirs.geometry.smem)
        alike = self.resident == other.resident and self._depths() == other._depths()
        if self.spec.persistent or not same or not alike:
            return False
        low, high = other.samples[0], other.samples[-1]
        if low.k < high.k and issued(low) >= issued(high):
            return False
        self.chosen, self._samples = other.chosen, other.samples
        self._known = other._known
        return True

    @collection_paused()
    def predict(self, changes: Changes = NO_CHANGES, mhz: float = 0.0) -> Predicted:
        """The time; ``mhz``: the clock if it is known, else it follows from the energy of the work."""
        rounds = self._all_rounds(changes)
        if not longest_of(rounds).outcome.accounted:
            rounds = self._all_rounds(changes, all_stalls=True)
        cycles = sum(times * each.cycles for times, each in rounds)
        clusters = self.subject.together > 1
        between = self.model.turnover + (self.model.cluster_turnover if clusters else 0.0)
        cycles += between * (sum(times for times, _ in rounds) - 1)
        outcome = longest_of(rounds).outcome
        dram_us = self._bus_bytes() / (self.gpu.dram_gbs * self.model.dram_share * 1e3)
        least_us, of_sm = dram_us, cycles
        if outcome.busy.get(_L2, 0.0) > _BOUND:  # L2 has a clock of its own; its rates are those at the SMs' highest
            least_us = max(least_us, cycles / self.gpu.boost_mhz)
            of_sm = cycles * max(share for unit, share in outcome.busy.items() if unit != _L2)
        clock = mhz or self._clock(rounds, cycles, of_sm, least_us)
        kernel_us = max(of_sm / clock, least_us) + self.model.launch_us + self.model.drain_us
        kernel_us += self.model.cluster_launch_us if clusters else 0.0
        blocks = self.blocks + sum(other.blocks for other in self.others)
        if blocks > self.sms * self.resident:
            kernel_us = max(kernel_us, self.model.launch_us + blocks * self.model.block_us)
        before = [*self.plan.prologue, *self.plan.fallback]
        if self._depends_on(before):
            kernel_us -= self.model.launch_us + self.model.drain_us - self.model.dependent_us
        main = LaunchTime(self.spec.name, blocks, self.resident, cycles, kernel_us, tuple(rounds))
        others = [self._prologue(each, clock) for each in self.plan.prologue]
        others += [LaunchTime(e.spec.name, e.geometry.blocks, 0, 0.0,
                              self.model.launch_us + 0.5 if e.geometry.pdl else self.model.returned_us)
                   for e in self.plan.fallback]  # fmt: skip
        us = sum(each.us for each in (*others, main))
        low, high = errors_of(kind_of(self.program), self.gpu)
        bound = "DRAM" if dram_us >= max(of_sm / clock, least_us) else bound_of(outcome)
        return Predicted(self.spec.name, self.gpu.name, us, us * low, us * high, clock, (*others, main), bound,
                         tuple(outcome.busy.items()))  # fmt: skip

    def _all_rounds(self, changes: Changes, all_stalls: bool = False) -> list[tuple[int, RoundTime]]:
        """The rounds of all kinds of blocks."""
        return [each for one in (self, *self.others) for each in one._rounds(changes, all_stalls)]

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
        cold = self._waits_for_dram(len(together)) or turn == 0
        model = self.rates.sm(len(together), sample.apart)
        sm = WatchedSm(self._rows(model), sample.streams, model,
                       self._memory(len(together), cold, NO_CHANGES, sample.workspace), sample.sm_of)  # fmt: skip
        sm.run()
        return sample, sm.log

    # -- clock and other launches -----------------------------------------------------------------

    def _clock(self, rounds: Sequence[tuple[int, RoundTime]], cycles: float, of_sm: float, least_us: float) -> float:
        """``of_sm``: cycles that the SMs need if nothing else bounds them; ``least_us``: what L2 and DRAM need."""
        gpu = self.gpu
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
            l2_bytes=outcome.l2_bytes * scale * times, dram_bytes=self._dram_bytes(),
        )  # fmt: skip
        return clock_mhz(gpu, self.model, activity, of_sm, least_us)

    def _dram_bytes(self) -> float:
        """What DRAM gives and takes: every operand once, and what L2 does not keep until it is read again."""
        alike = not self.spec.persistent and self.subject.together == 1
        return self.problem.compulsory_bytes + (self.rates.evicted_bytes(self.resident) if alike else 0.0)

    def _bus_bytes(self) -> float:
        """What crosses the bus of DRAM: the same, or more where blocks that run alone read anew what L2 has lost."""
        problem = self.problem
        stored = problem.batch * problem.m * problem.n * problem.out_dtype.itemsize
        return max(self._dram_bytes(), self.rates.read_bytes() + stored)

    def _tensor_flops(self, opcodes: Sequence[str]) -> float:
        """FLOPs that the launch has its tensor cores do: of the blocks that were executed, along the line through K."""
        others = sum(other._tensor_flops(opcodes) for other in self.others)
        each = {n: tensor_flops(i) for n, i in enumerate(self.program.instructions) if i.opcode in opcodes}
        if not each:
            return 0.0
        low, high = (
            sum(each.get(p, 0) * times for p, times in times_issued(sample).items()) / len(sample.sm_of)
            for sample in (self.samples[0], self.samples[-1])
        )
        deeper = self.problem.k - self.samples[-1].k
        slope = (high - low) / (self.samples[-1].k - self.samples[0].k) if deeper else 0.0
        return (high + slope * deeper) * self.longer * self.blocks + others

    def _depends_on(self, before: Sequence[PlannedLaunch]) -> bool:
        """Whether the kernel's blocks are there when the launch before ends: PDL, and that launch is not too short."""
        last = before[-1].spec.name if before else ""
        return self.plan.kernel.geometry.pdl and self.gpu.arch >= 90 and last not in ("", "zero_workspace")

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
        us += self.model.line_reduction_us if "fp16" in launch.spec.name else 0.0
        return LaunchTime(launch.spec.name, launch.geometry.blocks, 0, us * clock, us)


def predict(spec: KernelSpec, config: Config, problem: Problem, gpu: GPU, mhz: float = 0.0) -> Predicted:
    """The predicted time of a product."""
    return Predictor(spec, config, problem, gpu).predict(mhz=mhz)
