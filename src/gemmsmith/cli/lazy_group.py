"""The command group of ``gemmsmith``: a command's module is imported when the command is called."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from gemmsmith.cli.command_table import COMMANDS
from gemmsmith.cli.options.groups import expand_groups


class LazyGroup(TyperGroup):
    """Lists commands from the table, and loads one only to run it or to show its own help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            entry.name: TyperCommand(entry.name, help=entry.summary, rich_help_panel=entry.panel)
            for entry in COMMANDS.values()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), rest


@cache
def load_command(name: str) -> Any:
    """The command as the parser has it: its module has a typer application ``app``, or one function ``command``."""
    module: Any = import_module(COMMANDS[name].module)
    if hasattr(module, "app"):
        return typer.main.get_command(module.app)
    made = typer.Typer(add_completion=False)
    made.command(name, cls=getattr(module, "COMMAND_CLASS", None))(expand_groups(module.command))
    return typer.main.get_command(made)
