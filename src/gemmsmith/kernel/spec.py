"""What a kernel is: a source file and a specification of how it may be configured and launched.

Everything another stage needs to know about a kernel is here, so that a rung of the ladder and a file a user brings are
the same kind of thing. A kernel may need launches of its own before it, its prologue, which consist of kernels again:
so both are described in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.renamed import PRESETS, replacement
from gemmsmith.kernel.signature import Signature, parse_signature
from gemmsmith.problem import FP16, FP32, DType, Problem

Constraint = Callable[[Config], str | None]
"""Returns why a configuration is illegal, in words and with the arithmetic, or None."""

Specialize = Callable[[Config, Problem, tuple[int, int, int]], Config]
"""The configuration for a problem with A, B and C at these addresses: aligned operands may have a faster path."""

TensorMaps = Callable[[Problem, Config], dict[str, TensorMap]]
"""The tensor maps of an entry, by parameter name; a map that a configuration does not use may be left out."""


class Addresses(NamedTuple):
    """Where A, B, C and the bias (0: none) begin on the device."""

    a: int
    b: int
    c: int
    bias: int = 0


@dataclass(frozen=True)
class Workspace:
    """Device memory that a kernel's blocks share; the first ``zeroed`` bytes are 0 when it starts."""

    nbytes: int = 0
    zeroed: int = 0  # a multiple of 4096


def unchanged(config: Config, _problem: Problem, _addresses: tuple[int, int, int]) -> Config:
    """``specialize`` of a kernel with one path for all operands."""
    return config


