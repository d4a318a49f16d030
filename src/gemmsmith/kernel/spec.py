"""What a kernel is: a source file and a specification of how it may be configured and launched.

Everything another stage needs to know about a kernel is here, so that a rung of the ladder and a
file a user brings are the same kind of thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.prologue import PrologueBuilder
from gemmsmith.kernel.signature import Signature, parse_signature
from gemmsmith.problem import FP32, DType, Problem

Constraint = Callable[[Config], str | None]
"""Returns why a configuration is illegal, in words and with the arithmetic, or None."""

Fit = Callable[[Config, Problem, tuple[int, int, int]], Config]
"""The configuration for operands at these addresses of A, B and C: a kernel may have a faster path for aligned ones."""


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel's blocks share: the first ``cleared`` bytes are 0 when it starts."""

    nbytes: int = 0
    cleared: int = 0  # a multiple of 4096


TensorMaps = Callable[[Problem, Config], dict[str, TensorMap]]
"""The maps an entry takes, by the names of its parameters; one that a configuration does not use may be left out."""


def as_given(config: Config, _problem: Problem, _addresses: tuple[int, int, int]) -> Config:
    """The fit of a kernel that takes any operands as they are."""
    return config


@dataclass(frozen=True)
class KernelSpec:
    """A kernel's name, lesson, parameters, limits and launch geometry.

    ``geometry`` has one block, or cluster, for each piece of work. Of a ``persistent`` kernel, whose blocks take one
    piece after another, only as many are launched as the GPU holds at once (run/binding.py); work lies along x alone.
    ``tensor_maps`` sees operands that a map can describe: where a kernel ``repacks``, rows of A and B that do not start
    on 16 bytes have been copied to rows that do, and the problem's leading dimensions and strides are those of the
    copies, but for the operands, 'A', 'B' or 'AB', that ``loose`` names of a configuration: taken as they are. Its K is
    at least 1, as a map has no empty dimension. Where ``turns`` says so of a configuration, A and B
    have been brought to lines across k that start on 16 bytes (turn.py), and the problem is the one of these. A
    ``preparation`` says all of what comes before the kernel, in the place of these and ``scratch`` (preparation.py).
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
    dtypes: tuple[DType, ...] = (FP32,)
    out_dtypes: tuple[DType, ...] = (FP32,)
    layouts: tuple[str, ...] = ("NN",)
    epilogue: bool = False  # takes a bias and an activation
    batched: bool = False
    tensor_cores: bool = False  # sums as tensor cores do, which truncate
    arithmetic: str = ""  # what its products amount to, where the instructions say something else: 'bf16x6'
    fit: Fit = as_given
    min_arch: int = 75
    arch_specific: int = 0  # 90: uses what compute capability 9.0 alone has, so it is compiled for sm_90a
    simulated: bool = True  # the simulator knows all of its instructions
    tensor_maps: TensorMaps | None = None
    repacks: bool = False
    loose: Callable[[Config], str] | None = None
    turns: Callable[[Config], bool] | None = None
    scratch: Callable[[Problem, Config], Scratch] | None = None
    preparation: PrologueBuilder | None = None
    persistent: bool = False
    rung: int = 0
    extra_defines: tuple[tuple[str, str], ...] = ()
    declared_signature: str = ""

    def __hash__(self) -> int:
        # Kernels are keys of caches that every call asks; hashing all parameters and presets would take longer.
        return hash((self.name, self.source, self.extra_defines))

    @property
    def code(self) -> str:
        """The CUDA C++ source."""
        return self.source.read_text(encoding="utf-8")

    @property
    def signature(self) -> Signature:
        """The entry's parameters and what each one means; a rung's file is read once, a user's may change."""
        return self._rung_signature if self.is_rung else self._read_signature()

    @cached_property
    def _rung_signature(self) -> Signature:
        return self._read_signature()

    def _read_signature(self) -> Signature:
        own = self.tensor_maps is not None or self.is_rung  # may have a workspace, which a user's file cannot be given
        return parse_signature(self.code, self.entry, self.declared_signature, tensor_maps=own)

    @property
    def is_rung(self) -> bool:
        """Whether this is a rung of the ladder rather than a user's file."""
        return self.rung > 0

    def config(self, changes: Mapping[str, int] | None = None, preset: str = "") -> Config:
        """The default (or a preset's) configuration with ``changes`` applied, checked for legality."""
        values = {p.name: p.default for p in self.parameters}
        if preset:
            values.update(self._preset(preset).config.values)
        for name, value in (changes or {}).items():
            if name not in values:
                known = ", ".join(values) or "it has none"
                raise ConfigError(f"{self.name} has no parameter {name}", f"its parameters: {known}")
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{self.name}: {name} must be an integer, not {value!r}")
            values[name] = value
        config = Config(tuple(values.items()))
        reasons = self.illegal(config)
        if reasons:
            raise ConfigError(f"{self.name} cannot run with {config}: {reasons[0]}", "; ".join(reasons[1:]))
        return config

    def _preset(self, name: str) -> Preset:
        for preset in self.presets:
            if preset.name == name:
                return preset
        known = ", ".join(p.name for p in self.presets) or "none"
        raise ConfigError(f"{self.name} has no preset {name!r}", f"its presets: {known}")

    def illegal(self, config: Config) -> list[str]:
        """Every reason why ``config`` is illegal; empty when it is legal."""
        reasons = []
        for parameter in self.parameters:
            value = config[parameter.name]
            if value not in parameter.legal:
                legal = ", ".join(map(str, parameter.legal))
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
        if problem.has_epilogue and not self.epilogue:
            return f"{self.name} takes no bias and no activation"
        if problem.batch != 1 and not self.batched:
            return f"{self.name} takes one product, not a batch of {problem.batch}"
        return ""

    def takes(self, problem: Problem) -> bool:
        """Whether this kernel computes ``problem``."""
        return not self.refusal(problem)
