"""From a kernel, a problem and addresses to launches: what every caller does between choosing and launching.

    fit ─► compile, load ─► (copies of unaligned operands) ─► tensor maps, arguments, grid ─► steps

A product is one launch, with two exceptions. Where a kernel reads through tensor maps and rows of A or B do not start
on 16 bytes, each such operand is copied into a workspace first, by a launch of its own. And where a kernel's blocks
exchange sums through the workspace, its flags are cleared first. The caller allocates the workspace, because it knows
how long it must live; ``workspace_bytes`` says how large it is, 0 for most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernels.clear import CLEAR, clear_launch
from gemmsmith.kernels.hopper import LARGEST_SMEM
from gemmsmith.kernels.registry import simulated_instead
from gemmsmith.kernels.repack import REPACK, packed_bytes, packed_ld, repack_launch
from gemmsmith.kernels.spec import Config, Geometry, KernelSpec
from gemmsmith.problem import FP16, Problem, ceil_div
from gemmsmith.run.device import Device, Launch, Step
from gemmsmith.run.tensor_map import ALIGNMENT

CompileFn = Callable[[KernelSpec, Config, Problem, str], CompiledKernel]
"""Compiles a kernel for a problem's types and layout, and an architecture such as 'sm_90'."""

_REGION = 256  # bytes: copies in a workspace start on multiples, as allocations do
_ANY_COPY = Problem(1, 1, 1, dtype=FP16, out_dtype=FP16)  # stands for all: a copy looks at no values
# What was loaded on each GPU: asking the compile cache again takes longer than a launch, as it looks at dates of files.
_ON_GPU: WeakKeyDictionary[Device, dict[tuple[object, ...], Any]] = WeakKeyDictionary()


class Addresses(NamedTuple):
    """Where A, B, C and the bias (0: none) begin on the device."""

    a: int
    b: int
    c: int
    bias: int = 0


@dataclass(frozen=True)
class _Copy:
    """One operand ('a' or 'b') that is copied to aligned rows, ``offset`` bytes into the workspace."""

    operand: str
    rows: int
    cols: int
    source: int
    source_ld: int
    source_stride: int
    target_ld: int
    copies: int
    offset: int

    @property
    def target_stride(self) -> int:
        return self.rows * self.target_ld if self.copies > 1 else 0


def bind(device: Device, spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses,
         workspace: int = 0, compile_fn: CompileFn = compile_for) -> tuple[Step, ...]:  # fmt: skip
    """The launches that compute ``problem``, in order; the last is the kernel's own.

    ``workspace`` is the address of ``workspace_bytes`` bytes, aligned to 256, that nobody else uses until the last
    launch has ended. Nothing is launched here; M, N and the batch must not be 0.
    """
    check_simulated(device, spec, problem)
    copies = _copies(spec, problem, addresses)
    ready, placed = _after(copies, problem, addresses, workspace)
    fitted = spec.fit(config, ready, placed[:3])
    _check_smem(spec, fitted, ready)
    loaded = _loaded(device, spec, fitted, ready, compile_fn)
    launch = product_launch(device, loaded, spec, fitted, ready, placed, workspace)
    steps: list[Step] = []
    if spec.scratch:
        steps.append(
            Step(_loaded(device, CLEAR, CLEAR.config(), _ANY_COPY, compile_fn), Launch(*clear_launch(workspace)))
        )
    if copies:
        copier = _loaded(device, REPACK, REPACK.config(), _ANY_COPY, compile_fn)
        steps += (Step(copier, _copy_launch(copy, workspace)) for copy in copies)
    return (*steps, Step(loaded, launch))


def _check_smem(spec: KernelSpec, config: Config, problem: Problem) -> None:
    """What a configuration needs may depend on the layout: legal in one, too large in another."""
    if spec.arch_specific and (needed := spec.geometry(problem, config).smem) > LARGEST_SMEM:
        raise ConfigError(
            f"{spec.name} cannot run with {config} in layout {problem.layout}: it needs {needed:,} B of shared memory, "
            f"but a block has {LARGEST_SMEM:,} B", "take fewer STAGES",
        )  # fmt: skip


def _loaded(device: Device, spec: KernelSpec, config: Config, problem: Problem, compile_fn: CompileFn) -> Any:
    """The kernel on the device. The package's own files do not change while it runs; a user's may."""
    if device.kind != "gpu" or not (spec.is_rung or spec in (CLEAR, REPACK)):
        return device.load(compile_fn(spec, config, problem, device.arch))
    known = _ON_GPU.setdefault(device, {})
    key = (spec, config, problem.dtype.name, problem.out_dtype.name, problem.trans_a, problem.trans_b, problem.bias,
           problem.activation, compile_fn)  # fmt: skip
    if key not in known:
        known[key] = device.load(compile_fn(spec, config, problem, device.arch))
    return known[key]


