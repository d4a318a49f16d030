"""A product that is prepared once and launched many times, at little cost to the host.

    request ─► kernel chosen, compiled, loaded ─► output, workspace, tensor maps ─► plan()  plan()  plan() …

``gemm`` is told everything anew at every call; most of what it does then is the same each time. A plan has done it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import finalize

import numpy as np

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.call.request import Operands, Request, check_output, fingerprint, named, replaced
from gemmsmith.errors import DTypeError, LaunchError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses
from gemmsmith.problem import INT8, DType, Problem, arithmetic_of
from gemmsmith.prologue.build import build_prologue
from gemmsmith.run.cuda import CudaDevice, cuda_device, device_count
from gemmsmith.run.device import Step
from gemmsmith.run.tensors import Matrix, current_stream, empty_like, matrix, stream_reader
from gemmsmith.sim.device import SimDevice

_MOST_KEPT = 256  # sets of operands, and streams, whose launches are kept
_T = TypeVar("_T")


class Plan:
    """``gemm`` with everything prepared. Call it to compute; on a GPU it launches on the caller's current stream.

    ``plan()`` computes with the operands it was made with, as they are now, and returns the output: the same array
    every time. ``plan(a, b, c, bias=…, out=…)`` takes others in place of some or all of them, for this call, if they
    have the same shape, type, strides, device and alignment; those it has seen before cost little. Anything else is
    refused, and nothing is changed.

    On a GPU it allocates nothing, waits for nothing and asks the driver nothing, so it can be captured into a CUDA
    graph. A plan owns its output, where none was passed, and a workspace, where operands must be prepared first: so it
    is for one stream at a time, and must live as long as a graph that captured it. Operands it was made with, and those
    of the last call, are kept alive.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        product = _OnGpu(request) if request.a.on_gpu else _OnSimulator(request)
        self._again: Callable[[], Any] = product.again
        self._with: Callable[[Mapping[str, Any]], Any] = product.with_
        self._read_workspace: Callable[[int], bytes] = product.read_workspace
        self._called = False
        self.workspace_bytes = product.workspace_bytes
        self.launches = product.launches

    def __call__(self, a: Any = None, b: Any = None, c: Any = None, *, bias: Any = None, out: Any = None) -> Any:
        if a is None and b is None and out is None and c is None and bias is None:
            result = self._again()
        else:
            result = self._with({"a": a, "b": b, "c": c, "bias": bias, "out": out})
        self._called = True
        return result

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self._request.spec.name

    @property
    def config(self) -> Config:
        """As it was chosen; alignment of the operands may adapt it (KernelSpec.fit)."""
        return self._request.config

    @property
    def source(self) -> str:
        """Where the choice comes from: 'given', 'tuned', 'shipped', 'model' or 'default'."""
        return self._request.source

    @property
    def problem(self) -> Problem:
        return self._request.problem

    def method(self) -> str:
        """What the latest product was multiplied in: 'fp32', 'tf32', 'bf16x6', 'fp16x3' …

        Of kernels that look at the data, such as fp32_tensor_fp16x3, the verdict is read from the device: this waits
        for all its work, and must not be called while a graph is captured. A replay of a graph counts as a product.
        """
        spec, problem = self._request.spec, self._request.problem
        instead = (
            None if self._request.empty else build_prologue(spec, self.config, problem, Addresses(0, 0, 0)).fallback
        )
        if instead is not None:
            if not self._called:
                raise UsageError("this plan has not computed anything yet", "call it first: its data decide the method")
            if not instead.accepts(self._read_workspace(instead.verdict_bytes)):
                spec = instead.spec
        return spec.arithmetic or arithmetic_of(problem.dtype, spec.tensor_cores)

    def __repr__(self) -> str:
        text = f"<gemmsmith.Plan {self.problem}: {self.kernel} {self.config}".rstrip()
        text += f" ({self.source}), {self.launches} launch{'' if self.launches == 1 else 'es'}"
        return text + (f", workspace of {self.workspace_bytes:,} bytes>" if self.workspace_bytes else ">")


