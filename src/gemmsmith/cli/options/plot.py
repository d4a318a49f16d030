"""Files that a study or a sweep writes besides its table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UsageError


@dataclass(frozen=True)
class PlotOptions(OptionGroup):
    """A picture and a JSON file. A file that cannot be written is refused before anything is run."""

    panel: ClassVar[str] = "Output"

    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the results.")] = None
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FILE.json", help="Save the results as JSON; report --sweep shows saved sweeps."
        ),
    ] = None

    def __post_init__(self) -> None:
        _check("--plot", self.plot, ".svg", "an SVG")
        _check("--save", self.save, ".json", "a JSON")


def _check(option: str, path: Path | None, suffix: str, kind: str) -> None:
    if path is None:
        return
    if path.suffix.lower() != suffix:
        raise UsageError(f"{option} {path} is not {kind} file", f"write {option} results{suffix}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {option}")
