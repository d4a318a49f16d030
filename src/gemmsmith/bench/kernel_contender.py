"""A kernel of ours, or a file of the user's, as a contender."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.call.binding import CompileFn, bind, fitted_config, workspace_bytes
from gemmsmith.compile.render import CompileRequest, render_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, Fallback, KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem, arithmetic_of
from gemmsmith.prologue.build import REGION, build_prologue
from gemmsmith.run.contender import Enqueue, Identity, MethodReader, OperandSet
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.store.results import Pairs
from gemmsmith.verify.harness import refusal

_FRESH = Addresses(REGION, REGION, REGION)  # operands that lie as fresh allocations do


class KernelContender:
    """A specification with a configuration: compiled and loaded in ``prepare``, cheap to enqueue after it."""

    def __init__(self, spec: KernelSpec, config: Config, device: CudaDevice, compile_fn: CompileFn) -> None:
        self._spec, self._config, self._device, self._compile = spec, config, device, compile_fn
        name = spec.name if spec.is_rung else spec.source.name
        self._identity = Identity(name, "rung" if spec.is_rung else "file", str(config), version=_version())
        self.resources: Pairs = ()
        self.method: MethodReader | None = None
        self._workspace = 0

    @property
    def identity(self) -> Identity:
        return self._identity

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        check_accepts(self._spec, problem)
        signature = self._spec.signature
        if why := refusal(signature, problem):
            raise UnsupportedError(why)
        config, places = self._config, [Addresses(each.a, each.b, each.c) for each in sets]
        # Of thousands of sets all that matters here is how they are aligned, which is alike for most of them.
        kinds = {tuple(place % REGION for place in each): each for each in places}.values()
        for each in kinds:  # one kernel serves all sets, so it must fit the least aligned of them
            config = fitted_config(self._spec, config, problem, each)
        seen = build_prologue(self._spec, config, problem, places[0])
        compiled = self._compile(self._spec, config, seen.problem, self._device.arch)
        workspace = self._reserve(max(workspace_bytes(self._spec, config, problem, each) for each in kinds))
        products = [bind(self._device, self._spec, config, problem, each, workspace, self._compile) for each in places]
        enqueue = self._device.launcher(products, stream)
        loaded, geometry = products[0][-1].loaded, products[0][-1].launch.geometry
        resident = self._device.resident_blocks(loaded, geometry) * geometry.threads
        used = compiled.resources
        self.resources = (
            ("registers", used.registers), ("smem_bytes", used.static_smem + geometry.smem),
            ("spill_bytes", used.spill_stores + used.spill_loads),
            ("occupancy", resident / self._device.threads_per_sm),
        )  # fmt: skip
        digest = source_digest(self._spec, config, problem, self._device.arch)
        precision = self._spec.arithmetic or arithmetic(compiled)
        self._identity = replace(self._identity, config=str(config), precision=precision, digest=digest)
        self.method = None if seen.fallback is None else partial(self._read_method, seen.fallback, problem)
        return enqueue

    def _read_method(self, instead: Fallback, problem: Problem) -> str:
        """By the verdict that the latest product left in the workspace."""
        if instead.accepts(self._device.read(self._workspace, instead.verdict_bytes).tobytes()):
            return self._identity.precision
        return instead.spec.arithmetic or arithmetic_of(problem.dtype, instead.spec.tensor_cores)

    def _reserve(self, nbytes: int) -> int:
        """One workspace for all sets: products follow each other on one stream."""
        self.close()
        if nbytes:
            self._workspace = self._device.allocate(nbytes)
        return self._workspace

    def close(self) -> None:
        """Free the workspace; the device keeps loaded kernels."""
        address, self._workspace, self.method = self._workspace, 0, None
        if address:
            self._device.free(address)


def source_digest(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> str:
    """Of all source text and macros, headers included: the same for the same code, whatever compiles it.

    That is the kernel's own, and of what is launched for it where operands lie as fresh allocations do: passes over
    them, and who computes the product instead where data decide.
    """
    parts = tuple(dict.fromkeys(_text(request) for request in _requests(spec, config, problem, arch)))
    # Of a kernel alone as it always was, so that old records can be compared with new ones.
    return hashlib.sha256(repr(parts if len(parts) > 1 else parts[0]).encode()).hexdigest()[:16]


def _requests(
    spec: KernelSpec, config: Config, problem: Problem, arch: str, as_fallback: bool = False
) -> Iterator[CompileRequest]:
    """What is compiled for a product: the kernel, the passes before it in their order, and so on of who is instead."""
    prepared = build_prologue(spec, config, problem, _FRESH, as_fallback=as_fallback)
    yield render_for(spec, config, prepared.problem, arch)
    for each in prepared.launches:
        yield render_for(each.spec, each.spec.config(), each.compiled_for, arch)
    if prepared.fallback is not None:
        yield from _requests(prepared.fallback.spec, prepared.fallback.config, problem, arch, as_fallback=True)


def _text(request: CompileRequest) -> tuple[object, ...]:
    return request.source, request.headers, request.defines, request.entry


def _version() -> str:
    try:
        return version("gemmsmith")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return ""
