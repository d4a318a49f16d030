"""The streams of the blocks that are resident on one SM, for a short K: what the cycle model runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gemmsmith.call.binding import bind_launch
from gemmsmith.call.launch_plan import PlannedLaunch, plan_launches
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.explain.occupancy import Occupancy, occupancy
from gemmsmith.gpus import GPU
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import Addresses
from gemmsmith.problem import Problem
from gemmsmith.sim.lowering.read_back import ProductReadBackError
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.timing.block_steps import BlockSteps
from gemmsmith.sim.timing.device import StreamDevice
from gemmsmith.sim.timing.events import as_alone
from gemmsmith.sim.timing.streams import Stream, StreamRecorder
from gemmsmith.sim.wave import by_cluster
from gemmsmith.sim.wavefronts import LINE

_MOST_ISSUED = 8_000_000  # instructions of a sample: about a minute of the cycle model


@dataclass(frozen=True)
class Sample:
    """Streams of some blocks of one launch.

    ``sm_of``: the SM of each block, from 0; only clusters have several. ``cluster_of``: the first block of its cluster.
    ``workspace``: its first and last line of 128 bytes, which blocks find in L2, since others have just written there.
    """

    program: MachineProgram
    streams: tuple[Stream, ...]
    sm_of: dict[int, int]
    cluster_of: dict[int, int]
    k: int
    workspace: tuple[int, int] = (0, -1)

    @cached_property
    def apart(self) -> bool:
        """Whether blocks of one cluster, which are neighbours, load by TMA and nothing in common."""
        readers: dict[tuple[int, ...], set[int]] = {}
        for stream in self.streams:
            for payload in stream.payloads:
                if isinstance(payload, tuple) and payload and payload[0] in ("tma", "bulk"):
                    if len(payload[1]) > 1:  # several blocks get it
                        return False
                    readers.setdefault((self.cluster_of[stream.block], *payload[3]), set()).add(stream.block)
        several = len(set(self.sm_of.values())) > 1
        return several and bool(readers) and all(len(blocks) == 1 for blocks in readers.values())


class Subject:
    """A planned launch, compiled and loaded, of which samples can be taken."""

    def __init__(self, launch: PlannedLaunch, gpu: GPU, arch: str, compiled: CompiledKernel | None = None) -> None:
        self.launch, self.gpu, self.arch = launch, gpu, arch
        self.compiled = compiled or compile_for(launch.spec, launch.config, launch.problem, arch)
        self.device = StreamDevice(arch)
        self.loaded = self.device.load(self.compiled)
        self.loaded.trusted = launch.spec.is_rung
        geometry = launch.geometry
        resources = self.compiled.resources
        self.held: Occupancy = occupancy(
            gpu, threads=geometry.threads, registers=resources.registers, static_smem=resources.static_smem,
            dynamic_smem=geometry.smem, barriers=resources.barriers,
        )  # fmt: skip
        self.together = math.prod(geometry.cluster)

    @property
    def program(self) -> MachineProgram:
        lowered = self.loaded.lowered
        assert isinstance(lowered, MachineProgram)
        return lowered

    def uses(self, opcode: str) -> bool:
        return any(i.opcode == opcode for i in self.program.instructions)

    def sample(self, problem: Problem, blocks: Sequence[int]) -> Sample:
        """Run blocks of a problem whose launch has this geometry, perhaps but for K."""
        return self.samples(problem, [blocks])[0]

    def samples(self, problem: Problem, sets: Sequence[Sequence[int]]) -> list[Sample]:
        """The same of several sets of blocks that neither share a cluster nor wait for one another, in one launch."""
        try:
            return self._samples(problem, sets)
        except ProductReadBackError:  # what is executed depends on products, which are computed then: of zeros
            self.loaded.computes_all = True
            return self._samples(problem, sets)

    def steps(self, problem: Problem, blocks: Sequence[int]) -> Array:
        """How many steps each of these blocks takes."""
        self.device.only_steps = True
        try:
            self._launched(problem, blocks)
        except ProductReadBackError:
            self.loaded.computes_all = True
            self._launched(problem, blocks)
        finally:
            self.device.only_steps = False
        counted = self.device.counters
        assert isinstance(counted, BlockSteps)
        taken: Array = counted.of[np.asarray(blocks)]
        return taken

    def _launched(self, problem: Problem, blocks: Sequence[int]) -> tuple[Geometry, tuple[int, int]]:
        """Run blocks; the launch's geometry, and the first and last line of its workspace."""
        device = self.device
        # The operands of all K are in the same places, so that streams for several K begin alike.
        whole = zip(_operand_bytes(problem), _operand_bytes(self.launch.problem), strict=True)
        start = device.memory.mark()
        addresses = [device.allocate(max(sizes)) for sizes in whole]
        places = Addresses(*addresses)
        plan = plan_launches(self.launch.spec, self.launch.config, problem, places, specialized=True)
        addresses.append(device.allocate(plan.workspace_bytes))
        if self.launch.spec.persistent and self.launch.spec.workspace is not None and plan.workspace_bytes:
            # Blocks that wait for others find every flag set: the others are as far as they are.
            device.write(addresses[-1], np.ones(plan.workspace_bytes, np.uint8))
        shared = addresses[-1] // LINE, (addresses[-1] + plan.workspace_bytes - 1) // LINE
        step = bind_launch(device, plan.kernel, places, addresses[-1], self.loaded)
        try:
            device.launch(self.loaded, step.launch, blocks)
        finally:
            for address in addresses:
                device.free(address)
            device.memory.rewind(start)
        return step.launch.geometry, shared

    def _samples(self, problem: Problem, sets: Sequence[Sequence[int]]) -> list[Sample]:
        device = self.device
        geometry, shared = self._launched(problem, sorted({block for blocks in sets for block in blocks}))
        recorder = device.counters
        assert isinstance(recorder, StreamRecorder)
        streams = recorder.streams()
        found = []
        for blocks in sets:
            numbers = by_cluster(np.asarray(blocks), geometry.grid, geometry.cluster)
            sm_of = {int(b): n % self.together for n, b in enumerate(numbers)}
            cluster_of = {int(b): int(numbers[n // self.together * self.together]) for n, b in enumerate(numbers)}
            mine = [s for s in streams if s.block in sm_of]
            if len(sets) > 1:
                mine = as_alone(mine, recorder)
            found.append(Sample(self.program, tuple(mine), sm_of, cluster_of, problem.k, shared))
        if (executed := max(map(issued, found))) > _MOST_ISSUED:
            raise UnsupportedError(
                f"the blocks of one SM execute {executed / 1e6:.1f} million instructions for K = {problem.k}, and more "
                f"than {_MOST_ISSUED / 1e6:.0f} million take the time model minutes"
            )
        return found


def _operand_bytes(problem: Problem) -> tuple[int, int, int]:
    a = problem.batch * problem.a_shape[0] * problem.lda * problem.dtype.itemsize
    b = problem.batch * problem.b_shape[0] * problem.ldb * problem.dtype.itemsize
    return a, b, problem.batch * problem.m * problem.ldc * problem.out_dtype.itemsize


def only(stream: Stream, positions: set[int]) -> Stream:
    """A stream with the instructions at some positions alone."""
    kept = [n for n, p in enumerate(stream.positions) if p in positions]
    return replace(stream, positions=tuple(stream.positions[n] for n in kept),
                   payloads=tuple(stream.payloads[n] for n in kept))  # fmt: skip


def issued(sample: Sample) -> int:
    """Instructions of all warps."""
    return sum(len(s.positions) for s in sample.streams)


def times_issued(sample: Sample) -> Counter[int]:
    """How often all warps together issued the instruction at each position."""
    found: Counter[int] = Counter()
    warps = Counter(s.positions for s in sample.streams)  # most warps execute the same
    for positions, count in warps.items():
        for position, times in Counter(positions).items():
            found[position] += count * times
    return found


def wraps(sample: Sample) -> bool:
    """Whether TMA fills some stage a second time: an mbarrier expects bytes twice."""
    seen: set[int] = set()
    for stream in sample.streams:
        for payload in stream.payloads:
            if isinstance(payload, tuple) and payload and payload[0] == "arrive" and payload[2]:
                place = payload[1][0][0]
                if place in seen:
                    return True
                seen.add(place)
    return False
