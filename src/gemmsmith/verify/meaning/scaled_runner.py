"""Launches of a product with scales: its arguments for a shape, and what it writes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.types import parse_type
from gemmsmith.call.launch import Launch
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import SignatureError
from gemmsmith.kernel.signature import formula_value, is_formula
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.code.float_constants import adds_in_memory, has_atomics
from gemmsmith.verify.launch_expected import Tolerance
from gemmsmith.verify.meaning.launch_probe import Operands
from gemmsmith.verify.meaning.scaled_data import fixed_scales, number_of, scales, shifts, unwritten
from gemmsmith.verify.meaning.scaled_kinds import EXACT, Data
from gemmsmith.verify.meaning.scaled_meanings import Meaning
from gemmsmith.verify.meaning.scaled_storage import Encoding

Array = NDArray[Any]
_SCALARS = (2.0, 4.0, 0.5, 8.0)  # one after another: no two of them can stand for each other
_SMALL_SCALARS = (0.5, 0.25, 2.0, 0.125)  # where results are bytes again
_SUMS_HALVES = re.compile(r"\b(?:fma|add)\.[\w.]*\bb?f16|mma\.[\w.]*\.f16\.f16\.f16\.f16\b")
# Of signed and of unsigned bytes, for small results and for those of the whole range: both are reached.
_LIMITS = {("i", False): {"low": -9, "high": 11}, ("i", True): {"low": -100, "high": 90},
           ("u", False): {"low": 2, "high": 13}, ("u", True): {"low": 3, "high": 200}}  # fmt: skip
_SECONDS = 12  # of CPU time for finding the meaning
_SMALL = (16, 16, 256)


@dataclass(frozen=True)
class Runner:
    """Launches of one kernel. ``group``: what is passed for the size of a group, 0 where no parameter says it."""

    spec: KernelSpec
    parameters: tuple[ScaledParameter, ...]
    device: str
    timeout: float
    cache: CompileCache | None
    group: int
    end: float = field(default_factory=lambda: time.process_time() + _SECONDS)

    @property
    def has_time(self) -> bool:
        """Whether meanings may still be compared."""
        return time.process_time() < self.end

    def launch(
        self, shape: Shape, data: Mapping[str, Any], expected: Array | None = None, limits: Tolerance | None = None
    ) -> Launch:
        m, n, k = shape
        geometry = self.spec.geometry(Problem(m, n, k), self.spec.config())
        return Launch(
            self.spec.unit or self.spec.source, self.spec.entry, geometry.grid, geometry.block, self.arguments(data),
            geometry.smem, dict(self.spec.extra_defines), self.spec.include, name=self.spec.entry,
            cooperative=geometry.cooperative, cluster=geometry.cluster,
            expect=None if expected is None else lambda: {self.output: expected},
            rtol=limits.rtol if limits else None, atol=limits.atol if limits else None,
        )  # fmt: skip

    def arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the kernel's own parameters; of a struct those of its fields, in order."""
        made: dict[str, Any] = {}
        for each in self.parameters:
            if each.name not in data:
                continue
            owner, field, _ = each.name.partition(".")
            if not field:
                made[each.name] = data[each.name]
            else:
                made[owner] = (*made.get(owner, ()), self._field(each, data[each.name]))
        return {name: _as_bytes(value) if isinstance(value, tuple) else value for name, value in made.items()}

    def _field(self, parameter: ScaledParameter, value: Any) -> Any:
        return value if parameter.pointer or value is None else np.asarray(value, self.type_of(parameter))[()]

    @cached_property
    def output(self) -> str:
        """What a launch calls C: of an array in a struct with others, its place."""
        name = self.named("C")
        owner, field, _ = name.partition(".")
        fields = [each for each in self.parameters if each.name.partition(".")[0] == owner]
        held = [each for each in fields if each.pointer and each.role != "0"]
        if not field or len(held) == 1:
            return owner
        return f"{owner}.{[each.name for each in fields].index(name)}"

    def named(self, role: str) -> str:
        return self.of_role(role).name

    def of_role(self, role: str) -> ScaledParameter:
        return next(each for each in self.parameters if each.role == role)

    def type_of(self, parameter: ScaledParameter) -> np.dtype[Any]:
        kind = parse_type(parameter.type).element
        if kind is None:
            raise SignatureError(f"{self.spec.entry}: {parameter.name} has the type {parameter.type}", "")
        return kind

    @cached_property
    def ptx(self) -> str:
        return self.launch(_SMALL, {}).compile(cache=self.cache).compiled.ptx

    def data(self, shape: Shape, like: Meaning, counts: Mapping[str, int], kind: Data = EXACT) -> dict[str, Any]:
        """Arguments by name, as ``like`` has them in memory; of scales and zero points ``counts`` values. Integers that
        are summed in 16 bits are not of the whole range, which would overflow."""
        m, n, k = shape
        rng = np.random.Generator(np.random.PCG64(7 + kind.wide))
        most = 15 if kind.wide and _SUMS_HALVES.search(self.ptx) else 127
        a, b = (each.line(*lines) for each, lines in zip(like.stored, ((m, k), (k, n)), strict=True))
        numbers = {"M": m, "N": n, "K": k, "lda": a, "ldb": b, "ldc": n, "group": self.group}
        narrow = like.output.kind.itemsize == 1
        scalars = iter(_SMALL_SCALARS if narrow else _SCALARS)
        lone = narrow and sum(each.role == "scale" for each in self.parameters) == 1
        fraction = like.rounding.fraction if like.rounding is not None else 0
        passed = self._passed(shape)
        made: dict[str, Any] = {}
        for each in self.parameters:
            count = counts.get(each.name, 1)
            if each.name in passed:
                made[each.name] = passed[each.name]
            elif each.role in numbers:
                made[each.name] = numbers[each.role]
            elif each.role == "C":
                kind_of_c = self.type_of(each)
                made[each.name] = np.zeros(m * n, kind_of_c) if self._adds(kind_of_c) else unwritten(m * n, kind_of_c)
            elif each.role in ("A", "B"):
                stored = like.stored["AB".index(each.role)]
                size = m * k if each.role == "A" else k * n
                made[each.name] = kind.filled(stored.encoding, rng, size, most, like.is_packed)
            elif each.role == "bias":
                made[each.name] = kind.bias(rng, max(m, n), self.type_of(each))
            elif each.multiplies_integers or each.role == "shift":
                make = fixed_scales if each.role == "scale" else shifts
                values = make(rng, count if each.role == "scale" else n, fraction, kind.wide)
                made[each.name] = values.astype(self.type_of(each)) if each.pointer else int(values[0])
            elif each.role in ("scale", "zero"):
                values = scales(rng, count, kind.wide) if each.role == "scale" else self._zeros(
                    rng, count, each.operand, kind.wide and most > 15)  # fmt: skip
                if each.pointer:
                    small = 100 if lone and kind.wide and each.role == "scale" else 1
                    made[each.name] = (values / small).astype(self.type_of(each))
                elif each.role == "scale":
                    of_range = 1.0 if each.operand == "C" and narrow else float(values[0]) / (100 if lone else 1)
                    made[each.name] = of_range if kind.wide else next(scalars)
                else:
                    made[each.name] = int(values[0]) + 1
            elif each.role in ("low", "high"):
                made[each.name] = _LIMITS["u" if like.output.kind.kind == "u" else "i", kind.wide][each.role]
            elif is_formula(each.role):
                made[each.name] = formula_value(each.role, {"M": m, "N": n, "K": k})
            else:
                made[each.name] = None if each.pointer else number_of(each.role)
        return made

    def with_depth(self, data: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        """The same arrays for another K, which numbers tell the kernel."""
        m, n, k = shape
        passed, made = self._passed(shape), dict(data)
        for each in self.parameters:
            if each.name in passed:
                made[each.name] = passed[each.name]
            elif each.role == "K":
                made[each.name] = k
            elif is_formula(each.role):
                made[each.name] = formula_value(each.role, {"M": m, "N": n, "K": k})
        return made

    def _passed(self, shape: Shape) -> dict[str, int | float]:
        """What host code computes for numbers without a meaning of their own."""
        launch = self.spec.geometry
        if not isinstance(launch, UserLaunch) or not launch.passed:
            return {}
        values = launch.passed_values(Problem(*shape))
        return {self.parameters[place].name: int(value) if value == int(value) else float(value)
                for place, value in values.items()}  # fmt: skip

    def _adds(self, kind: np.dtype[Any]) -> bool:
        """Whether it adds to C by atomics: parts of K then begin with zeros."""
        return adds_in_memory(self.ptx) or (kind.kind in "iu" and has_atomics(self.ptx))

    def _zeros(self, rng: np.random.Generator, count: int, operand: str, wide: bool) -> Array:
        """Zero points; of the range of their operand's type: beyond int8's for unsigned bytes."""
        if not wide:
            return rng.integers(0, 3, count)
        kind = self.type_of(self.of_role(operand)) if operand in ("A", "B") else None
        if kind is None or kind.itemsize > 1 or kind.kind not in "iu":
            return rng.integers(0, 12, count)
        return rng.integers(*((130, 250) if kind.kind == "u" else (-120, 120)), count)

    def written(self, shape: Shape, data: Mapping[str, Any]) -> Array:
        """C after a launch that does not look for races."""
        ran = self.launch(shape, data).run(self.device, hazards=False, count=False, timeout=self.timeout,
                                           cache=self.cache)  # fmt: skip
        return np.asarray(ran[self.output])

    def uniform(self, data: Mapping[str, Any], but: str = "") -> dict[str, Any]:
        """The same where all values of a scale are one, and zero points and the bias are 0, except those of ``but``."""
        made = dict(data)
        for each in self.parameters:
            if each.name == but or made[each.name] is None:
                continue
            if each.role in ("zero", "bias"):
                made[each.name] = np.zeros_like(made[each.name]) if each.pointer else 0
            elif each.role in ("scale", "shift") and each.pointer:
                made[each.name] = np.full_like(made[each.name], made[each.name][0])
        return made

    def neutral(self, shape: Shape, like: Meaning, counts: Mapping[str, int]) -> Callable[..., Array]:
        """What the kernel writes, as C holds it, for numbers of A and B as their arrays hold them, where scales change
        nothing, but for one value of one of them: the first, or that at a place."""
        neutral = {"scale": 1, "zero": 0, "bias": 0}

        def run(values: Operands, changed: str, at: int = 0) -> Array:
            data = self.data(shape, like, counts)
            for role, own in zip("AB", values, strict=True):
                data[self.named(role)] = own.view(self.type_of(self.of_role(role)))
            for each in self.parameters:
                if each.role in neutral and data[each.name] is not None:
                    value, more = neutral[each.role], int(each.name == changed)
                    data[each.name] = np.full_like(data[each.name], value) if each.pointer else value + more
                    if each.pointer and more:
                        data[each.name][at] = value + 1
            return self.written(shape, data).view(like.output.kind)

        return run

    def numbers_of(self, written: Array, like: Encoding, shape: Shape) -> Array:
        """C as a matrix of what it holds."""
        return written.view(like.kind).reshape(shape[:2])


def _as_bytes(fields: tuple[Any, ...]) -> Any:
    """A struct of numbers alone as NumPy has it; one with arrays as its fields."""
    if not all(isinstance(each, np.generic) for each in fields):
        return fields
    kinds = np.dtype([(f"field{i}", each.dtype) for i, each in enumerate(fields)], align=True)
    return np.array([fields], kinds)[0]
