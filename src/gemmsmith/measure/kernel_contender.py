"""A kernel of ours, or a file of the user's, as a contender."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.render import render_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.measure.results import Pairs
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Enqueue, Identity, OperandSet
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.device import Launch
from gemmsmith.verify.harness import CompileFn, refusal

# PTX that computes in another arithmetic than fp32, fastest first: who mixes two is held to the faster one's limit.
_ARITHMETIC = (
    ("fp8", r"mma\S*\.e[45]m[32]"),
    ("fp16", r"mma\S*\.f16\.f16|wmma\.mma\S*\.f(?:16|32)\.f(?:16|32)|fma\.rn\S*\.f16"),
    ("bf16", r"mma\S*\.bf16|fma\.rn\S*\.bf16"),
    ("tf32", r"mma\S*\.tf32"),
)


class KernelContender:
    """A specification with a configuration: compiled and loaded in ``prepare``, cheap to enqueue after it."""

    def __init__(self, spec: KernelSpec, config: Config, device: CudaDevice, compile_fn: CompileFn) -> None:
        self._spec, self._config, self._device, self._compile = spec, config, device, compile_fn
        name = spec.name if spec.is_rung else spec.source.name
        self._identity = Identity(name, "rung" if spec.is_rung else "file", str(config), version=_version())
        self.resources: Pairs = ()

    @property
    def identity(self) -> Identity:
        return self._identity

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        self._spec.accepts(problem)
        signature = self._spec.signature
        if why := refusal(signature, problem):
            raise UnsupportedError(why)
        config = self._config
        for each in sets:  # one kernel serves all sets, so it must fit the least aligned of them
            config = self._spec.fit(config, problem, (each.a, each.b, each.c))
        compiled = self._compile(self._spec, config, problem, self._device.arch)
        geometry = self._spec.geometry(problem, config)
        loaded = self._device.load(compiled)
        launches = [Launch(geometry, signature.pack(problem, s.a, s.b, s.c)) for s in sets]
        enqueue = self._device.launcher(loaded, launches, stream)
        resident = self._device.resident_blocks(loaded, geometry) * geometry.threads
        used = compiled.resources
        self.resources = (
            ("registers", used.registers), ("smem_bytes", used.static_smem + geometry.smem),
            ("spill_bytes", used.spill_stores + used.spill_loads),
            ("occupancy", resident / self._device.threads_per_sm),
        )  # fmt: skip
        digest = source_digest(self._spec, config, problem, self._device.arch)
        self._identity = replace(self._identity, config=str(config), precision=arithmetic(compiled), digest=digest)
        return enqueue

    def close(self) -> None:
        """Nothing: the device keeps loaded kernels."""


def arithmetic(compiled: CompiledKernel) -> str:
    """What a kernel multiplies in, as its PTX shows: fp32 on CUDA cores unless it uses something faster."""
    return next((name for name, pattern in _ARITHMETIC if re.search(pattern, compiled.ptx)), "fp32")


def source_digest(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> str:
    """Of all source text and macros, headers included: the same for the same code, whatever compiles it."""
    request = render_for(spec, config, problem, arch)
    parts = (request.source, request.headers, request.defines, request.entry)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _version() -> str:
    try:
        return version("gemmsmith")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return ""
