"""The arguments and the expected result of a kernel that is no matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.python_files import PYTHON_FILE, describes_launches

__all__ = ["PYTHON_FILE", "ArgumentOptions"]


@dataclass(frozen=True)
class ArgumentOptions(OptionGroup):
    """Arguments in words, and a function that computes the right answer."""

    panel: ClassVar[str] = "Any kernel"

    args: Annotated[
        str | None,
        typer.Option(
            "--args",
            metavar="NAME=VALUE,…",
            help="Arguments of any kernel: 'x=randn(1024,f32), out=zeros(4,f32), n=1024'; '' for a kernel without "
            "parameters. Needs --grid and --block.",
            show_default=False,
        ),
    ] = None
    expect: Annotated[
        str,
        typer.Option(
            "--expect",
            metavar="FILE.py:FUNCTION",
            help="A function that takes the arguments by name and returns the arrays that the kernel must write.",
        ),
    ] = ""
    rtol: Annotated[
        float | None,
        typer.Option("--rtol", help="Relative tolerance. Default: by type, 1e-4 for f32.", show_default=False),
    ] = None
    atol: Annotated[
        float | None,
        typer.Option("--atol", help="Absolute tolerance. Default: --rtol's default × the largest value.",
                     show_default=False),
    ] = None  # fmt: skip

    cooperative: Annotated[
        bool,
        typer.Option("--cooperative", help="With --args: all blocks run at the same time, as grid.sync() needs."),
    ] = False

    cluster: Annotated[
        str,
        typer.Option("--cluster", metavar="X[,Y[,Z]]", help="With --args: blocks of a cluster. Default: the kernel's "
                     "__cluster_dims__.", show_default=False),
    ] = ""  # fmt: skip

    @property
    def text(self) -> str:
        """The arguments; empty where none are given."""
        return self.args or ""

    def launches(self, word: str) -> bool:
        """Whether ``word`` is launched with arguments of its own, rather than as a matrix product."""
        return self.args is not None or bool(self.expect) or describes_launches(word)
