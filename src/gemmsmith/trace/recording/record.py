"""Record a launch: of a rung or a user's matrix product, or any other that ``gemmsmith.Launch`` describes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gemmsmith.call.any_kernel.arguments import Argument, match_arguments
from gemmsmith.call.any_kernel.symbols import match_symbols
from gemmsmith.call.binding import bind_launch
from gemmsmith.call.launch import DEFAULT_ARCH, run_kernel
from gemmsmith.call.launch import Launch as AnyLaunch
from gemmsmith.call.launch_plan import LaunchPlan, MapArgument, plan_launches
from gemmsmith.call.pointer_tables import pointer_tables
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import UsageError
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.slots import Slot
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.memory import upload
from gemmsmith.trace.launch_trace import LaunchTrace, Size
from gemmsmith.trace.recording.build import build_trace
from gemmsmith.trace.recording.device import Shape, TracingDevice, flat
from gemmsmith.trace.recording.matrices import is_column_major, product_shapes
from gemmsmith.verify.guarded_run import spare_bytes

WORKSPACE = "workspace"


def record_product(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, *, title: str,
    block: Size = (0, 0, 0), text_of: Callable[[str], str], timeout: float = math.inf,
    outline: bool = True, confirmed: bool = True,
) -> LaunchTrace:  # fmt: skip
    """Record the launch of a kernel that computes a matrix product, after its prologue.

    Without ``outline``, other blocks run only where the recorded one needs them. Without ``confirmed``, the layout is
    a guess, which the trace says.
    """
    named: Callable[[str], str] = str if spec.is_rung else spec.signature.named
    device = TracingDevice(compiled.arch, (), block, timeout)
    if not outline:
        device.most_threads = 0
    loaded = device.load(compiled)
    fill = "integers" if spec.prologue is not None else "normal"
    matrices = _upload_matrices(device, spec, problem, fill)
    with pointer_tables(device, spec.signature, problem, matrices) as places:
        plan = plan_launches(spec, config, problem, places, specialized=True, tables=True)
        workspace = device.allocate(plan.workspace_bytes)
        device.trace_next = False
        for each in plan.prologue:
            step = bind_launch(device, each, places, workspace)
            device.launch(step.loaded, step.launch)
        for address, shape in product_shapes(spec, problem, matrices, named):
            device.shapes[shape.name] = shape
            device.label(address, shape.name, shape.itemsize)
        for shape in _workspace_shapes(plan):
            device.shapes[shape.name] = shape
            device.label(workspace, shape.name, shape.itemsize)
        step = bind_launch(device, plan.kernel, places, workspace, loaded)
        _check_block(block, step.launch.geometry.grid)
        device.trace_next = True
        device.launch(loaded, step.launch)
    assert device.recorded is not None
    m, n = (problem.n, problem.m) if is_column_major(spec) else (problem.m, problem.n)
    facts = {"m": m, "n": n, "k": problem.k, "batch": problem.batch, "dtype": problem.dtype.name,
             "out_dtype": problem.out_dtype.name, "alpha": problem.alpha, "beta": problem.beta,
             "output": named(spec.signature.output)} | ({} if confirmed else {"guessed": True})  # fmt: skip
    return build_trace(device.recorded, kernel=spec.name, title=title, file=spec.source.name, traced=block,
                       compiled=compiled, problem=facts, text_of=text_of)  # fmt: skip


def record_launch(
    launch: AnyLaunch, *, title: str, block: Size = (0, 0, 0), arch: str = DEFAULT_ARCH,
    cache: CompileCache | None = None, timeout: float = math.inf,
) -> tuple[LaunchTrace, CompiledKernel]:  # fmt: skip
    """Record a launch of any kernel."""
    kernel = launch.compile(arch, cache)
    given = launch.arguments
    values = launch.args if given is None else given.values()
    assert not isinstance(values, str)
    arguments = match_arguments(kernel, values)
    _check_block(block, launch.geometry.grid)
    device = TracingDevice(kernel.compiled.arch, _argument_shapes(arguments), block, timeout)
    run_kernel(kernel, launch.geometry, arguments, device, match_symbols(kernel, launch.symbols))
    assert device.recorded is not None
    files = kernel.files
    made = build_trace(device.recorded, kernel=kernel.name, title=title, file=kernel.file, traced=block,
                       compiled=kernel.compiled, problem={}, text_of=lambda name: files.get(name, ""))  # fmt: skip
    return made, kernel.compiled


def _check_block(block: Size, grid: Size) -> None:
    if any(at < 0 or at >= size for at, size in zip(block, grid, strict=True)):
        raise UsageError(f"there is no block {','.join(map(str, block))}: the grid is {'×'.join(map(str, grid))}",
                         "count from 0: --block x,y,z")  # fmt: skip


def _upload_matrices(device: TracingDevice, spec: KernelSpec, problem: Problem, fill: str) -> Addresses:
    """Operands on the device: A, B, C, and the bias, or the C that is added where D is the output."""
    out = problem.batch * problem.m * problem.ldc * problem.out_dtype.itemsize
    spare = spare_bytes(spec, problem)
    found = []
    for role, matrix in (("A", operands(problem.with_(n=0, bias=""), fill).a),
                         ("B", operands(problem.with_(m=0, bias=""), fill).b)):  # fmt: skip
        values = np.ascontiguousarray(matrix).reshape(-1).view(np.uint8)
        found.append(upload(device, np.concatenate([values, np.zeros(spare.get(role, 0), np.uint8)])))
    found.append(device.allocate(out))
    if problem.bias:
        found.append(upload(device, np.ones(problem.bias_length, problem.out_dtype.numpy)))
    elif spec.signature.has("D"):
        found.append(device.allocate(out))
    return Addresses(*found)


def _workspace_shapes(plan: LaunchPlan) -> list[Shape]:
    """What the prologue prepares in the workspace, as the kernel's tensor maps describe it."""
    found: dict[str, Shape] = {}
    names = [argument.name for argument in plan.kernel.spec.signature.arguments]
    for n, argument in enumerate(plan.kernel.arguments):
        if not isinstance(argument, MapArgument) or argument.address.slot is not Slot.WORKSPACE:
            continue
        described = argument.described
        columns, rows = described.extents[0], math.prod(described.extents[1:])
        pitch = described.strides[0] // described.dtype.itemsize if described.strides else columns
        name = f"{names[n] if n < len(names) else n} in the workspace"
        found[name] = Shape(name, rows, columns, pitch, 1, described.dtype.itemsize, described.dtype.name,
                            offset=argument.address.offset)  # fmt: skip
    if not found and plan.prologue and plan.workspace_bytes:
        found[WORKSPACE] = flat(WORKSPACE, plan.workspace_bytes // 2, 2, "b16")
    return list(found.values())


def _argument_shapes(arguments: tuple[Argument, ...]) -> list[Shape]:
    found = []
    for argument in arguments:
        many = len(argument.arrays) > 1
        for n, host in enumerate(argument.arrays):
            values, strides, size = host.values, host.strides, max(1, host.values.dtype.itemsize)
            name = f"{argument.name}[{n}]" if many or argument.is_table else argument.name
            if values.ndim >= 2 and all(step > 0 and step % size == 0 for step in strides):
                rows = math.prod(values.shape[:-1])
                found.append(Shape(name, rows, values.shape[-1], strides[-2] // size, strides[-1] // size, size,
                                   str(values.dtype)))  # fmt: skip
            else:
                found.append(flat(name, values.size, size, str(values.dtype)))
    return found
