"""From planned launches to launches on a device: load the kernels, fill in the addresses.

    plan_launches ─► compile, load, persistent grid ─► addresses, tensor maps ─► steps

Everything that launches a product goes through here: the executors of ``gemm`` and ``plan``, verification, benchmarks,
and the simulator's counters.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.call.cache import CACHE
from gemmsmith.call.launch_plan import LaunchPlan, MapArgument, PlannedLaunch, plan_launches, specialize
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import SlotBytes
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import simulated_alternative
from gemmsmith.problem import Problem
from gemmsmith.prologue.build import REGION, build_prologue
from gemmsmith.run.device import Device, Launch, Step

CompileFn = Callable[[KernelSpec, Config, Problem, str], CompiledKernel]
"""Compiles a kernel for a problem's types and layout, and an architecture such as 'sm_90'."""

_ALIGNED = Addresses(REGION, REGION, REGION)  # aligned as fresh allocations are


@dataclass(frozen=True)
class LoadedLaunch:
    """A planned launch whose kernel is on the device."""

    loaded: Any
    geometry: Geometry
    arguments: tuple[bytes | MapArgument, ...]


@dataclass(frozen=True)
class LoadedPlan:
    """A plan whose kernels are on ``device``."""

    device: Device
    plan: LaunchPlan
    launches: tuple[LoadedLaunch, ...]

    def steps(self, addresses: Addresses, workspace: int = 0, again: bool = False) -> tuple[Step, ...]:
        """The launches at these addresses, in order; the last is the kernel itself.

        ``workspace`` is the address of ``workspace_bytes`` bytes, aligned to 256, that nothing else uses until the
        last launch has ended. The addresses must be aligned as the plan's are. ``again``: what a launch left there is
        kept where host code does not clear it for each launch.
        """
        known = (*addresses, workspace)
        for each in self.plan.scratch:
            if each.array.zeroed and not (again and each.array.kept):
                self.device.write(workspace + each.offset, np.zeros(each.array.zeroed, np.uint8))
        return tuple(_resolved(self.device, each, known) for each in self.launches)


def load_plan(device: Device, plan: LaunchPlan, compile_fn: CompileFn = compile_for) -> LoadedPlan:
    """Compile what is not compiled, load it, and size persistent grids for ``device``."""
    kernel = load_launch(device, plan.kernel, compile_fn)
    before = (load_launch(device, each, compile_fn) for each in (*plan.prologue, *plan.fallback))
    rounds = (load_launch(device, each, loaded=kernel.loaded) for each in plan.rounds)
    return LoadedPlan(device, plan, (*before, *rounds, kernel))


def load_launch(device: Device, launch: PlannedLaunch, compile_fn: CompileFn = compile_for,
                loaded: Any = None) -> LoadedLaunch:  # fmt: skip
    """One launch on ``device``; ``loaded`` is its kernel where that is there already."""
    if loaded is None:
        loaded = _load(device, launch, compile_fn)
    geometry = launch.geometry
    if launch.spec.persistent:
        # No more blocks than run at the same time: each block takes one tile after another.
        most = device.blocks_at_once(loaded, geometry)
        geometry = geometry if geometry.grid[0] <= most else replace(geometry, grid=(most, *geometry.grid[1:]))
    return LoadedLaunch(loaded, geometry, launch.arguments)


def _load(device: Device, launch: PlannedLaunch, compile_fn: CompileFn) -> Any:
    """The kernel on the device. It is cached because the compile cache stats source files, which costs more than a
    launch; the simulator and users' files are loaded anew."""
    problem = launch.problem
    if device.kind != "gpu" or not launch.packaged:
        return device.load(compile_fn(launch.spec, launch.config, problem, device.arch))
    key = ("kernel", device, launch.spec, launch.config, problem.dtype.name, problem.out_dtype.name, problem.trans_a,
           problem.trans_b, problem.bias, problem.activation, compile_fn)  # fmt: skip
    loaded = CACHE.get(key)
    if loaded is None:
        loaded = device.load(compile_fn(launch.spec, launch.config, problem, device.arch))
        CACHE.put(key, loaded)
    return loaded


def _resolved(device: Device, launch: LoadedLaunch, known: tuple[int, ...]) -> Step:
    arguments = []
    for argument in launch.arguments:
        if isinstance(argument, MapArgument):
            address = known[argument.address.slot] + argument.address.offset
            room, argument = argument.room, device.encode_tensor_map(argument.described, address)
            if room is not None:
                place = known[room.slot] + room.offset
                device.write(place, np.frombuffer(argument, np.uint8))
                argument = struct.pack("<Q", place)
        elif isinstance(argument, SlotBytes):
            argument = argument.filled(known)
        arguments.append(argument)
    return Step(launch.loaded, Launch(launch.geometry, tuple(arguments)))


def bind(device: Device, spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses,
         workspace: int = 0, compile_fn: CompileFn = compile_for) -> tuple[Step, ...]:  # fmt: skip
    """The launches that compute ``problem`` at these addresses, planned, loaded and filled in. Launches nothing."""
    check_simulated(device, spec, problem)
    return load_plan(device, plan_launches(spec, config, problem, addresses), compile_fn).steps(addresses, workspace)


def bind_launch(device: Device, launch: PlannedLaunch, addresses: Addresses, workspace: int = 0,
                loaded: Any = None) -> Step:  # fmt: skip
    """One launch of a plan at these addresses; ``loaded`` is its kernel where that is there already."""
    return _resolved(device, load_launch(device, launch, loaded=loaded), (*addresses, workspace))


def workspace_bytes(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses) -> int:
    """How many bytes ``bind`` needs besides the operands."""
    return build_prologue(spec, config, problem, addresses).nbytes


def specialized_config(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses) -> Config:
    """The configuration that ``bind`` compiles for operands at these addresses."""
    return specialize(spec, config, build_prologue(spec, config, problem, addresses))


def aligned_config(spec: KernelSpec, config: Config, problem: Problem) -> Config:
    """The configuration for operands aligned as fresh allocations are: what to compile before there are operands."""
    return aligned_code(spec, config, problem)[0]


def aligned_code(spec: KernelSpec, config: Config, problem: Problem) -> tuple[Config, Problem]:
    """The same, and the problem as the kernel sees it then: the prologue may transpose operands."""
    prologue = build_prologue(spec, config, problem, _ALIGNED)
    return specialize(spec, config, prologue), prologue.problem


def check_simulated(device: Device, spec: KernelSpec, problem: Problem) -> None:
    """Raise if ``device`` is the simulator and the rung is not simulated."""
    if device.kind == "sim":
        needs_simulator(spec, problem, "run it on a GPU (--device gpu, or GPU tensors)")


def needs_simulator(spec: KernelSpec, problem: Problem, hint: str) -> None:
    """Raise, with ``hint`` and a kernel that can be simulated, unless the rung is simulated."""
    if spec.simulated:
        return
    other = simulated_alternative(problem)
    raise UnsupportedError(
        f"{spec.name} is not simulated yet",
        hint + (f"; the simulator runs {other}" if other else ""),
    )