@dataclass(frozen=True)
class KernelSpec:
    """A kernel's name, lesson, parameters, limits and launch geometry.

    geometry            one block, or cluster, for each piece of work. Blocks of a ``persistent`` kernel loop over the
                        pieces, so only as many are launched as the GPU holds at once; work lies along x alone
    specialize          the configuration for given operands
    align_copies        rows of A and B that do not start on 16 bytes are first copied to rows that do
    unaligned_operands  operands that a configuration reads in place, however aligned: '', 'A', 'B' or 'AB'
    transposed_copy     whether a configuration needs A and B with M or N contiguous, in rows that start on 16 bytes
    workspace           memory that the blocks share
    prologue            all launches before the kernel, in place of the four above (prologue/build.py)
    tensor_maps         for the problem after the prologue, with the leading dimensions and strides of the copies; its K
                        is at least 1, as a map has no empty dimension
    made_for            M, N and K of products that a rung is made for, where cubes are not: `climb` compares it there
    small               changes of the default that make the kernel cheap to simulate, with every part of it in use:
                        several warps, several k-tiles, several outputs per thread
    """

    name: str
    source: Path
    summary: str
    teaches: str
    geometry: Callable[[Problem, Config], Geometry]
    entry: str = "gemm"
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    presets: tuple[Preset, ...] = ()
    small: tuple[tuple[str, int], ...] = ()
    made_for: tuple[tuple[int, int, int], ...] = ()
    dtypes: tuple[DType, ...] = (FP32,)
    out_dtypes: tuple[DType, ...] = (FP32,)
    layouts: tuple[str, ...] = ("NN",)
    epilogue: bool = False  # takes a bias and an activation
    batched: bool = False
    tensor_cores: bool = False  # accumulates as tensor cores do, which truncate
    arithmetic: str = ""  # 'bf16x6': the precision of the product, where the instructions suggest another
    specialize: Specialize = unchanged
    min_arch: int = 75
    arch_specific: int = 0  # 90: uses features of compute capability 9.0 alone, so it is compiled for sm_90a
    simulated: bool = True  # the simulator implements all of its instructions
    tensor_maps: TensorMaps | None = None
    align_copies: bool = False
    unaligned_operands: Callable[[Config], str] | None = None
    transposed_copy: Callable[[Config], bool] | None = None
    workspace: Callable[[Problem, Config], Workspace] | None = None
    prologue: PrologueBuilder | None = None
    persistent: bool = False
    stages_per_k_tile: int = 1  # of the STAGES of its pipeline: fp32 numbers that are split take one for each part
    rung: int = 0
    extra_defines: tuple[tuple[str, str], ...] = ()
    declared_signature: str = ""
    unit: Path | None = None  # a user's header: the file that includes it and defines what it uses
    known_signature: Signature | None = None  # a user's kernel: what its parameters mean
    accumulator: DType | None = None  # a user's kernel: the type its products are summed in, where it is not fp32
    rounds_again: bool = False  # a user's kernel: it rounds to its 16-bit output type before its epilogue is done
    include: tuple[Path, ...] = ()  # folders in which a user's file finds its headers
    edited: tuple[tuple[Path, str], ...] = ()  # texts in place of files: a change that is tried on a copy

    def __hash__(self) -> int:
        # Kernels are keys of caches on the call path; hashing all parameters and presets would take longer.
        return hash((self.name, self.source, self.extra_defines))

    @property
    def code(self) -> str:
        """The CUDA C++ source."""
        return self.source.read_text(encoding="utf-8", errors="replace")

    @property
    def signature(self) -> Signature:
        """The entry's parameters and what each one means; a rung's file is read once, a user's may change."""
        if self.known_signature is not None:
            return self.known_signature
        return self._rung_signature if self.is_rung else self._read_signature()

    def problem(self, m: int, n: int, k: int, dtype: DType | None = None, **given: Any) -> Problem:
        """A product that this kernel takes. Of a user's kernel: in its own types, layout, M and N (a column-major one
        computes the transposed product), with beta 1 if it adds to C."""
        if self.is_rung or self.known_signature is None:
            return Problem(m, n, k, dtype=dtype or self.dtypes[0], **given)
        signature, layout = self.known_signature, self.layouts[0]
        if signature.column_major:
            m, n = n, m
            given = {{"lda": "ldb", "ldb": "lda"}.get(name, name): value for name, value in given.items()}
        own: dict[str, Any] = {"trans_a": layout[0] == "T", "trans_b": layout[1] == "T"}
        own |= {"out_dtype": self.out_dtypes[0], "beta": float(signature.accumulates), "own_scalars": True}
        own["activation"] = signature.activation
        if signature.has("bias"):
            own["bias"] = "row" if signature.column_major else "column"
        return signature.tie(Problem(m, n, k, dtype=dtype or self.dtypes[0], **(own | given)))

    def read_as(self, signature: Signature, layout: str) -> KernelSpec:
        """A user's kernel with other meanings of its parameters, launched accordingly; ``layout`` as in a Problem."""
        launch = getattr(self.geometry, "read_as", None)
        geometry = launch(signature) if launch is not None else self.geometry
        maps = getattr(geometry, "tensor_maps", self.tensor_maps) if self.tensor_maps is not None else None
        batched = self.batched and signature.has("batch") >= self.signature.has("batch")
        return replace(self, known_signature=signature, layouts=(layout,), geometry=geometry, tensor_maps=maps,
                       batched=batched)  # fmt: skip

    @cached_property
    def _rung_signature(self) -> Signature:
        return self._read_signature()

    def _read_signature(self) -> Signature:
        ours = self.tensor_maps is not None or self.is_rung  # may take a workspace, which a user's file cannot be given
        return parse_signature(self.code, self.entry, self.declared_signature, tensor_maps=ours)

    @property
    def is_rung(self) -> bool:
        """Whether this is a rung of the ladder rather than a user's file."""
        return self.rung > 0

    def config(self, changes: Mapping[str, int | str] | None = None, preset: str = "") -> Config:
        """The default (or a preset's) configuration with ``changes`` applied, checked for legality.

        A value may be given by its name, if the parameter has names for values.
        """
        values = {p.name: p.default for p in self.parameters}
        if preset:
            values.update(self._preset(preset).config.values)
        for name, value in (changes or {}).items():
            if name not in values:
                raise self._unknown_parameter(name, value)
            values[name] = self.value_of(name, value)
        config = Config(tuple(values.items()))
        reasons = self.illegal(config)
        if reasons:
            raise ConfigError(f"{self.name} cannot run with {config}: {reasons[0]}", "; ".join(reasons[1:]))
        return config

    def small_config(self) -> Config:
        """The configuration for tests on the simulator."""
        return self.config(dict(self.small))

    def value_of(self, name: str, given: int | str) -> int:
        """The value of parameter ``name``, given as an integer or by its own name; it may be illegal."""
        parameter = next(p for p in self.parameters if p.name == name)
        value = parameter.value_named(given) if isinstance(given, str) else given
        if isinstance(value, bool) or not isinstance(value, int):
            words = ", ".join(word for _, word in parameter.value_names)
            raise ConfigError(f"{self.name}: {name} must be an integer{words and f' or one of {words}'}, not {given!r}")
        return value

    def _unknown_parameter(self, name: str, value: int | str) -> ConfigError:
        known = ", ".join(p.name for p in self.parameters) or "it has none"
        number = int(value) if str(value).removeprefix("-").isdecimal() else value
        if self.is_rung and (new := replacement(name, number)):
            return ConfigError(f"{self.name} has no parameter {name}: it was renamed", f"write {new}")
        return ConfigError(f"{self.name} has no parameter {name}", f"its parameters: {known}")

    def _preset(self, name: str) -> Preset:
        for preset in self.presets:
            if preset.name == name:
                return preset
        if (self.name, name) in PRESETS:
            new = PRESETS[self.name, name]
            raise ConfigError(f"{self.name} has no preset {name!r}: it was renamed", f"write {new}")
        known = ", ".join(p.name for p in self.presets) or "none"
        raise ConfigError(f"{self.name} has no preset {name!r}", f"its presets: {known}")

    def illegal(self, config: Config) -> list[str]:
        """Every reason why ``config`` is illegal; empty when it is legal."""
        reasons = []
        for parameter in self.parameters:
            value = config[parameter.name]
            if value not in parameter.legal:
                legal = ", ".join(map(parameter.shown, parameter.legal))
                reasons.append(f"{parameter.name}={value} is not one of {legal}")
        if reasons:
            return reasons  # constraints may divide by these values
        return [reason for check in self.constraints if (reason := check(config)) is not None]

    def refusal(self, problem: Problem) -> str:
        """Why this kernel does not compute ``problem``; empty where it does."""
        if problem.dtype not in self.dtypes:
            return f"{self.name} takes {', '.join(d.name for d in self.dtypes)} inputs, not {problem.dtype}"
        if problem.out_dtype not in self.out_dtypes:
            return f"{self.name} writes {', '.join(d.name for d in self.out_dtypes)}, not {problem.out_dtype}"
        if problem.layout not in self.layouts:
            return f"{self.name} takes layout {', '.join(self.layouts)}, not {problem.layout}"
        if self.own_activation and problem.activation != self.own_activation:
            return f"{self.name} computes {self.own_activation} of its product, and nothing else"
        other = problem.activation != self.own_activation or (problem.bias and not self._takes_bias)
        if other and not self.epilogue:
            return f"{self.name} takes no bias and no activation"
        if problem.batch != 1 and not self.batched:
            return f"{self.name} takes one product, not a batch of {problem.batch}"
        return ""

    @property
    def _takes_bias(self) -> bool:
        return self.known_signature is not None and self.known_signature.has("bias")

    @property
    def own_activation(self) -> str:
        """What a user's kernel applies to its product; empty for most."""
        return self.known_signature.activation if self.known_signature is not None else ""

    def bias_dtype(self, problem: Problem) -> DType:
        """The type of the bias's elements: a user's kernel has its own, a rung takes the output's."""
        ctype = self.known_signature.ctype("bias") if self.known_signature is not None else ""
        return parameter_type(ctype, {}).element or problem.out_dtype

    def takes(self, problem: Problem) -> bool:
        """Whether this kernel computes ``problem``."""
        return not self.refusal(problem)