class _OnGpu:
    """Launches that are described completely, for each stream and each set of operands."""

    def __init__(self, request: Request) -> None:
        self._request, self._device = request, cuda_device(request.a.ordinal)
        self._own: list[Any] = []  # allocated by the plan
        out = request.out
        if out is None:
            out = matrix("out", empty_like(request.a.owner, request.shape, request.problem.out_dtype))
            self._own.append(out.owner)
        self._planned = Operands(request.a, request.b, request.c, request.bias, out)
        self._result = out.owner
        self._prints = {name: fingerprint(each.owner) for name, each in named(self._planned).items()}
        self._addresses = _addresses(self._planned)
        self._stream = stream_reader(request.a.owner, request.a.ordinal)
        self._made_on = self._stream()
        self._latest: Mapping[str, Any] = {}
        self._sets: dict[tuple[int, ...], tuple[Step, ...]] = {}
        self._others: dict[tuple[int, ...], Callable[[], None]] = {}
        self._mine: dict[int, Callable[[], None]] = {}
        self.workspace_bytes, self.launches, self._workspace = 0, 0, 0
        if not request.empty:
            self.workspace_bytes = workspace_bytes(
                request.spec, request.config, request.problem, self._planned.addresses
            )
            self._workspace = self._reserved(self.workspace_bytes)
            steps = self._steps(self._planned)
            self.launches = len(steps)
            self._mine[self._made_on] = self._launcher(self._planned, steps, self._made_on)

    def again(self) -> Any:
        stream = self._stream()
        launch = self._mine.get(stream)
        if launch is None:
            launch = self._for_stream(stream)
        launch()
        return self._result

    def _for_stream(self, stream: int) -> Callable[[], None]:
        if self._request.empty:
            return _nothing
        self._note(stream)
        return _kept(self._mine, stream, self._launcher(self._planned, self._steps(self._planned), stream))

    def with_(self, given: Mapping[str, Any]) -> Any:
        stream = self._stream() if given["a"] is None else current_stream(given["a"], self._request.a.ordinal)
        addresses = self._seen(given)
        launch = self._others.get((stream, *addresses)) if addresses is not None else None
        if launch is None:
            launch = self._for_others(given, stream)
        launch()
        self._latest = given
        return self._result if given["out"] is None else given["out"]

    def _seen(self, given: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The addresses of torch tensors that are like the planned ones; None where others are among them."""
        addresses = []
        for name, planned in self._addresses.items():
            value = given[name]
            if name == "bias" and getattr(value, "ndim", 0) == 1:
                value = value.reshape(1, -1)  # as the plan has it
            if value is None:
                addresses.append(planned)
            elif (found := fingerprint(value)) is not None and found == self._prints.get(name):
                addresses.append(value.data_ptr())
            else:
                return None
        return tuple(addresses)

    def _for_others(self, given: Mapping[str, Any], stream: int) -> Callable[[], None]:
        operands = replaced(self._request.problem, self._planned, given, self._prints)
        if self._request.empty:
            return _nothing
        check_output(self._request.problem, operands.out, operands.a, operands.b, operands.c, operands.bias)
        self._note(stream)
        addresses = tuple(_addresses(operands).values())
        return _kept(self._others, (stream, *addresses), self._launcher(operands, self._steps(operands), stream))

    def _steps(self, operands: Operands) -> tuple[Step, ...]:
        key = tuple(_addresses(operands).values())
        known = self._sets.get(key)
        if known is None:
            r = self._request
            known = bind(self._device, r.spec, r.config, r.problem, operands.addresses, self._workspace)
            _kept(self._sets, key, known)
        return known

    def _launcher(self, operands: Operands, steps: tuple[Step, ...], stream: int) -> Callable[[], None]:
        """All of it for one stream: C into the output, where they differ, and the launches."""
        device, problem = self._device, self._request.problem
        start = partial(device.launcher([steps], stream), 0)
        # Without their owners: a launch that is kept must not keep tensors alive.
        copied = None
        if operands.copies_c and operands.c is not None:
            copied = (replace(operands.c, owner=None), replace(operands.out, owner=None))

        def launch() -> None:
            if copied is not None:
                copy_c(device, problem, *copied, stream)
            start()

        return on_its_gpu(device, launch)

    def _reserved(self, nbytes: int) -> int:
        """The address of a workspace that lives as long as the plan."""
        if not nbytes:
            return 0
        try:
            owned = matrix("workspace", empty_like(self._request.a.owner, (1, nbytes), INT8))
        except DTypeError:
            address = self._device.allocate(nbytes)
            finalize(self, self._device.free, address).atexit = False
            return address
        self._own.append(owned.owner)
        return owned.address

    def read_workspace(self, nbytes: int) -> bytes:
        """Its first bytes, after all work on the device."""
        self._device.synchronize()
        return self._device.read(self._workspace, nbytes).tobytes()

    def _note(self, stream: int) -> None:
        """Tell torch of another stream that uses what the plan allocated, or it might give it away too early."""
        if stream != self._made_on:
            for each in self._own:
                if hasattr(each, "record_stream"):
                    each.record_stream(sys.modules["torch"].cuda.current_stream(self._request.a.ordinal))


class _OnSimulator:
    """Simulated memory for the operands, and the launches on it; every call copies them there and the result back."""

    workspace_bytes = 0
    launches = 0

    def __init__(self, request: Request) -> None:
        self._request, self._problem = request, request.problem.with_()  # simulated copies are tight
        out = request.out
        if out is None:
            out = matrix("out", np.empty(request.shape, self._problem.out_dtype.numpy))
        self._planned = Operands(request.a, request.b, request.c, request.bias, out)
        if request.empty:
            return
        self._device = SimDevice()
        sizes = [_dense(each).nbytes for each in (request.a, request.b, out)]
        sizes += [_dense(request.bias).nbytes] if request.bias is not None else []
        self._places = Addresses(*(self._device.allocate(max(1, size)) for size in sizes))
        self.workspace_bytes = workspace_bytes(request.spec, request.config, self._problem, self._places)
        self._workspace = self._device.allocate(self.workspace_bytes)
        self._steps = bind(self._device, request.spec, request.config, self._problem, self._places, self._workspace)
        self.launches = len(self._steps)

    def again(self) -> Any:
        return self._run(self._planned)

    def with_(self, given: Mapping[str, Any]) -> Any:
        operands = replaced(self._request.problem, self._planned, given, {})
        check_output(self._request.problem, operands.out, operands.a, operands.b, operands.c, operands.bias)
        return self._run(operands)

    def read_workspace(self, nbytes: int) -> bytes:
        """Its first bytes."""
        return self._device.read(self._workspace, nbytes).tobytes()

    def _run(self, operands: Operands) -> Any:
        result, device = operands.out.owner, self._device if not self._request.empty else None
        if device is None:
            return result
        device.write(self._places.a, _dense(operands.a))
        device.write(self._places.b, _dense(operands.b))
        start = operands.c.owner if operands.c is not None else _unset(result.shape, self._problem.out_dtype)
        device.write(self._places.c, _bytes(start))
        if operands.bias is not None:
            device.write(self._places.bias, _dense(operands.bias))
        for step in self._steps:
            device.launch(step.loaded, step.launch)
        nbytes = self._problem.batch * self._problem.m * self._problem.n * self._problem.out_dtype.itemsize
        data = device.read(self._places.c, nbytes)
        result[...] = data.view(self._problem.out_dtype.numpy).reshape(result.shape)
        return result


def simulated(request: Request) -> Any:
    """One product on the simulator."""
    return _OnSimulator(request).again()


def on_its_gpu(device: CudaDevice, launch: Callable[[], None]) -> Callable[[], None]:
    """``launch`` with its GPU current."""

    def on_another() -> None:
        with device.current():
            launch()

    def on_only() -> None:
        # The GPU is the caller's already, unless its thread has never used it: asking would cost more.
        try:
            launch()
        except LaunchError:
            on_another()

    return on_only if device_count() == 1 else on_another


def _nothing() -> None:
    """The launch of an empty product."""


def _kept(known: dict[Any, _T], key: Any, value: _T) -> _T:
    """Remember it, and forget the oldest where there are too many."""
    if len(known) >= _MOST_KEPT:
        del known[next(iter(known))]
    known[key] = value
    return value


def _addresses(operands: Operands) -> dict[str, int]:
    return {name: each.address if each is not None else 0 for name, each in operands.all.items()}


def _dense(operand: Matrix) -> np.ndarray[Any, Any]:
    """The bytes of an operand as stored, without gaps."""
    return _bytes(operand.owner.swapaxes(-1, -2) if operand.transposed else operand.owner)


def _bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _unset(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """What C holds where it is not read: NaN, where there is one."""
    return np.zeros(shape, dtype.numpy) if dtype.numpy.kind == "i" else np.full(shape, np.nan, dtype.numpy)


def copy_c(device: CudaDevice, problem: Problem, source: Matrix, target: Matrix, stream: int) -> None:
    """C into the output, where the kernel will read it."""
    size = problem.out_dtype.itemsize
    for i in range(problem.batch):
        device.copy_rows(target.address + i * target.stride * size, target.leading * size,
                         source.address + i * source.stride * size, source.leading * size, problem.n * size,
                         problem.m, stream)  # fmt: skip
