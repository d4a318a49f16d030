"""The moments that the player of the k-loop stops at."""

from __future__ import annotations

from collections.abc import Iterable

from gemmsmith.trace.launch_trace import Kind

_MOST = 2_000
# The most telling kinds first.
_TELLING = (
    (Kind.BARRIER, Kind.WAIT, Kind.PHASE_WAIT, Kind.BULK_LOAD, Kind.BULK_STORE, Kind.COMMIT, Kind.ARRIVE),
    (Kind.COPY, Kind.LOAD_GLOBAL, Kind.STORE_GLOBAL, Kind.WGMMA, Kind.STORE_SHARED),
    (Kind.MMA, Kind.LOAD_MATRIX, Kind.LOAD_SHARED, Kind.ARITHMETIC),
)


def steps(events: Iterable[tuple[int, Kind]], end: int) -> list[int]:
    """From 0 to ``end``: where events start, kinds that tell less only while there are not too many moments."""
    starts: dict[Kind, set[int]] = {}
    for start, kind in events:
        starts.setdefault(kind, set()).add(start)
    found: set[int] = {0}
    for kinds in _TELLING:
        more = set().union(*(starts.get(kind, set()) for kind in kinds))
        if len(found | more) > _MOST and len(found) > 1:
            break
        found |= more
    ordered = sorted(found | {end})
    every = -(-len(ordered) // _MOST)
    thinned = ordered[::every]
    return thinned if thinned[-1] == end else [*thinned, end]