# --- the prologue: what is launched before a kernel

_ANY_TYPE = Problem(1, 1, 1, dtype=FP16, out_dtype=FP16)  # for launches whose source does not depend on types


@dataclass(frozen=True)
class PrologueLaunch:
    """A launch before the kernel's own. ``compiled_for`` has the types and the layout that it is compiled for."""

    spec: KernelSpec
    geometry: Geometry
    arguments: tuple[bytes, ...]
    compiled_for: Problem = _ANY_TYPE


@dataclass(frozen=True)
class Fallback:
    """The kernel that computes the product, from the caller's operands, if the verdict on the data is against another.

    It must have a parameter ``workspace`` and read the verdict there. ``accepts`` reads the verdict, the first
    ``verdict_bytes`` of the workspace, as the kernels do: True if it is for the other kernel.
    """

    spec: KernelSpec
    config: Config
    verdict_bytes: int
    accepts: Callable[[bytes], bool]


@dataclass(frozen=True)
class Prologue:
    """What must be launched before a kernel, and what the kernel sees after that.

    problem, addresses  the caller's, but for leading dimensions, strides, layout and addresses of the operands that
                        were copied to the workspace
    nbytes              size of the workspace, 0 for most kernels
    launches            in order
    workspace           the address for the kernel's parameter of that name, 0 if it does not need one
    fallback            where data decide which kernel computes the product: the other kernel
    mapped              what tensor maps of A and B describe, if the kernel's own A and B are still the caller's
    fallback_prologue   the fallback's own prologue
    """

    problem: Problem
    addresses: Addresses
    nbytes: int = 0
    launches: tuple[PrologueLaunch, ...] = ()
    workspace: int = 0
    fallback: Fallback | None = None
    mapped: Addresses | None = None
    fallback_prologue: Prologue | None = None


PrologueBuilder = Callable[[Problem, Config, Addresses, int, bool], Prologue]
"""From the caller's problem, the kernel's configuration, the caller's addresses, the workspace's address, and whether
the kernel is a fallback: if so, the beginning of the workspace holds the verdict and must be kept; the rest is free."""
