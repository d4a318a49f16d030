"""From a kernel, a problem and addresses to launches: what every caller does between choosing and launching.

    prepare ─► fit ─► compile, load ─► tensor maps, arguments, grid ─► steps

A product is one launch for most kernels. Others are prepared for by launches of their own, which leave copies or parts
of operands, flags or a verdict in a workspace (kernels/preparation.py). The caller allocates the workspace, because it
knows how long it must live; ``workspace_bytes`` says how large it is, 0 for most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue, PrologueLaunch
from gemmsmith.ladder.registry import simulated_alternative
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.build import REGION, build_prologue, has_product
from gemmsmith.run.device import Device, Launch, Step
from gemmsmith.run.tensor_map import ALIGNMENT

__all__ = ["Addresses", "CompileFn", "aligned_config", "before_product", "bind", "check_simulated", "fitted_config",
           "needs_simulator", "product_launch", "workspace_bytes"]  # fmt: skip

CompileFn = Callable[[KernelSpec, Config, Problem, str], CompiledKernel]
"""Compiles a kernel for a problem's types and layout, and an architecture such as 'sm_90'."""

# What was loaded on each GPU: asking the compile cache again takes longer than a launch, as it looks at dates of files.
_ON_GPU: WeakKeyDictionary[Device, dict[tuple[object, ...], Any]] = WeakKeyDictionary()


def bind(device: Device, spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses,
         workspace: int = 0, compile_fn: CompileFn = compile_for) -> tuple[Step, ...]:  # fmt: skip
    """The launches that compute ``problem``, in order; the last is the kernel's own.

    ``workspace`` is the address of ``workspace_bytes`` bytes, aligned to 256, that nobody else uses until the last
    launch has ended. Nothing is launched here; M, N and the batch must not be 0.
    """
    check_simulated(device, spec, problem)
    prepared = build_prologue(spec, config, problem, addresses, workspace)
    own = _bound(device, spec, config, prepared, compile_fn)
    steps = _passes(device, prepared.launches, compile_fn)
    if prepared.fallback is not None:
        other = prepared.fallback
        also = build_prologue(other.spec, other.config, problem, addresses, workspace, as_fallback=True)
        steps += _passes(device, also.launches, compile_fn)
        steps.append(_bound(device, other.spec, other.config, also, compile_fn))
    return (*steps, own)


def _bound(device: Device, spec: KernelSpec, config: Config, prepared: Prologue, compile_fn: CompileFn) -> Step:
    """The launch of one kernel, in the configuration that fits what it will see."""
    problem, addresses = prepared.problem, prepared.addresses
    fitted = spec.specialize(config, problem, addresses[:3])
    _check_smem(spec, fitted, problem)
    loaded = _loaded(device, spec, fitted, problem, compile_fn)
    launch = product_launch(device, loaded, spec, fitted, problem, addresses, prepared.workspace, prepared.mapped)
    return Step(loaded, launch)


def _passes(device: Device, passes: Sequence[PrologueLaunch], compile_fn: CompileFn) -> list[Step]:
    kinds = {(each.spec, each.compiled_for) for each in passes}
    loaded = {kind: _loaded(device, kind[0], kind[0].config(), kind[1], compile_fn, ours=True) for kind in kinds}
    return [Step(loaded[each.spec, each.compiled_for], Launch(each.geometry, each.arguments)) for each in passes]


def _check_smem(spec: KernelSpec, config: Config, problem: Problem) -> None:
    """What a configuration needs may depend on the layout: legal in one, too large in another."""
    if spec.arch_specific and (needed := spec.geometry(problem, config).smem) > LARGEST_SMEM:
        raise ConfigError(
            f"{spec.name} cannot run with {config} in layout {problem.layout}: it needs {needed:,} B of shared memory, "
            f"but a block has {LARGEST_SMEM:,} B", "take fewer STAGES",
        )  # fmt: skip


def _loaded(device: Device, spec: KernelSpec, config: Config, problem: Problem, compile_fn: CompileFn,
            ours: bool = False) -> Any:  # fmt: skip
    """The kernel on the device. The package's own files do not change while it runs; a user's may."""
    if device.kind != "gpu" or not (spec.is_rung or ours):
        return device.load(compile_fn(spec, config, problem, device.arch))
    known = _ON_GPU.setdefault(device, {})
    key = (spec, config, problem.dtype.name, problem.out_dtype.name, problem.trans_a, problem.trans_b, problem.bias,
           problem.activation, compile_fn)  # fmt: skip
    if key not in known:
        known[key] = device.load(compile_fn(spec, config, problem, device.arch))
    return known[key]


def workspace_bytes(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses) -> int:
    """How many bytes ``bind`` needs besides the operands."""
    return build_prologue(spec, config, problem, addresses).nbytes


def fitted_config(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses) -> Config:
    """The configuration that ``bind`` compiles for operands at these addresses."""
    prepared = build_prologue(spec, config, problem, addresses)
    return spec.specialize(config, prepared.problem, prepared.addresses[:3])


