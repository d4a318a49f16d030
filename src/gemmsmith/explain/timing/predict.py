"""Predict the time of a product: every launch of it, from the cycle model of one SM.

A launch runs in rounds: each SM holds as many blocks as fit, and takes new ones as these end. The blocks of a round are
executed for two short K, the cycle model times both, and the line through them gives the time at the real K: k-tiles are
alike once the pipeline is full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from gemmsmith.call.launch_plan import PlannedLaunch, plan_launches
from gemmsmith.explain.timing.sampled import Sample, Subject
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.sm import Memory, Outcome, Sm
from gemmsmith.sim.timing.table import rows_of

_ALIGNED = Addresses(1 << 20, 2 << 20, 3 << 20)


@dataclass(frozen=True)
class GpuParameters:
    """What the whole GPU does; an SM is in ``sm``."""

    sm: SmParameters = SmParameters()
    launch_us: float = 0.63
    turnover: float = 330.0  # cycles between the end of a block and the start of the next one in its place
    dram_gbs: float = 4540.0
    l2_bytes: int = 62_914_560


@dataclass(frozen=True)
class RoundTime:
    """One round of blocks: cycles at the short K and at the long one, and what they come to at the real one."""

    blocks: int
    short: float
    long: float
    cycles: float
    outcome: Outcome


@dataclass(frozen=True)
class LaunchTime:
    """The time of one launch; ``rounds`` are how often the full round runs, and the last one with fewer blocks."""

    kernel: str
    blocks: int
    resident: int
    cycles: float
    rounds: tuple[tuple[int, RoundTime], ...]
    dram_bytes: float
    l2_bytes: float
    us: float


@dataclass(frozen=True)
class Predicted:
    """The time of a product."""

    us: float
    mhz: float
    launches: tuple[LaunchTime, ...]


def depths(spec: KernelSpec, problem: Problem) -> tuple[int, int]:
    """The two K that are executed; equal to the problem's where that is short."""
    unit = 256 if spec.arch_specific else 64
    low, high = 2 * unit, 4 * unit
    if spec.arch_specific:
        low, high = 512, 1024
    if problem.k <= high:
        return problem.k, problem.k
    rest = problem.k % unit
    return low + rest, high + rest


