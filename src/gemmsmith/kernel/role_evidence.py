"""What a user's files tell about the parameters of a kernel: its own source, and the host code that launches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gemmsmith.kernel.written_parameter import MapParameter


@dataclass(frozen=True, slots=True)
class KernelText:
    """What the kernel's source tells."""

    body: str = ""  # without comments
    aliases: Mapping[str, str] = field(default_factory=dict)  # typedefs, template arguments and macros, by name
    constants: Mapping[str, int] = field(default_factory=dict)  # integers that the source defines, by name
    macros: str = ""  # what the macros in the body stand for
    unread: frozenset[str] = frozenset()  # the parameters that the kernel never reads


@dataclass(frozen=True, slots=True)
class HostArguments:
    """What the host code tells that launches it."""

    texts: Sequence[str] = ()  # what it passes, in order
    computed: Sequence[str] = ()  # the same, where a variable is replaced by what it is computed from
    places: Sequence[int] = ()  # for each, which of the kernel's own parameters it is, or is a field of
    maps: Mapping[str, MapParameter] = field(default_factory=dict)  # encoded tensor maps, by the parameter's name
    scratch: frozenset[str] = frozenset()  # the parameters that are arrays for the blocks to share
    null: frozenset[str] = frozenset()  # the pointers that it leaves out; one called bias is given all the same
    counters: frozenset[str] = frozenset()  # variables that loops around the launch count with
    for_others: frozenset[str] = frozenset()  # parameters whose arguments another kernel gets, too