def aligned_config(spec: KernelSpec, config: Config, problem: Problem) -> Config:
    """The configuration for operands that lie as fresh allocations do: what to compile where none are at hand."""
    return aligned_code(spec, config, problem)[0]


def aligned_code(spec: KernelSpec, config: Config, problem: Problem) -> tuple[Config, Problem]:
    """The same, and the problem as the kernel sees it then: operands may have been turned on the way to it."""
    prepared = build_prologue(spec, config, problem, Addresses(REGION, REGION, REGION))
    return spec.specialize(config, prepared.problem, prepared.addresses[:3]), prepared.problem


def check_simulated(device: Device, spec: KernelSpec, problem: Problem) -> None:
    """Raise if ``device`` is the simulator and does not know the kernel's instructions."""
    if device.kind == "sim":
        needs_simulator(spec, problem, "run it on a GPU (--device gpu, or GPU tensors)")


def needs_simulator(spec: KernelSpec, problem: Problem, hint: str) -> None:
    """Raise, with ``hint`` and who can be simulated instead, unless the simulator knows the kernel's instructions."""
    if spec.simulated:
        return
    other = simulated_alternative(problem)
    raise UnsupportedError(
        f"{spec.name} uses instructions that the simulator does not know yet",
        hint + (f"; the simulator runs {other}" if other else ""),
    )


def before_product(device: Device, spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses,
                   workspace: int,
                   compile_fn: CompileFn = compile_for) -> tuple[tuple[Step, ...], Prologue]:  # fmt: skip
    """The launches before the kernel's own, but for ``instead``, and what the kernel sees after them."""
    prepared = build_prologue(spec, config, problem, addresses, workspace)
    return tuple(_passes(device, prepared.launches, compile_fn)), prepared


def product_launch(device: Device, loaded: Any, spec: KernelSpec, config: Config, problem: Problem,
                   addresses: Addresses, workspace: int = 0, mapped: Addresses | None = None) -> Launch:  # fmt: skip
    """The launch of the kernel itself, for operands that it takes as they are and a configuration that fits them.

    ``mapped`` is where tensor maps find A and B, if elsewhere.
    """
    geometry = spec.geometry(problem, config)
    if spec.persistent:
        geometry = _persistent(device, loaded, geometry)
    maps = None
    if spec.tensor_maps is not None:
        maps = _encoded(device, spec, config, problem, mapped or addresses)
    return Launch(geometry, spec.signature.pack(problem, *addresses, workspace=workspace, maps=maps))


def _persistent(device: Device, loaded: Any, geometry: Geometry) -> Geometry:
    """No more blocks than run side by side: each takes one piece of work after another."""
    most = device.blocks_at_once(loaded, geometry)
    return geometry if geometry.grid[0] <= most else replace(geometry, grid=(most, *geometry.grid[1:]))


def _encoded(device: Device, spec: KernelSpec, config: Config, problem: Problem,
             addresses: Addresses) -> dict[str, bytes]:  # fmt: skip
    """The maps of a kernel's entry, by the names of its parameters."""
    assert spec.tensor_maps is not None
    where = {"A": addresses.a, "B": addresses.b, "C": addresses.c}
    if not has_product(problem):  # nothing is read through these maps, but they must describe memory that is there
        where["A"] = where["B"] = addresses.c // ALIGNMENT * ALIGNMENT
        problem = _describable(problem)
    if 1 in (problem.a_shape[0], problem.b_shape[0], problem.m):
        problem = _of_single_rows(problem)
    described = spec.tensor_maps(problem, config)
    return {name: device.encode_tensor_map(each, where[each.operand]) for name, each in described.items()}


def _describable(problem: Problem) -> Problem:
    """With a K that is not empty, and A and B as tensor maps take them."""
    wide = problem.with_(k=max(1, problem.k), lda=problem.lda, ldb=problem.ldb, ldc=problem.ldc)
    size = problem.dtype.itemsize
    return wide.with_(lda=_rounded(wide.lda, size), ldb=_rounded(wide.ldb, size), ldc=problem.ldc,
                      stride_c=problem.stride_c)  # fmt: skip


def _of_single_rows(problem: Problem) -> Problem:
    """From one row there is no step to the next: any leading dimension will do."""
    size = problem.dtype.itemsize
    lda = _rounded(problem.lda, size) if problem.a_shape[0] == 1 else problem.lda
    ldb = _rounded(problem.ldb, size) if problem.b_shape[0] == 1 else problem.ldb
    ldc = _rounded(problem.ldc, problem.out_dtype.itemsize) if problem.m == 1 else problem.ldc
    return replace(problem, lda=lda, ldb=ldb, ldc=ldc)


def _rounded(elements: int, itemsize: int) -> int:
    per = ALIGNMENT // min(itemsize, 2)  # parts of an operand that was split have two bytes
    return ceil_div(elements, per) * per
