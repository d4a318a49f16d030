"""What a failed trial tells about its cause: which kind of fault, and which source lines it names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gemmsmith.sim.races.hazards import EXITED, Hazard, HazardKind
from gemmsmith.verify.verdict import Verdict

Place = tuple[str, int]
_PLACE = re.compile(r"(?<![\w./-])((?:[\w.+-]+/)*[\w.+-]+\.\w{1,4}):(\d+)\b")
_SHARED_BYTES = re.compile(r"the block has \d+ bytes of shared\s+memory")
_KINDS = (
    ("host code: the launch at", "launch"),
    ("threads cannot be launched", "threads"),
    ("out-of-bounds", "bounds"), ("out of bounds", "bounds"), ("overrun", "bounds"), ("misaligned", "alignment"),
    ("divergent barrier", "barrier"), ("never completes", "barrier"), ("member mask", "mask"),
    ("did not end", "endless"),
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """One of two racing accesses."""

    verb: str
    place: Place

    def __str__(self) -> str:
        return f"the {self.verb} in line {self.place[1]}"


@dataclass(frozen=True)
class Race:
    """Two accesses that nothing orders."""

    first: Access
    second: Access
    across_warps: bool
    is_copy: bool  # one of them is an asynchronous copy
    is_global: bool
    across_blocks: bool


@dataclass(frozen=True)
class Fault:
    """kind: "race", "bounds", "alignment", "barrier", "mask", "endless", "launch" (what host code passes is wrong),
    "threads" (a block has too many), or "value": the result is wrong.

    scaled  alpha or beta is not 0 or 1
    large   a matrix has more elements than an int can count
    at_edges  whole tiles are right
    exited    barriers that some threads of the block did not reach, because they had returned
    extents   M, N and K of the failing trial
    beyond_shared  an access beyond the shared memory that the block has
    squares_pass   it shows only where M, N and K all differ
    """

    kind: str
    races: tuple[Race, ...] = ()
    places: tuple[Place, ...] = ()
    unwritten: bool = False
    scaled: bool = False
    large: bool = False
    at_edges: bool = False
    exited: tuple[Place, ...] = ()
    extents: Mapping[str, int] = field(default_factory=dict)
    beyond_shared: bool = False
    squares_pass: bool = False

    @property
    def key(self) -> frozenset[object]:
        """What is compared to see whether a change made a difference."""
        if self.races:
            return frozenset((race.first.place, race.second.place) for race in self.races)
        return frozenset({self.kind, *self.places})


def fault_of(verdict: Verdict, files: Collection[str]) -> Fault:
    """The fault that a verdict names, by lines of the user's ``files``."""
    problem = verdict.problem
    found = fault_from("\n".join(verdict.reasons), verdict.hazards, files,
                       {"M": problem.m, "N": problem.n, "K": problem.k})  # fmt: skip
    exited = _places("\n".join(note for note in verdict.notes if EXITED in note))
    if found.races:
        return replace(found, exited=exited)
    scaled = problem.alpha != 1 or problem.beta not in (0, 1)
    large = max(problem.m * problem.ldc, problem.m * problem.k, problem.n * problem.k) >= 2**31
    return replace(found, unwritten=verdict.unwritten > 0, scaled=scaled, large=large, exited=exited)


def fault_from(text: str, hazards: Iterable[Hazard], files: Collection[str], extents: Mapping[str, int]) -> Fault:
    """The fault that the reasons and hazards of a failed launch name."""
    races = tuple(_race(hazard, files) for hazard in hazards)
    if races:
        return Fault("race", races, extents=extents)
    kind = next((kind for words, kind in _KINDS if words in text), "value")
    return Fault(kind, (), _places(text), extents=extents, beyond_shared=_SHARED_BYTES.search(text) is not None)


def _places(text: str) -> tuple[Place, ...]:
    return tuple(dict.fromkeys((name, int(line)) for name, line in _PLACE.findall(text)))


def _race(hazard: Hazard, files: Collection[str]) -> Race:
    copy = hazard.kind is HazardKind.IN_FLIGHT_COPY
    sides = [Access(side.verb, _place(side.where, files)) for side in (hazard.first, hazard.second)]
    return Race(sides[0], sides[1], hazard.across_warps, copy, hazard.is_global, hazard.across_blocks)


def _place(where: str, files: Collection[str]) -> Place:
    """The line in the user's files: an access in a header of CUDA's is blamed on the line that calls it."""
    found = [(name, int(line)) for name, line in _PLACE.findall(where)]
    return next((place for place in found if place[0].rsplit("/", 1)[-1] in files), (where, 0))
