"""The simulator as a device: the same protocol as the GPU, executed on the CPU from PTX."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError, SimulationError
from gemmsmith.gpus import cuda_limits, gpu_named, largest_smem
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.run.device import Bytes, Launch
from gemmsmith.run.tensor_map import check_tensor_map, encode_simulated
from gemmsmith.sim.bundle import Program, most_operations
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.deciding import read_back, undecided
from gemmsmith.sim.lowering.lower import lower
from gemmsmith.sim.lowering.operation import FILE_DTYPES, Lowered
from gemmsmith.sim.lowering.shared_arrays import plain_name
from gemmsmith.sim.machine import Machine
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.memory.global_memory import GlobalMemory
from gemmsmith.sim.ptx.reader import REGISTER_UNIT, mentioned, parse, registers_at_launch
from gemmsmith.sim.ptx.syntax import Entry
from gemmsmith.sim.races.global_shadow import FirstLook, Look, SecondLook
from gemmsmith.sim.races.hazards import HazardError, HazardLog
from gemmsmith.sim.races.memory_order import shared_between_threads
from gemmsmith.sim.recorder import Recorder
from gemmsmith.sim.schedule import Schedule, schedule_named
from gemmsmith.sim.waits.cooperative import GridBarrier, cooperative_workspace
from gemmsmith.sim.wave import Wave, by_cluster

# A wave has as many blocks as fit in this many lanes and this many bytes of registers.
_WAVE_LANES = 1 << 15
_WAVE_REGISTER_BYTES = 1 << 27
_RESIDENT_REGISTER_BYTES = 1 << 30  # for kernels whose blocks wait for one another, and so must run together
_MOST_PLACES = 4  # of a kernel's variables, for which its code is kept
_GRID_GPU = "H200"  # a persistent grid is as large as on this GPU

Run = Callable[[Schedule, HazardLog | None, Counters | None, Look | None], None]


@dataclass
class LoadedPtx:
    """A parsed and lowered kernel, with its programs by the size of their bundles, and whether they are dry."""

    entry: Entry
    lowered: Lowered
    programs: dict[tuple[int, bool], Program] = field(default_factory=dict)
    registers: int = 0  # of a thread at launch; 0 if not known
    named: frozenset[str] = frozenset()  # variables of the module that code, or another variable, names
    placed: tuple[int, ...] = ()  # the addresses of these that it was lowered for
    elsewhere: dict[tuple[int, ...], LoadedPtx] = field(default_factory=dict)  # the same, for other addresses
    computes_all: bool = False  # also what seems to decide nothing, where a launch is only counted or timed
    trusted: bool = False  # whether no product that is stored decides anything: a rung's

    def program(self, lanes: int, dry: bool = False) -> Program:
        """The program for waves of this many lanes; ``dry``: what decides nothing is not computed."""
        dry = dry and not self.computes_all
        key = most_operations(lanes), dry
        if key not in self.programs:
            idle = self.lowered.fact(undecided) if dry else frozenset[int]()
            marks = self.lowered.fact(read_back) if dry and not self.trusted else None
            self.programs[key] = Program(self.lowered, key[0], idle, marks)
        return self.programs[key]


Loads = dict[tuple[str, str, bool], LoadedPtx]
"""Kernels that were parsed, by their code, their name and whether products and sums are contracted."""


class SimDevice:
    """Executes kernels from their PTX.

    ``mod32`` takes fp32 arithmetic modulo 2³². ``hazards`` looks for races, and ``count`` keeps what a
    profiler counts in ``counters``; both cost some time. A launch that takes longer than ``timeout`` seconds is a
    fault, since an endless loop cannot be told from a long one. Without ``moves_data`` mma and wgmma compute nothing
    and TMA copies nothing: for counts of kernels whose control flow does not depend on data. With ``strict`` advice on
    fences counts as a hazard too: the ladder's own kernels follow it.
    """

    kind = "sim"
    contracts = True  # products and sums without a rounding mode become fma, as ptxas does it

    def __init__(
        self,
        arch: str = "sm_90",
        schedule: Schedule | None = None,
        mod32: bool = False,
        hazards: bool = False,
        count: bool = False,
        timeout: float = math.inf,
        moves_data: bool = True,
        strict: bool = False,
    ) -> None:
        self.arch, self.timeout, self.moves_data, self.strict = arch, timeout, moves_data, strict
        self.variables: dict[str, dict[str, int]] = {}  # addresses by name, for each kernel that was loaded
        self.log = HazardLog() if hazards else None
        self.first_look: FirstLook | None = None  # of the last launch, if it was watched for hazards
        self._notes_of_fault: tuple[str, ...] = ()  # of the launch that faulted last
        self.count = count
        self.counters: Counters | None = None
        self.recorder: Recorder | None = None  # watches every launch from now on
        self.schedule = schedule or schedule_named("lockstep")
        self.mod32 = mod32
        self.memory = GlobalMemory()
        # What every byte of shared memory holds at first; then reading what was never written is no fault.
        self.garbage: int | None = None
        self.loads: Loads = {}  # may be shared between devices of one mode
        # What kernels printed, a string for each call of printf by a thread.
        self.prints: list[str] = []

    @property
    def name(self) -> str:
        return f"simulator ({self.arch})"

    def allocate(self, nbytes: int) -> int:
        return self.memory.allocate(nbytes)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def write(self, address: int, data: Bytes) -> None:
        self._view(address, data.nbytes)[:] = data

    def read(self, address: int, nbytes: int) -> Bytes:
        return self._view(address, nbytes).copy()

    def forbid_reads(self, address: int, why: str) -> None:
        self.memory.forbid_reads(address, why)

    def label(self, address: int, name: str, itemsize: int = 0) -> None:
        self.memory.label(address, name, itemsize)

    def symbol(self, loaded: LoadedPtx, name: str) -> tuple[int, int]:
        """Address and bytes of a variable of the module that the kernel uses."""
        sizes = {each.name: each.size for each in loaded.entry.variables}
        known = self.variables.setdefault(loaded.entry.name, {})
        if name not in known:
            if name not in sizes:
                raise SimulationError(f"the kernel uses no variable {name}")
            known.update(self._place_variables(loaded.entry, frozenset({name})))
            self._relocate(loaded.entry, {**known, **loaded.lowered.functions}, frozenset({name}))
        return known[name], sizes[name]

    def _view(self, address: int, nbytes: int) -> Bytes:
        try:
            return self.memory.view(address, nbytes)
        except AccessFault as fault:
            raise SimulationError(
                f"host copy of {nbytes} bytes at {address:#x} is out of bounds: {fault.detail}"
            ) from None

    def load(self, compiled: CompiledKernel) -> LoadedPtx:
        loaded, registers = self.load_ptx(compiled.ptx, compiled.entry), compiled.resources.registers
        # What ptxas chose is what a block starts with; it may be less than the bounds of the kernel allow. Without
        # bounds it ignores setmaxnreg (warning C7508).
        if registers and loaded.registers:
            loaded.registers = -(-registers // REGISTER_UNIT) * REGISTER_UNIT
        return loaded

    def load_ptx(self, ptx: str, entry_name: str) -> LoadedPtx:
        key = ptx, entry_name, self.contracts
        known = self.loads.get(key)
        entry = parse(ptx).entry(entry_name) if known is None else known.entry
        named = mentioned(ptx, (v.name for v in entry.variables)) if known is None else known.named
        addresses = self.variables[entry.name] = self._place_variables(entry, named)
        # Code holds the addresses of variables: where these are elsewhere, it is lowered anew.
        placed = tuple(addresses.values())
        if known is not None and known.placed != placed:
            known = known.elsewhere.get(placed)
        if known is not None:
            self._relocate(entry, {**addresses, **known.lowered.functions}, named)
            return known
        lowered = lower(entry, addresses, self.mod32, contracts=self.contracts)
        self._relocate(entry, {**addresses, **lowered.functions}, named)
        loaded = LoadedPtx(entry, lowered, registers=registers_at_launch(ptx, entry_name), named=named,
                           placed=placed)  # fmt: skip
        first = self.loads.setdefault(key, loaded)
        if first is not loaded and len(first.elsewhere) < _MOST_PLACES:
            first.elsewhere[placed] = loaded
        return loaded

    def _place_variables(self, entry: Entry, named: frozenset[str]) -> dict[str, int]:
        """Allocate these variables of the module and set them to their initial values."""
        addresses: dict[str, int] = {}
        for variable in entry.variables:
            if variable.space in ("global", "const") and variable.name in named:
                address = addresses[variable.name] = self.memory.allocate_variable(variable.size)
                self.memory.label_variable(address, plain_name(variable.name), max(1, min(8, variable.align)))
                self.write(address, np.frombuffer(variable.initial.ljust(variable.size, b"\0"), np.uint8))
        return addresses

    def _relocate(self, entry: Entry, symbols: dict[str, int], those: frozenset[str]) -> None:
        """Put the addresses of variables and functions into those variables that are initialised with them."""
        for variable in entry.variables:
            for place in variable.relocations if variable.name in those else ():
                if (value := symbols.get(place.symbol)) is not None:
                    data = (value + place.addend).to_bytes(place.nbytes, "little")
                    self.write(symbols[variable.name] + place.offset, np.frombuffer(data, np.uint8))

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        check_tensor_map(described, address)
        return encode_simulated(described, address)

    def blocks_at_once(self, loaded: LoadedPtx, geometry: Geometry) -> int:  # noqa: ARG002
        """One block for each SM of an H200, in whole clusters."""
        together = math.prod(geometry.cluster)
        return max(1, gpu_named(_GRID_GPU).sms // together) * together

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Sequence[int] | None = None) -> None:
        """Run every block, or only those numbered in ``blocks`` (x fastest)."""
        geometry = launch.geometry
        parameters = pack(loaded.entry, launch.arguments)
        _check_cluster(geometry)
        own = loaded.lowered.static_shared - loaded.lowered.reserved_shared + geometry.smem
        _check(geometry.grid, geometry.block, own)
        static = -(-loaded.lowered.static_shared // 16) * 16 if geometry.smem else loaded.lowered.static_shared
        per_lane = sum(h * FILE_DTYPES[f].itemsize for f, h in loaded.lowered.heights.items())
        lanes = max(geometry.threads, min(_WAVE_LANES, _WAVE_REGISTER_BYTES // max(1, per_lane)))
        at_once = max(1, lanes // geometry.threads)
        numbers = np.arange(geometry.blocks) if blocks is None else np.asarray(blocks, np.int64)
        numbers, together = by_cluster(numbers, geometry.grid, geometry.cluster), math.prod(geometry.cluster)
        at_once = -(-self._resident(loaded, geometry, per_lane, at_once) // together) * together
        workspace = cooperative_workspace(self.memory, geometry, at_once) if geometry.cooperative else 0
        self.counters = self.counting(loaded.lowered, geometry) if self.count else None

        def run(schedule: Schedule, log: HazardLog | None, counters: Counters | None, look: Look | None) -> None:
            deadline = time.thread_time() + self.timeout  # CPU seconds: what else the machine does is no fault
            for start in range(0, len(numbers), at_once):
                wave = Wave(
                    geometry.grid,
                    geometry.block,
                    numbers[start : start + at_once],
                    static + geometry.smem,
                    parameters,
                    workspace,
                    geometry.cluster,
                    together > 1,
                    loaded.registers,
                    not self.moves_data,
                )
                machine = Machine(loaded.lowered, loaded.program(wave.lanes, wave.dry), wave, self.memory, schedule,
                                  log, counters, deadline, look)  # fmt: skip
                machine.prints = [] if isinstance(look, SecondLook) else self.prints  # the second look prints again
                machine.moves_data = self.moves_data
                machine.recorder = self.recorder
                if self.garbage is not None or not self.moves_data:
                    machine.shared.data[:] = self.garbage or 0
                    machine.shared.check = False
                machine.run()

        try:
            with np.errstate(all="ignore"), self._hazards_of_whole_launches():
                if self.log is None:
                    run(self.schedule, None, self.counters, None)
                else:
                    self.log.merge(self._watch(loaded.lowered, run, GridBarrier(workspace, geometry.blocks)))
                    for leak in self.memory.heap.leaks() if self.memory.heap is not None else ():
                        self.log.note(leak)
        finally:
            if workspace:
                self.free(workspace)

    def counting(self, lowered: Lowered, geometry: Geometry) -> Counters:
        """What counts a launch; a device that wants to know more makes another."""
        return Counters(lowered, geometry)

    def _watch(self, lowered: Lowered, run: Run, grid_barrier: GridBarrier) -> HazardLog:
        """Run a launch and look for races; where the first look is not enough, run it again for a second one."""
        self.memory.keep_changes(True)
        try:
            log, first, schedule = HazardLog(), FirstLook(lowered, self.memory), deepcopy(self.schedule)
            self.first_look = first
            try:
                run(self.schedule, log, self.counters, first)
            except SimulationError:
                self._notes_of_fault = log.notes
                raise
            hot = first.suspects()
            if not hot and not (log.found and first.between.synchronises):
                return log
            self.memory.undo()
            again = HazardLog()
            second = SecondLook(first, hot, again, grid_barrier if grid_barrier.workspace else None)
            if schedule.lockstep and first.between.polling:  # who runs together waits for nobody
                schedule = schedule_named("in_order", late_copies=schedule.late_copies)
                schedule.by_block = not first.waits_within_blocks()
            run(schedule, again, None, second)
            second.finish()
            return again
        finally:
            self.memory.keep_changes(False)

    def _resident(self, loaded: LoadedPtx, geometry: Geometry, per_lane: int, at_once: int) -> int:
        """How many blocks run together: all that a GPU holds at once, if blocks wait for one another."""
        if not (geometry.cooperative or loaded.lowered.fact(shared_between_threads).polls_global):
            return at_once
        gpu = gpu_named(_GRID_GPU)
        held = gpu.sms * max(1, gpu.threads_per_sm // geometry.threads)
        room = _RESIDENT_REGISTER_BYTES // max(1, per_lane * geometry.threads)
        return max(at_once, min(held, room))

    @contextmanager
    def _hazards_of_whole_launches(self) -> Iterator[None]:
        """Drop the hazards of a launch that faults; keep those of launches that ended."""
        try:
            yield
        except BaseException:
            if self.log is not None:
                self.log = HazardLog()
                for text in self._notes_of_fault:
                    self.log.note(text)
            raise

    @property
    def notes(self) -> tuple[str, ...]:
        """What the launches since the last ``synchronize`` did that is legal but worth knowing."""
        return () if self.log is None else self.log.notes

    def synchronize(self) -> None:
        """Launches are finished when they return; raises the hazards that they had, if any were looked for."""
        found = () if self.log is None else (*self.log.found, *(self.log.advice if self.strict else ()))
        if self.log is not None and found:
            notes = self.log.notes
            self.log = HazardLog()
            for text in notes:
                self.log.note(text)
            more = [str(hazard) for hazard in found[1:]]
            raise HazardError(str(found[0]), "\n".join(more), found)


def pack(entry: Entry, arguments: tuple[bytes, ...]) -> bytes:
    """The bytes of a kernel's parameters."""
    if len(arguments) != len(entry.parameters):
        raise LaunchError(f"{entry.name} takes {len(entry.parameters)} parameters, not {len(arguments)}")
    data = b""
    for parameter, value in zip(entry.parameters, arguments, strict=True):
        if len(value) != parameter.size:
            raise LaunchError(f"{entry.name}: parameter {parameter.name} has {parameter.size} bytes, not {len(value)}")
        data = data.ljust(-(-len(data) // parameter.align) * parameter.align, b"\0") + value
    return data


def _check_cluster(geometry: Geometry) -> None:
    blocks, most = math.prod(geometry.cluster), cuda_limits().cluster_blocks
    if blocks > most or min(geometry.cluster) < 1:
        raise LaunchError(f"a cluster of {blocks} blocks cannot be launched", f"a cluster may have 1 to {most}")
    for axis, blocks_along, cluster in zip("xyz", geometry.grid, geometry.cluster, strict=True):
        if blocks_along % cluster:
            raise LaunchError(
                f"a grid of {blocks_along} blocks along {axis} cannot be launched in clusters of {cluster}",
                "make the grid a multiple of the cluster",
            )


def _check(grid: tuple[int, int, int], block: tuple[int, int, int], shared: int) -> None:
    threads, most = block[0] * block[1] * block[2], cuda_limits()
    if not 1 <= threads <= most.threads_per_block or block[2] > most.block_z or min(block) < 1:
        raise LaunchError(
            f"a block of {block[0]}x{block[1]}x{block[2]} = {threads} threads cannot be launched",
            f"a block may have 1 to {most.threads_per_block} threads",
        )
    if min(grid) < 1 or grid[0] > most.grid_x or max(grid[1:]) > most.grid_yz:
        raise LaunchError(
            f"a grid of {grid[0]}x{grid[1]}x{grid[2]} blocks cannot be launched",
            f"y and z: at most {most.grid_yz}",
        )
    if shared > largest_smem():
        raise LaunchError(f"{shared} bytes of shared memory per block exceed {largest_smem()}, the most of any GPU")
