"""Option groups: a command lists groups, typer sees options, and a command line can be written from them again."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer
import typer.main

from gemmsmith.cli.command_table import COMMANDS
from gemmsmith.cli.lazy_group import load_command
from gemmsmith.cli.options.groups import OptionGroup, expand_groups, flowing, option_words
from gemmsmith.cli.options.kernel import KernelOptions

SINGLE = [name for name in COMMANDS if name not in ("history", "learn")]  # these have subcommands


@dataclass(frozen=True)
class Paint(OptionGroup):
    panel: ClassVar[str] = "Paint"

    colour: Annotated[str, typer.Option("--colour", help="Which.")] = "red"
    coats: Annotated[int, typer.Option("--coats")] = 1
    ratio: Annotated[float, typer.Option("--ratio")] = 0.5
    gloss: Annotated[bool, typer.Option("--gloss/--matt")] = True
    add: Annotated[list[str] | None, typer.Option("--add")] = None
    define: Annotated[list[str] | None, typer.Option("-D")] = None
    out: Annotated[Path | None, typer.Option("--out")] = None


GIVEN = Paint("blue", -2, 0.1, False, ["a", "b"], ["X=1"], Path("f"))
TWO_COATS = Paint(coats=2)
seen: list[object] = []


def paint(wall: Annotated[str, typer.Argument()], how: Paint = TWO_COATS, *, dry: bool = False) -> None:
    """Paint a wall."""
    seen.append((wall, how, dry))


def run(*words: str) -> object:
    app = typer.Typer()
    app.command()(expand_groups(paint))
    seen.clear()
    typer.main.get_command(app)(args=list(words), standalone_mode=False)
    (found,) = seen
    return found


def test_a_group_is_filled_from_options_and_defaults() -> None:
    assert run("north") == ("north", TWO_COATS, False)
    assert run("north", "--colour", "blue", "--matt", "--dry") == ("north", Paint("blue", 2, gloss=False), True)


def test_a_command_line_is_written_from_groups_and_read_again() -> None:
    words = option_words(GIVEN)
    assert words == ["--colour", "blue", "--coats=-2", "--ratio", "0.1", "--matt", "--add", "a", "--add", "b", "-DX=1",
                     "--out", "f"]  # fmt: skip
    assert run("north", *words) == ("north", GIVEN, False)
    assert option_words(Paint()) == []
    assert option_words(Paint(), always=("colour", "gloss")) == ["--colour", "red", "--gloss"]
    assert option_words(Paint(ratio=1 / 3)) == ["--ratio", repr(1 / 3)]


def test_a_field_without_an_option_is_a_mistake() -> None:
    @dataclass(frozen=True)
    class Bare(OptionGroup):
        name: str = ""

    def command(bare: Bare) -> None: ...

    command.__annotations__["bare"] = Bare
    with pytest.raises(TypeError, match="name is not declared"):
        expand_groups(command)


def test_options_of_a_group_have_its_heading() -> None:
    signature = inspect.signature(expand_groups(paint))
    info = signature.parameters["colour"].annotation.__metadata__[0]
    assert info.rich_help_panel == "Paint"


@pytest.mark.parametrize("name", SINGLE)
def test_a_command_takes_groups_and_few_parameters_besides(name: str) -> None:
    parameters = inspect.signature(import_module(COMMANDS[name].module).command).parameters
    assert len(parameters) <= 12


@pytest.mark.parametrize("name", SINGLE)
def test_every_command_has_json(name: str) -> None:
    assert any("--json" in param.opts for param in load_command(name).params)


def test_options_of_one_name_mean_the_same_type_in_every_command() -> None:
    kinds: dict[str, set[tuple[bool, bool]]] = {}
    for name in SINGLE:
        for param in load_command(name).params:
            for option in param.opts:
                kinds.setdefault(option, set()).add((bool(getattr(param, "is_flag", False)), bool(param.multiple)))
    assert {option for option, found in kinds.items() if len(found) > 1} == set()


@pytest.mark.parametrize("text", ["BM", "BM=", "BM= ", "BM=64,BN"])
def test_config_needs_values_and_a_macro_does_not(text: str) -> None:
    with pytest.raises(Exception, match="no value"):
        _ = KernelOptions(config=text).pairs
    assert KernelOptions(define=["FAST", "W=8"]).pairs == (("FAST", "1"), ("W", "8"))


def test_sentences_of_help_are_not_broken_where_the_source_breaks_them() -> None:
    assert flowing("Check.\n\nExits 1 if it races,\n2 if it cannot be run.\nlargest: of all.") == (
        "Check.\n\nExits 1 if it races, 2 if it cannot be run.\nlargest: of all."
    )
