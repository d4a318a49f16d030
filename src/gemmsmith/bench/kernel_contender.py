"""A rung, or a user's kernel file, as a contender."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.call.binding import CompileFn, load_plan, specialized_config
from gemmsmith.call.launch_plan import alignment_of, plan_launches
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.render import CompileRequest, render_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.slots import ALIGNMENT_CLASS
from gemmsmith.kernel.spec import Addresses, Fallback, KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem, arithmetic_of, ceil_div
from gemmsmith.prologue.build import REGION, build_prologue
from gemmsmith.run.contender import Enqueue, Identity, MethodReader, OperandSet
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.store.results import Pairs
from gemmsmith.verify.harness import refusal

_FRESH = Addresses(REGION, REGION, REGION)  # operands aligned like fresh allocations


class KernelContender:
    """A spec with a configuration; ``prepare`` compiles and loads it, after which enqueueing is cheap."""

    def __init__(self, spec: KernelSpec, config: Config, device: CudaDevice, compile_fn: CompileFn) -> None:
        self._spec, self._config, self._device, self._compile = spec, config, device, compile_fn
        name = spec.name if spec.is_rung else spec.source.name
        self._identity = Identity(name, "rung" if spec.is_rung else "file", str(config), version=_version())
        self._prepared: tuple[Config, Problem, CompiledKernel] | None = None  # what the identity is still to be read of
        self.resources: Pairs = ()
        self.method: MethodReader | None = None
        self._workspace = 0

    @property
    def identity(self) -> Identity:
        """Read when it is asked for: rendering and searching a kernel's text takes longer than timing it."""
        if self._prepared is not None:
            (config, problem, compiled), self._prepared = self._prepared, None
            digest = source_digest(self._spec, config, problem, self._device.arch)
            precision = self._spec.arithmetic or arithmetic(compiled)
            self._identity = replace(self._identity, config=str(config), precision=precision, digest=digest)
        return self._identity

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        check_accepts(self._spec, problem)
        signature = self._spec.signature
        if why := refusal(signature, problem):
            raise UnsupportedError(why)
        config, places = self._config, [Addresses(each.a, each.b, each.c) for each in sets]
        # There may be thousands of sets; they are planned for by alignment, which most of them share.
        kinds = {alignment_of(each): each for each in places}
        for each in kinds.values():  # one kernel serves all sets, so it must fit the least aligned of them
            config = specialized_config(self._spec, config, problem, each)
        plans = {kind: plan_launches(self._spec, config, problem, each) for kind, each in kinds.items()}
        seen = plans[alignment_of(places[0])]
        compiled = self._compile(self._spec, config, seen.kernel.problem, self._device.arch)
        nbytes = max(plan.workspace_bytes for plan in plans.values())
        # A map that is passed by pointer lies in the workspace, and describes the operands of one set.
        apart = ceil_div(nbytes, ALIGNMENT_CLASS) * ALIGNMENT_CLASS if seen.maps_by_pointer else 0
        workspace = self._reserve(nbytes + apart * (len(sets) - 1))
        loaded_plans = {kind: load_plan(self._device, plan, self._compile) for kind, plan in plans.items()}
        products = [loaded_plans[alignment_of(each)].steps(each, workspace + n * apart)
                    for n, each in enumerate(places)]  # fmt: skip
        enqueue = self._device.launcher(products, stream)
        loaded, geometry = products[0][-1].loaded, products[0][-1].launch.geometry
        resident = self._device.resident_blocks(loaded, geometry) * geometry.threads
        used = compiled.resources
        self.resources = (
            ("registers", used.registers), ("smem_bytes", used.static_smem + geometry.smem),
            ("spill_bytes", used.spill_stores + used.spill_loads),
            ("occupancy", resident / self._device.threads_per_sm),
        )  # fmt: skip
        self._prepared = config, problem, compiled
        self.method = None if seen.decision is None else partial(self._read_method, seen.decision, problem)
        return enqueue

    def _read_method(self, fallback: Fallback, problem: Problem) -> str:
        """The arithmetic of the latest product, from the verdict that it left in the workspace."""
        if fallback.accepts(self._device.read(self._workspace, fallback.verdict_bytes).tobytes()):
            return self.identity.precision
        return fallback.spec.arithmetic or arithmetic_of(problem.dtype, fallback.spec.tensor_cores)

    def _reserve(self, nbytes: int) -> int:
        """The workspace, one for all sets if they can share it: products run in sequence on one stream."""
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
    """A digest of all source text and macros, including headers; it does not depend on the compiler.

    It covers the kernel, its prologue for aligned operands, and its fallback kernel.
    """
    parts = tuple(dict.fromkeys(_text(request) for request in _requests(spec, config, problem, arch)))
    # A kernel without prologue keeps its original digest, so that old records stay comparable.
    return hashlib.sha256(repr(parts if len(parts) > 1 else parts[0]).encode()).hexdigest()[:16]


def _requests(
    spec: KernelSpec, config: Config, problem: Problem, arch: str, as_fallback: bool = False
) -> Iterator[CompileRequest]:
    """Everything compiled for a product: the kernel, its prologue launches in order, and the same for its fallback."""
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
    except PackageNotFoundError:  # run from a source tree without installation
        return ""
