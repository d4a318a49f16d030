"""What a launch did: the arrays it wrote, races, counts, prints and the time it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from gemmsmith.call.any_kernel.kernel import LaunchKernel
from gemmsmith.errors import UsageError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.notebook_html import card, folded, listing, paragraph, preformatted, table
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.races.hazards import Hazard

_MOST, _MOST_PRINTS = 5, 100  # races and lines of output that a notebook shows


@dataclass(frozen=True)
class LaunchCounters(Mapping[str, int]):
    """What the simulator counted, by Nsight Compute's names; ``raw`` has the counts of each instruction."""

    raw: Counters = field(repr=False)

    @cached_property
    def _totals(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for operation, count in self.raw.items():
            for name, value in self.raw.metrics(operation, count).items():
                total[name] = total.get(name, 0) + value
        return total

    def __getitem__(self, name: str) -> int:
        return self._totals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._totals)

    def __len__(self) -> int:
        return len(self._totals)

    @property
    def bank_conflicts(self) -> int:
        """Shared-memory wavefronts that only bank conflicts cost."""
        return sum(count.conflicts for count in (*self.raw.by_position.values(), *self.raw.copies.values()))


@dataclass(frozen=True)
class LaunchResult:
    """The result of ``gemmsmith.launch``.

    written   the arrays that the kernel may write (pointers to non-const) after the launch, in argument order; an
              argument that is a list of arrays gives a list
    by_name   the same by name
    hazards   races; the simulator looks for them
    damage    writes beside the elements of an array: into gaps between them and, on a GPU, around the array
    counters  what a profiler counts; None on a GPU, or with count=False
    prints    what the kernel printed; on a GPU it goes to the terminal instead
    symbols   the variables of the module that were given, after the launch
    notes     what is legal but worth knowing, such as memory that malloc gave and nothing freed
    seconds   from the start of the launch to its end, on the device that ran it
    """

    kernel: str
    written: tuple[Any, ...]
    by_name: Mapping[str, Any]
    hazards: tuple[Hazard, ...]
    damage: tuple[str, ...]
    counters: LaunchCounters | None
    prints: tuple[str, ...]
    seconds: float
    device: str
    geometry: Geometry
    launched: LaunchKernel = field(repr=False)
    symbols: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """No race and no write beside an array. Whether the numbers are right is for the caller to say."""
        return not self.hazards and not self.damage

    def _repr_html_(self) -> str:
        """Its form in a notebook."""
        grid, block = ("×".join(map(str, each)) for each in (self.geometry.grid, self.geometry.block))
        arrays = [(name, _shape_of(value)) for name, value in self.by_name.items()]
        counters = sorted((self.counters or {}).items())
        problems = [*map(str, self.hazards), *self.damage]
        parts = [
            paragraph(f"grid {grid}, block {block}; {self.seconds:.2g} s on {self.device}"),
            listing([each.splitlines()[0] for each in problems[:_MOST]]),
            paragraph(f"and {len(problems) - _MOST} more" if len(problems) > _MOST else "", small=True),
            folded("arrays it may write", table(("", "shape and type"), arrays, numbers=False) if arrays else ""),
            folded("counters (simulated)", table((), [(name, f"{value:,}") for name, value in counters if value])
                   if counters else ""),
            folded("printed", preformatted("".join(self.prints[:_MOST_PRINTS])) if self.prints else ""),
            listing(self.notes),
        ]  # fmt: skip
        state = (
            "no race, no write beside an array" if self.ok else "races" if self.hazards else "writes beside an array"
        )
        return card(f"{self.kernel}: {state}", parts, good=self.ok)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            return self.written[key]
        if key not in self.by_name:
            raise UsageError(f"{self.kernel} writes no {key!r}", f"it may write {', '.join(self.by_name) or 'nothing'}")
        return self.by_name[key]


def _shape_of(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{len(value)} arrays"
    shape = "×".join(map(str, getattr(value, "shape", ()))) or "1"
    return f"{shape} {getattr(value, 'dtype', '')}"


def read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(values))
