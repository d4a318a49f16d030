"""What C holds before a launch, and whether reading it counts: options of check, run and verify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UsageError

_C_FILLS = {"": "", "nan": "unset", "set": "set", "zero": "zero"}


@dataclass(frozen=True)
class VerificationOptions(OptionGroup):
    """Reading C when beta = 0."""

    panel: ClassVar[str] = "Verification"

    c: Annotated[
        str,
        typer.Option(
            "--c",
            help="What C holds before a launch with beta = 0: nan, set (random numbers) or zero (for kernels that "
            "add to C: C += A·B).",
        ),
    ] = ""
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Count limits as failures: right for whole tiles only, C read when beta = 0, 32-bit indices that "
            "overflow, and others that the report marks.",
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.c not in _C_FILLS:
            raise UsageError(f"--c {self.c!r} is unknown", "use nan, set or zero")

    @property
    def fill(self) -> str:
        """What C holds, in the terms of verification; empty where ``--c`` was not given."""
        return _C_FILLS[self.c]
