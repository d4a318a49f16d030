"""How long and how precisely a GPU is timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup


@dataclass(frozen=True)
class TimingOptions(OptionGroup):
    """When a measurement is precise enough."""

    panel: ClassVar[str] = "Timing"

    within: Annotated[
        float, typer.Option("--within", help="Stop when the median is known to ± this fraction (95 % confidence).")
    ] = 0.005
    budget: Annotated[float, typer.Option("--budget", help="Stop at the latest after this many seconds per shape.")] = (
        5.0
    )
