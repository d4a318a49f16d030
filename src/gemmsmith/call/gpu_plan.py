"""A plan on a GPU: an executor with an output and a workspace that last as long as the plan."""

from __future__ import annotations

import sys
from typing import Any
from weakref import finalize

from gemmsmith.call.cache import CACHE
from gemmsmith.call.gpu_executor import Start, executor_for
from gemmsmith.call.key import WHOLE_ADDRESS, call_key
from gemmsmith.call.request import Operands, Request, check_output, replaced
from gemmsmith.errors import DTypeError
from gemmsmith.kernel.spec import Fallback
from gemmsmith.problem import INT8
from gemmsmith.run.tensors import current_stream, empty_like, is_torch, matrix, stream_reader


class GpuPlan:
    """A request that is ready to launch at any time."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._owned: list[Any] = []  # allocated by the plan
        out = request.out
        if out is None:
            out = matrix("out", empty_like(request.a.owner, request.shape, request.problem.out_dtype))
            self._owned.append(out.owner)
        self._planned = Operands(request.a, request.b, request.c, request.bias, out)
        self._result = out.owner
        self._by_torch = is_torch(request.a.owner)
        self._stream = stream_reader(request.a.owner, request.a.ordinal)
        stream = self._stream()
        self._streams = {stream}  # that use what the plan owns
        self._latest: tuple[Any, ...] = ()
        self._identity = object()  # in keys of the cache, which must not keep the plan alive
        self.workspace_bytes, self.launches, self._workspace = 0, 0, 0
        self.decision: Fallback | None = None
        self._held: tuple[int, Start] = (stream, _nothing)
        if not request.empty:
            self._executor = executor_for(request, self._planned)
            self.workspace_bytes, self.launches = self._executor.workspace_bytes, self._executor.launches
            self.decision = self._executor.decision
            self._workspace = self._reserve(self.workspace_bytes)
            self._steps = self._executor.steps(self._planned.addresses, self._workspace)
            self._on_stream(stream)

    def again(self) -> Any:
        stream = self._stream()
        latest, start = self._held
        if stream != latest:
            start = self._on_stream(stream)
        start()
        return self._result

    def _on_stream(self, stream: int) -> Start:
        """The planned launches on another stream, from the same steps."""
        start: Start | None = _nothing if self._request.empty else CACHE.get((self._identity, stream))
        if start is None:
            self._use(stream)
            start = self._executor.on_stream(self._steps, stream, self._planned.copied_c, self._planned.out.address)
            CACHE.put((self._identity, stream), start)
        self._held = (stream, start)
        return start

    def with_others(self, a: Any, b: Any, c: Any, bias: Any, out: Any) -> Any:
        given = (a, b, c, bias, out)
        key, _ = call_key(given, (), WHOLE_ADDRESS)
        known_library = a is None or (self._by_torch and key)
        stream = self._stream() if known_library else current_stream(a, self._request.a.ordinal)
        start = None
        if key:
            key = (self._identity, stream, key)
            start = CACHE.get(key)
        if start is None:
            operands = self._replaced(given)
            start = self._start(operands, stream, cached=not key)
            if key:
                CACHE.put(key, start)
        start()
        self._latest = given
        return self._result if out is None else out

    def _replaced(self, given: tuple[Any, ...]) -> Operands:
        operands = replaced(self._request.problem, self._planned, given)
        if not self._request.empty:
            check_output(self._request.problem, operands.out, operands.a, operands.b, operands.c, operands.bias)
        return operands

    def _start(self, operands: Operands, stream: int, cached: bool = True) -> Start:
        if self._request.empty:
            return _nothing
        self._use(stream)
        resolve = self._executor.start if cached else self._executor.resolved
        return resolve(operands.addresses, self._workspace, stream, operands.copied_c)

    def _reserve(self, nbytes: int) -> int:
        """The address of a workspace that lives as long as the plan."""
        if not nbytes:
            return 0
        try:
            owned = matrix("workspace", empty_like(self._request.a.owner, (1, nbytes), INT8))
        except DTypeError:
            device = self._executor.device
            address = device.allocate(nbytes)
            finalize(self, device.free, address).atexit = False
            return address
        self._owned.append(owned.owner)
        return owned.address

    def read_workspace(self, nbytes: int) -> bytes:
        """Its first bytes, after all work on the device."""
        self._executor.device.synchronize()
        return self._executor.device.read(self._workspace, nbytes).tobytes()

    def _use(self, stream: int) -> None:
        """Tell torch's allocator that ``stream`` uses what the plan owns, or it may reuse the memory too early."""
        if stream in self._streams:
            return
        self._streams.add(stream)
        for each in self._owned:
            if hasattr(each, "record_stream"):
                each.record_stream(sys.modules["torch"].cuda.current_stream(self._request.a.ordinal))


def _nothing() -> None:
    """The launch of an empty product."""
