"""What is recorded of a launch, and where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UsageError


@dataclass(frozen=True)
class BlockOptions(OptionGroup):
    """Which block is recorded in full."""

    panel: ClassVar[str] = "Trace"

    trace_block: Annotated[
        str, typer.Option("--trace-block", metavar="X[,Y[,Z]]", help="The block that is recorded in full.")
    ] = "0"

    @property
    def block(self) -> tuple[int, int, int]:
        parts = self.trace_block.split(",")
        if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
            raise UsageError(f"--trace-block {self.trace_block!r} is no block", "write one to three numbers: x[,y[,z]]")
        numbers = [int(part) for part in parts] + [0, 0]
        return numbers[0], numbers[1], numbers[2]


@dataclass(frozen=True)
class TraceOptions(BlockOptions):
    """The same, and the file of the trace."""

    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE.json",
            help="Write what every warp of one block executed (docs/trace-format.md). FILE.perfetto.json is for "
            "ui.perfetto.dev.",
            show_default=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.trace is not None and not self.trace.absolute().parent.is_dir():
            raise UsageError(f"--trace: there is no folder {self.trace.parent}")
