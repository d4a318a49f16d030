"""gemmsmith list: the rungs of the ladder."""

from __future__ import annotations

from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.rung_list import print_rungs


def command(output: OutputOptions) -> None:
    """List the rungs of the ladder, from the naive kernel up."""
    print_rungs(output.json)
