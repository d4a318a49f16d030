"""The executor of a GPU: the launches of one problem, planned and loaded once, started at any addresses on any stream.

``gemm`` and ``plan`` both launch through it. They differ in who owns output and workspace: ``gemm`` allocates them for
each call, a plan keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from gemmsmith.call.armed import StartAt, arm
from gemmsmith.call.binding import LoadedPlan, load_plan
from gemmsmith.call.cache import CACHE
from gemmsmith.call.key import scalar_key
from gemmsmith.call.launch_plan import alignment_of, plan_launches
from gemmsmith.call.request import Operands, Place, Request
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import DTypeError, LaunchError, ProblemError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import INT8, Problem
from gemmsmith.run.cuda import CudaDevice, cuda_device, device_count
from gemmsmith.run.device import Step
from gemmsmith.run.tensors import empty_like, matrix

Start = Callable[[], None]
"""Starts all launches of a call; returns at once."""


_MOST_THREADS = 64  # that an executor keeps arguments for


class GpuExecutor:
    """A problem, a kernel and its configuration on one GPU, for operands aligned as ``addresses``.

    It holds no operands. Operands of another alignment are planned for when they come; they must not need more
    workspace than the first.
    """

    def __init__(self, device: CudaDevice, spec: KernelSpec, config: Config, problem: Problem,
                 addresses: Addresses) -> None:  # fmt: skip
        self.device = device
        self._spec, self._config, self._problem = spec, config, problem
        self._loaded = self._load(addresses)
        self.workspace_bytes = self._loaded.plan.workspace_bytes
        self.launches = len(self._loaded.launches)
        self.decision = self._loaded.plan.decision
        self._only_gpu = device_count() == 1
        self.armed: dict[int, StartAt] = {}  # by thread; empty where there are several GPUs, or maps are not patched
        self._can_arm = self._only_gpu

    def _load(self, addresses: Addresses) -> LoadedPlan:
        return load_plan(self.device, plan_launches(self._spec, self._config, self._problem, addresses), compile_for)

    def run(self, addresses: tuple[int, int, int, int], workspace: int, stream: int, c: Place | None) -> None:
        """Start the launches at these addresses, which must be aligned as the executor's; ``start`` says the rest.

        Addresses that are new cost no more than old ones: a program allocates its results anew.
        """
        if c is None and self._can_arm:
            launches = self.armed.get(get_ident()) or self._arm(get_ident())
            if launches is not None:
                # The only GPU is current already, unless this thread has never used it; asking would cost more.
                try:
                    launches(*addresses, workspace, stream)
                except LaunchError:
                    with self.device.current():
                        launches(*addresses, workspace, stream)
                return
        self.start(addresses, workspace, stream, c)()

    def _arm(self, thread: int) -> StartAt | None:
        if len(self.armed) >= _MOST_THREADS:
            self.armed.clear()
        found = arm(self._loaded)
        if found is None:
            self._can_arm = False
        else:
            self.armed[thread] = found
        return found

    def start(self, addresses: tuple[int, int, int, int], workspace: int, stream: int, c: Place | None) -> Start:
        """What starts the launches at these addresses of A, B, the output and the bias; cached.

        ``c`` is copied into the output first, where the kernel reads it; None where it is there already or not read.
        """
        key = (self, stream, workspace, addresses, c)
        found: Start | None = CACHE.get(key)
        if found is None:
            found = self.resolved(addresses, workspace, stream, c)
            CACHE.put(key, found)
        return found

    def resolved(self, addresses: tuple[int, int, int, int], workspace: int, stream: int, c: Place | None) -> Start:
        """The same, not cached."""
        places = Addresses(*addresses)
        return self.on_stream(self.steps(places, workspace), stream, c, places.c)

    def steps(self, addresses: Addresses, workspace: int) -> tuple[Step, ...]:
        """The launches at these addresses."""
        return self._aligned_as(addresses).steps(addresses, workspace)

    def on_stream(self, steps: tuple[Step, ...], stream: int, c: Place | None, out: int) -> Start:
        """What starts ``steps`` on ``stream``, after copying ``c`` to the address ``out``."""
        enqueue = self.device.launcher([steps], stream)
        if c is not None:
            enqueue = self._after_copy(enqueue, c, out, stream)
        return _with_current(self.device, enqueue)

    def _aligned_as(self, addresses: Addresses) -> LoadedPlan:
        alignment = alignment_of(addresses)
        if alignment == self._loaded.plan.alignment:
            return self._loaded
        key = (self, alignment)
        found: LoadedPlan | None = CACHE.get(key)
        if found is None:
            found = self._load(addresses)
            CACHE.put(key, found)
        if found.plan.workspace_bytes > self.workspace_bytes:
            raise ProblemError(
                f"operands aligned like these need a workspace of {found.plan.workspace_bytes:,} bytes, and the plan "
                f"has {self.workspace_bytes:,}", "make a plan for them",
            )  # fmt: skip
        return found

    def _after_copy(self, enqueue: Callable[[int], None], c: Place, out: int, stream: int) -> Callable[[int], None]:
        device, problem = self.device, self._problem
        size = problem.out_dtype.itemsize
        source, pitch, stride = c

        def copy_and_enqueue(index: int) -> None:
            for i in range(problem.batch):
                device.copy_rows(out + i * problem.stride_c * size, problem.ldc * size, source + i * stride * size,
                                 pitch * size, problem.n * size, problem.m, stream)  # fmt: skip
            enqueue(index)

        return copy_and_enqueue


def _with_current(device: CudaDevice, enqueue: Callable[[int], None]) -> Start:
    """``enqueue`` with its GPU current."""

    def select_and_start() -> None:
        with device.current():
            enqueue(0)

    def start() -> None:
        # The only GPU is current already, unless this thread has never used it; asking first would cost more.
        try:
            enqueue(0)
        except LaunchError:
            select_and_start()

    return start if device_count() == 1 else select_and_start


def executor_for(request: Request, operands: Operands) -> GpuExecutor:
    """The executor of a request, cached unless its kernel is a user's file, which may change."""
    device, problem, addresses = cuda_device(request.a.ordinal), request.problem, operands.addresses
    if not request.spec.is_rung:
        return GpuExecutor(device, request.spec, request.config, problem, addresses)
    key = ("executor", device, request.spec, request.config, problem, *scalar_key(problem.alpha),
           alignment_of(addresses))  # fmt: skip
    found: GpuExecutor | None = CACHE.get(key)
    if found is None:
        found = GpuExecutor(device, request.spec, request.config, problem, addresses)
        CACHE.put(key, found)
    return found


@contextmanager
def stream_workspace(device: CudaDevice, nbytes: int, like: Any, stream: int) -> Iterator[int]:
    """The address of memory for the launches made inside, on ``stream``; 0 where none is needed.

    It comes from the operands' own library where that allocates: its pool reuses the memory in stream order. The
    driver does the same for others.
    """
    if nbytes == 0:
        yield 0
        return
    try:
        owned = matrix("workspace", empty_like(like, (1, nbytes), INT8))
    except DTypeError:
        address = device.allocate_in_order(nbytes, stream)
        try:
            yield address
        finally:
            device.free_in_order(address, stream)
    else:
        yield owned.address
