"""What the rest of the simulator knows about an instruction: the typed part of its record, without code.

The bundler, the machine, the counters, the race detector and the explanations dispatch on these values. They never look
at an instruction's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum


class Space(StrEnum):
    """A state space of PTX. GENERIC addresses are resolved when the instruction runs."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    PARAM = "param"


class Effect(Enum):
    """What an access does to memory; this decides which accesses may change places."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"  # reads and writes at once, as an atomic does
    COPY = "copy"  # asynchronous: reads one space, writes another, in no order among copies


@dataclass(frozen=True, slots=True)
class Access:
    """The memory access of an operation. ``width`` is in bytes, for each address.

    ``element`` is the smallest part that is written as a unit: 4 for ld.shared.v4.f32. ``lane_bytes`` is what one lane
    gets or gives; it differs from ``width`` where a warp shares its data (ldmatrix). A copy writes to ``space``.
    """

    space: Space
    effect: Effect
    width: int
    element: int
    lane_bytes: int


class Wait(Enum):
    """What must arrive at an instruction before it executes."""

    NOTHING = "nothing"
    WARP = "all 32 lanes of the warp"
    MEMBERS = "the live lanes of the member mask, which is the last source"
    BLOCK = "all live threads of the block"
    EVENT = "what its detail says, which is a Blocking"


class Flow(Enum):
    """Where a lane goes on after an instruction."""

    NEXT = "the next instruction"
    BRANCH = "a label"
    EXIT = "nowhere: the thread ends"
    JUMP = "the position that its execution writes to the machine's targets, for each lane"


class Bundling(Enum):
    """How an operation may be rearranged within straight-line code."""

    MERGED = "like operations that do not depend on each other run as one"
    ALONE = "may move, but runs by itself"
    BOUNDARY = "stays in place, and nothing moves past it"


class Executed(Enum):
    """Which lanes count as having executed an instruction."""

    GUARDED = "those whose guard holds"
    ARRIVED = "all that reach it, whatever their guard"
    ISSUED = "all that reach it, as warps; those whose guard holds, as threads"
    NEVER = "none: it is not counted"


class Mix(StrEnum):
    """The classes of the instruction mix."""

    NONE = ""  # becomes no machine instruction
    MULTIPLY_ADD = "multiply-add"
    TENSOR = "tensor"
    OTHER_FP32 = "other fp32"
    CONVERT = "convert"
    COMPARE = "compare"
    INTEGER = "integer and moves"
    GLOBAL_LOAD = "global load"
    GLOBAL_STORE = "global store"
    SHARED_LOAD = "shared load"
    SHARED_STORE = "shared store"
    LOCAL_LOAD = "local load"
    LOCAL_STORE = "local store"
    COPY = "asynchronous copy"
    BARRIER = "barrier"
    BRANCH = "branch"


class Quantity(StrEnum):
    """A field of ``counters.Counts``."""

    EXECUTED = "executed"
    THREADS = "threads"
    REQUESTS = "requests"
    SECTORS = "sectors"
    WAVEFRONTS = "wavefronts"
    CONFLICTS = "conflicts"


Metrics = tuple[tuple[str, Quantity], ...]


@dataclass(frozen=True)
class Profiled:
    """How a profiler sees an instruction.

    ``sass`` is the machine opcode that a memory instruction becomes; the cross-check with SASS counts by it.
    ``metrics`` are the profiler's counters that the instruction adds to. ``copy_metrics`` are those that the
    shared-memory side of an asynchronous copy adds to. ``instructions``: how many of the counted machine instructions
    one execution is.
    """

    mix: Mix = Mix.INTEGER
    sass: str = ""
    metrics: Metrics = ()
    copy_metrics: Metrics = ()
    instructions: int = 1


@dataclass(frozen=True)
class Counted:
    """How an instruction is counted: as ``profiled``, or by the space it accesses if ``by_space`` has that space."""

    profiled: Profiled = Profiled()
    by_space: Mapping[Space, Profiled] = field(default_factory=dict)
    executed: Executed = Executed.GUARDED

    def seen(self, space: Space | None) -> Profiled:
        """How the profiler sees an access to ``space``, or an instruction that accesses nothing."""
        return self.by_space.get(space, self.profiled) if space is not None else self.profiled


@dataclass(frozen=True, eq=False, kw_only=True)
class Traits:
    """The part of an instruction's record that is data.

    ``called`` is what messages call the instruction, ``verb`` what they call its access to memory. ``aligned``: all
    live lanes of a warp must execute the instruction at one place. ``whole``: it waits for all 32 lanes of its warp
    before it waits for an event. ``partial_order``: it orders some threads of a block after others by a rule of its
    own, not by the memory order that its access has.
    """

    called: str = ""
    verb: str = ""
    waits_on: Wait = Wait.NOTHING
    aligned: bool = False
    whole: bool = False
    flow: Flow = Flow.NEXT
    bundling: Bundling = Bundling.MERGED
    counts: Counted = Counted()
    partial_order: bool = False
