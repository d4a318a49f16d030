"""How a rung is put together: its number and source from the name of its ``.cu`` file, presets from its defaults.

A rung is ``NN_name.cu`` and ``name.py`` in this folder. The second exports ``SPEC``, made by a family's ``rung``
(families/), which adds what all rungs of that family have in common, or by ``make_rung`` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gemmsmith.errors import UnknownKernelError
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.spec import KernelSpec

OURS = "gemmsmith"  # where a preset comes from that no worklog published
ALL_LAYOUTS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class Variant:
    """A preset before its rung's defaults are known."""

    name: str
    published: str
    changes: Mapping[str, int]


def preset(name: str, published: str = OURS, **changes: int) -> Variant:
    """A named configuration: where it was published, and what differs from the defaults."""
    return Variant(name, published, changes)


@cache
def sources() -> Mapping[str, Path]:
    """The sources of all rungs by name, in the order of their numbers."""
    found: dict[str, Path] = {}
    for file in sorted(Path(__file__).parent.glob("[0-9][0-9]_*.cu")):
        for other in found.values():
            if file.stem[3:] == other.stem[3:] or number_of(file) == number_of(other):
                raise UnknownKernelError(f"{other.name} and {file.name} have the same number or name")
        found[file.stem[3:]] = file
    return found


def make_rung(
    module: str,
    *,
    parameters: tuple[Parameter, ...],
    presets: tuple[Variant, ...],
    small: Mapping[str, int] | None = None,
    **fields: Any,
) -> KernelSpec:
    """The specification of the rung whose module is called ``module``; pass ``__name__``."""
    name = module.rpartition(".")[2]
    source = sources().get(name)
    if source is None:
        raise UnknownKernelError(f"{name}.py has no source beside it", f"add NN_{name}.cu, NN being its number")
    defaults = {p.name: p.default for p in parameters}
    return KernelSpec(
        name=name,
        source=source,
        rung=number_of(source),
        parameters=parameters,
        presets=tuple(Preset(v.name, Config(tuple({**defaults, **v.changes}.items())), v.published) for v in presets),
        small=tuple((small or {}).items()),
        **fields,
    )


def number_of(source: Path) -> int:
    """The number of a rung's source: 10 of ``10_warp_tile.cu``."""
    return int(source.name[:2])
