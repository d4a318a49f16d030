"""The ladder as a whole: all rungs in order, and one by its name."""

from __future__ import annotations

import difflib
from functools import cache

from gemmsmith.errors import UnknownKernelError
from gemmsmith.kernels.spec import KernelSpec


@cache
def rungs() -> tuple[KernelSpec, ...]:
    """Every rung, from the bottom of the ladder to the top."""
    from gemmsmith.kernels import simt, tensor_core

    return tuple(sorted((*simt.LADDER, *tensor_core.LADDER), key=lambda spec: spec.rung))


def rung_named(name: str) -> KernelSpec:
    """The rung called ``name``, or an error that suggests the nearest name and lists them all."""
    known = {spec.name: spec for spec in rungs()}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UnknownKernelError(f"there is no rung called {name!r}", f"{suggestion}the rungs: {', '.join(known)}")
