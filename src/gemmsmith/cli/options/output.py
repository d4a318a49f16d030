"""What a command prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.render.format_names import Format
from gemmsmith.errors import UsageError


@dataclass(frozen=True)
class OutputOptions(OptionGroup):
    """Text for people, or one JSON object."""

    panel: ClassVar[str] = "Output"

    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False


@dataclass(frozen=True)
class DetailOptions(OutputOptions):
    """The answer alone, or all that led to it."""

    details: Annotated[
        bool, typer.Option("--details", help="Print every cost with its change, the figures, and where warps wait.")
    ] = False


@dataclass(frozen=True)
class TableOptions(OutputOptions):
    """The same, or rows of CSV."""

    csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of text.")] = False

    def __post_init__(self) -> None:
        if self.json and self.csv:
            raise UsageError("choose one of --json and --csv")


@dataclass(frozen=True)
class FormatOptions(OutputOptions):
    """The same, or a format that CI systems and editors read."""

    format: Annotated[
        Format, typer.Option("--format", help="How to print: for people, for scripts, or for CI systems (docs/ci.md).")
    ] = Format.TEXT

    def __post_init__(self) -> None:
        if self.json and self.format not in (Format.TEXT, Format.JSON):
            raise UsageError(f"choose one of --json and --format {self.format}")

    @property
    def form(self) -> Format:
        return Format.JSON if self.json else self.format