def workspace_bytes(spec: KernelSpec, problem: Problem, addresses: Addresses) -> int:
    """How many bytes ``bind`` needs besides the operands."""
    return _workspace_of(_copies(spec, problem, addresses), spec.scratch)


def fitted_config(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses) -> Config:
    """The configuration that ``bind`` compiles for operands at these addresses."""
    ready, placed = _after(_copies(spec, problem, addresses), problem, addresses, 0)
    return spec.fit(config, ready, placed[:3])


def aligned_config(spec: KernelSpec, config: Config, problem: Problem) -> Config:
    """The configuration for operands that lie as fresh allocations do: what to compile where none are at hand."""
    return fitted_config(spec, config, problem, Addresses(_REGION, _REGION, _REGION))


def check_simulated(device: Device, spec: KernelSpec, problem: Problem) -> None:
    """Raise if ``device`` is the simulator and does not know the kernel's instructions."""
    if device.kind == "sim":
        needs_simulator(spec, problem, "run it on a GPU (--device gpu, or GPU tensors)")


def needs_simulator(spec: KernelSpec, problem: Problem, hint: str) -> None:
    """Raise, with ``hint`` and who can be simulated instead, unless the simulator knows the kernel's instructions."""
    if spec.simulated:
        return
    other = simulated_instead(problem)
    raise UnsupportedError(
        f"{spec.name} uses instructions that the simulator does not know yet",
        hint + (f"; the simulator runs {other}" if other else ""),
    )


def product_launch(device: Device, loaded: Any, spec: KernelSpec, config: Config, problem: Problem,
                   addresses: Addresses, workspace: int = 0) -> Launch:  # fmt: skip
    """The launch of the kernel itself, for operands that it takes as they are and a configuration that fits them."""
    geometry = spec.geometry(problem, config)
    if spec.persistent:
        geometry = _persistent(device, loaded, geometry)
    maps = None
    if spec.tensor_maps is not None:
        maps = _encoded(device, spec, config, problem, addresses)
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
    if not _has_product(problem):  # nothing is read through these maps, but they must describe memory that is there
        where["A"] = where["B"] = addresses.c // ALIGNMENT * ALIGNMENT
        problem = _describable(problem)
    if 1 in (problem.a_shape[0], problem.b_shape[0], problem.m):
        problem = _of_single_rows(problem)
    described = spec.tensor_maps(problem, config)
    return {name: device.encode_tensor_map(each, where[each.operand]) for name, each in described.items()}


def _has_product(problem: Problem) -> bool:
    return problem.alpha != 0 and problem.k > 0


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
    per = ALIGNMENT // itemsize
    return ceil_div(elements, per) * per


def _copies(spec: KernelSpec, problem: Problem, addresses: Addresses) -> tuple[_Copy, ...]:
    """Which operands must be copied: rows that do not start on 16 bytes, of a kernel that needs them to."""
    if not spec.repacks or not _has_product(problem):
        return ()
    size, (many_a, many_b, _) = problem.dtype.itemsize, problem.copies
    found: list[_Copy] = []
    sides = (
        ("a", problem.a_shape, addresses.a, problem.lda, problem.stride_a, many_a),
        ("b", problem.b_shape, addresses.b, problem.ldb, problem.stride_b, many_b),
    )
    for name, (rows, cols), address, ld, stride, copies in sides:
        starts = (address, ld * size if rows > 1 else 0, stride * size)
        if any(start % ALIGNMENT for start in starts):
            offset = _workspace_of(found, spec.scratch)
            found.append(_Copy(name, rows, cols, address, ld, stride, packed_ld(cols), copies, offset))
    return tuple(found)


def _workspace_of(copies: Sequence[_Copy], scratch: int) -> int:
    """What the kernel's blocks share comes first, then the copies."""
    if not copies:
        return ceil_div(scratch, _REGION) * _REGION
    last = copies[-1]
    return last.offset + ceil_div(packed_bytes(last.rows, last.cols, last.copies), _REGION) * _REGION


def _after(copies: tuple[_Copy, ...], problem: Problem, addresses: Addresses,
           workspace: int) -> tuple[Problem, Addresses]:  # fmt: skip
    """The problem and the addresses that the kernel sees, with copies in the place of operands."""
    for copy in copies:
        place = workspace + copy.offset
        if copy.operand == "a":
            problem = replace(problem, lda=copy.target_ld, stride_a=copy.target_stride)
            addresses = addresses._replace(a=place)
        else:
            problem = replace(problem, ldb=copy.target_ld, stride_b=copy.target_stride)
            addresses = addresses._replace(b=place)
    return problem, addresses


def _copy_launch(copy: _Copy, workspace: int) -> Launch:
    geometry, arguments = repack_launch(
        copy.rows, copy.cols, copy.source, copy.source_ld, workspace + copy.offset, copy.target_ld,
        batch=copy.copies, source_stride=copy.source_stride, target_stride=copy.target_stride,
    )  # fmt: skip
    return Launch(geometry, arguments)
