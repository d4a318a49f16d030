"""One launch of a kernel that computes a formula: its sizes, its data, and the arguments that follow."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.launch import Launch
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import UsageError
from gemmsmith.kernel.role_names import is_increment
from gemmsmith.problem import DType
from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel, Member
from gemmsmith.userfile.kernels.struct_parameters import NO_MEMBER
from gemmsmith.verify.code.float_constants import adds_in_memory
from gemmsmith.verify.formula.takes import Takes
from gemmsmith.verify.launch_expected import Tolerance

Array = NDArray[Any]
UNTOUCHED = 77.25  # what C holds before, where nothing is added to it
_HALVES = 2.0  # data are small multiples of one half: sums of their products are exact in every type
_VALUES = {"low": -1.5, "high": 4.5, "slope": 0.25}
_OTHERS = (0.75, 5.0, 1.5)  # of real numbers without a name that tells
_SPECIALS = 3  # of an operand's elements, about: most results stay finite
_SHARED_ROOM = 8  # times C: of arrays that blocks share


@dataclass(frozen=True)
class Case:
    """``sizes``: extents, leading dimensions and strides by the members' names, and the number of products as "batch".
    ``wide``: values of the whole range, whose sums are rounded; ``scale``: of the values of A; ``special``: a NaN and
    infinities among them."""

    sizes: Mapping[str, int]
    wide: bool = False
    scale: float = 1.0
    special: bool = False
    alpha: float = -2.0  # relu(alpha·x) is not alpha·relu(x)
    beta: float = 3.0
    seed: int = 7

    def with_sizes(self, **sizes: int) -> Case:
        return replace(self, sizes={**self.sizes, **sizes})


def scalars(taken: Takes, case: Case) -> dict[str, float]:
    """The value of each real number."""
    values = {**_VALUES, "alpha": case.alpha, "beta": case.beta}
    found = {name: values[role] for role, name in taken.scalars.items()}
    return found | dict(zip(taken.reals, _OTHERS, strict=False))


@dataclass(frozen=True)
class Runner:
    """Launches of the kernel."""

    kernel: FormulaKernel
    taken: Takes
    timeout: float
    cache: CompileCache | None

    def values(self, case: Case) -> dict[str, float]:
        return scalars(self.taken, case)

    @cached_property
    def ptx(self) -> str:
        """The compiled kernel."""
        launch = Launch(self.kernel.launch.facts.project.path, self.kernel.entry, defines=dict(self.kernel.defines),
                        include=self.kernel.options.include)  # fmt: skip
        return str(launch.compile(cache=self.cache).compiled.ptx)

    def member(self, name: str) -> Member:
        return next(each for each in self.kernel.members if each.name == name)

    def arrays(self, case: Case, rooms: Mapping[str, int], keeps: bool) -> dict[str, Array]:
        """Arrays with these numbers of elements. ``keeps``: C holds numbers before that count."""
        rng = np.random.Generator(np.random.PCG64(case.seed))
        made, specials = {}, iter((np.nan, np.inf))
        for name, room in rooms.items():
            element = self.member(name).element
            assert element is not None
            values = _filled(rng, room, element, case)
            scaled = values * case.scale if name == self.taken.inputs[0] else values
            if name == self.taken.output and not keeps:
                scaled = np.full(room, 0.0 if adds_in_memory(self.ptx) else UNTOUCHED)
            if case.special and name in self.taken.inputs[:2] and element.numpy.kind not in "iu":
                scaled[:: max(1, room // _SPECIALS)] = next(specials)
            made[name] = scaled.astype(element.numpy)
        return made

    def launch(
        self, case: Case, arrays: Mapping[str, Array], expected: Array | None = None, limits: Tolerance | None = None
    ) -> Launch:
        geometry = self.kernel.geometry(case.sizes)
        output = self.place_of(self.taken.output)
        return Launch(
            self.kernel.launch.facts.project.path, self.kernel.entry, geometry.grid, geometry.block,
            self._arguments(case, arrays), geometry.smem, dict(self.kernel.defines), self.kernel.options.include,
            name=self.kernel.name, cooperative=geometry.cooperative, cluster=geometry.cluster,
            expect=None if expected is None else lambda: {output: expected},
            rtol=limits.rtol if limits else None, atol=limits.atol if limits else None,
        )  # fmt: skip

    def written(self, case: Case, arrays: Mapping[str, Array]) -> Array:
        """C after a launch that does not look for races."""
        ran = self.launch(case, arrays).run(hazards=False, count=False, timeout=self.timeout, cache=self.cache)
        return np.asarray(ran[self.place_of(self.taken.output)])

    def place_of(self, name: str) -> str:
        """What the result of a launch calls an array: a struct's members have the struct's name and their number."""
        member = self.member(name)
        if member.place not in self.kernel.in_structs:
            return name
        own = [each for each in self.kernel.members if each.place == member.place]
        alone = sum(each.is_pointer for each in own) == 1
        return member.name.partition(".")[0] + ("" if alone else f".{own.index(member)}")

    def _arguments(self, case: Case, arrays: Mapping[str, Array]) -> list[Any]:
        groups: dict[int, list[Any]] = {}
        for each in self.kernel.members:
            groups.setdefault(each.place, []).append(self._argument(each, case, arrays))
        return [tuple(group) if place in self.kernel.in_structs and not isinstance(group[0], bytes) else group[0]
                for place, group in groups.items()]  # fmt: skip

    def _argument(self, member: Member, case: Case, arrays: Mapping[str, Array]) -> Any:
        if member.own == NO_MEMBER:
            return bytes(1)
        if member.is_pointer:
            return arrays[member.name] if member.name in arrays else self._shared(member, case)
        value = self._number(member, case)
        if member.code in "fde":
            return {"f": np.float32, "d": np.float64, "e": np.float16}[member.code](value)
        return np.dtype(f"{'u' if member.code.isupper() else 'i'}{struct.calcsize(member.code)}").type(int(value))

    def _number(self, member: Member, case: Case) -> float:
        if member.name == self.taken.batch:
            return case.sizes["batch"]
        if member.name in case.sizes:
            return case.sizes[member.name]
        if (real := self.values(case).get(member.name)) is not None:
            return real
        if is_increment(member.own):  # vectors without gaps
            return 1
        value = self.kernel.value(member, case.sizes)
        if value is None:
            raise UsageError(f"what host code passes for {member.name} is not understood")
        return float(value)

    def _shared(self, member: Member, case: Case) -> Array | None:
        """An array that blocks share, set to zero: room for parts of C in whole tiles."""
        if member.name not in self.taken.scratch:
            return None
        sides = [-(-case.sizes[each] // 256) * 256 for each in self.taken.extents]
        room = _SHARED_ROOM * max(sides) ** 2
        return np.zeros(room, member.element.numpy if member.element is not None else np.int32)


def _filled(rng: np.random.Generator, room: int, element: DType, case: Case) -> Array:
    if element.numpy.kind in "iu":
        low, high = ((0, 4), (-2, 3))[element.numpy.kind == "i"] if not case.wide else ((0, 256), (-128, 128))[
            element.numpy.kind == "i"]  # fmt: skip
        return rng.integers(low, high, room).astype(np.float64)
    return rng.standard_normal(room) if case.wide else rng.integers(-2, 3, room) / _HALVES
