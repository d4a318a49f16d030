"""Whether and where results are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup


@dataclass(frozen=True)
class RecordOptions(OptionGroup):
    """The results database."""

    panel: ClassVar[str] = "Record"

    db: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="The results database.", envvar="GEMMSMITH_DB")
    ] = None
    no_db: Annotated[bool, typer.Option("--no-db", help="Do not record the results.")] = False

    def check(self) -> None:
        """Refuse a database that cannot be used before anything is run."""
        from gemmsmith.store.database_file import chosen_path

        if not self.no_db:
            chosen_path(self.db)