class Predictor:
    """Predicts one product on one GPU; keeps what it executed."""

    def __init__(self, spec: KernelSpec, config: Config, problem: Problem, gpu: GPU, model: GpuParameters) -> None:
        self.spec, self.config, self.problem, self.gpu, self.model = spec, config, problem, gpu, model
        self.arch = f"sm_{gpu.arch}a" if spec.arch_specific == gpu.arch else f"sm_{gpu.arch}"
        self.plan = plan_launches(spec, config, problem, _ALIGNED)

    def predict(self, mhz: float) -> Predicted:
        launches = [self._prologue(each, mhz) for each in self.plan.prologue]
        launches += [self._idle(each) for each in self.plan.fallback]
        launches.append(self._kernel(mhz))
        return Predicted(sum(each.us for each in launches), mhz, tuple(launches))

    def _idle(self, launch: PlannedLaunch) -> LaunchTime:
        """A launch that finds that it is not needed."""
        return LaunchTime(launch.spec.name, launch.geometry.blocks, 0, 0.0, (), 0, 0, self.model.launch_us + 0.5)

    def _prologue(self, launch: PlannedLaunch, mhz: float) -> LaunchTime:
        nbytes = 0.0
        if "split" in launch.spec.name:
            copies = 3 if "bf16" in launch.spec.name else 2
            one = (self.problem.m + self.problem.n) * self.problem.k
            nbytes = one * (4 + 2 * copies)
        us = self.model.launch_us + 1.5 * (nbytes > 0) + nbytes / (0.8 * self.model.dram_gbs * 1e3)
        return LaunchTime(launch.spec.name, launch.geometry.blocks, 0, us * mhz, (), nbytes, nbytes, us)

    def _kernel(self, mhz: float) -> LaunchTime:
        spec, problem, model = self.spec, self.problem, self.model
        subject = Subject(self.plan.kernel, self.gpu, self.arch)
        geometry = self.plan.kernel.geometry
        together = subject.together
        sms = self.gpu.sms // together * together
        held = max(1, subject.held.blocks_per_sm)
        blocks = geometry.blocks
        if spec.persistent:
            blocks = min(blocks, sms * held)
        per_sm = -(-blocks // sms)
        resident = min(held, per_sm)
        full, rest = divmod(per_sm, resident)
        short, long = depths(spec, problem)
        stride = sms
        chosen = [b for b in range(0, blocks, stride)][:resident]
        samples = [subject.sample(self._short(k), chosen) for k in dict.fromkeys((short, long))]
        warm = self._warm()
        rounds: list[tuple[int, RoundTime]] = []
        for times, size, cold in self._rounds(full, rest, resident, warm):
            rounds.append((times, self._round(subject, samples, chosen[:size], cold)))
        cycles = sum(times * each.cycles for times, each in rounds)
        count = sum(times for times, _ in rounds)
        cycles += model.turnover * (count - 1)
        dram = self._dram_bytes()
        us = max(cycles / mhz, dram / model.dram_gbs / 1e3) + model.launch_us
        return LaunchTime(spec.name, blocks, resident, cycles, tuple(rounds), dram, 0.0, us)

    def _short(self, k: int) -> Problem:
        problem = self.problem
        if k == problem.k:
            return problem
        if self.spec.prologue is not None or self.spec.align_copies:
            return problem.with_(k=k)
        kept = {} if problem.trans_a else {"lda": problem.lda}
        if problem.trans_b:
            kept["ldb"] = problem.ldb
        return problem.with_(k=k, **kept)

    def _warm(self) -> bool:
        """Whether rounds after the first find A and B in L2."""
        problem = self.problem
        nbytes = (problem.m + problem.n) * problem.k * problem.dtype.itemsize
        return nbytes < 0.7 * self.model.l2_bytes

    @staticmethod
    def _rounds(full: int, rest: int, resident: int, warm: bool) -> list[tuple[int, int, bool]]:
        """(times, blocks of an SM, cold) of the rounds of a launch."""
        found: list[tuple[int, int, bool]] = []
        if warm:
            found.append((1, resident, True))
            if full > 1:
                found.append((full - 1, resident, False))
        else:
            found.append((full, resident, True))
        if rest:
            found.append((1, rest, not warm))
        return found

    def _round(self, subject: Subject, samples: Sequence[Sample], blocks: Sequence[int], cold: bool) -> RoundTime:
        model = self.model.sm
        rows = rows_of(subject.program, model)
        geometry = self.plan.kernel.geometry
        smem = (geometry.smem + subject.compiled.resources.static_smem + 1024) * len(blocks)
        memory = Memory(cold, max(64, (model.l1_bytes - smem) // 128))
        first = set(blocks)
        results = []
        for sample in samples:
            numbers = {b for b in sample.sm_of if b // subject.together * subject.together in first or b in first}
            streams = [s for s in sample.streams if s.block in numbers]
            results.append(Sm(rows, streams, model, memory, {b: sample.sm_of[b] for b in numbers}).run())
        low, high = results[0], results[-1]
        if len(results) == 1:
            return RoundTime(len(blocks), low.cycles, low.cycles, low.cycles, low)
        slope = (high.cycles - low.cycles) / (samples[-1].k - samples[0].k)
        cycles = high.cycles + slope * (self.problem.k - samples[-1].k)
        return RoundTime(len(blocks), low.cycles, high.cycles, cycles, high)

    def _dram_bytes(self) -> float:
        return float(self.problem.compulsory_bytes)


def predict(spec: KernelSpec, config: Config, problem: Problem, gpu: GPU, model: GpuParameters, mhz: float) -> Predicted:
    return Predictor(spec, config, problem, gpu, model).predict(mhz)
