"""Option groups: frozen dataclasses whose fields are command-line options.

A command lists the groups it takes. ``expand_groups`` gives typer a function with one parameter per option, and calls
the command with the groups filled in:

    def command(kernel: KernelName, options: KernelOptions, output: OutputOptions) -> None: ...

A group's ``panel`` is its heading in ``--help``. The default of a command's parameter, where it has one, replaces the
defaults of the group's fields.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from typer.models import OptionInfo, ParameterInfo

from gemmsmith.cli.entry_words import with_entries


@dataclass(frozen=True)
class OptionGroup:
    """Base of all groups."""

    panel: ClassVar[str] = ""


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as typer reads it: each group replaced by its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            groups[parameter.name] = kind
            parameters += _options_of(kind, parameter.default)
        else:
            # Keyword-only, so that an option with a default may precede one without.
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        values = with_entries(values)
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = flowing(inspect.getdoc(command) or "")
    return run


def flowing(doc: str) -> str:
    """A docstring whose sentences are on one line each, so that ``--help`` breaks them where the terminal ends."""
    return re.sub(r"(?<![.\n])\n(?=\S)", " ", doc)


def _options_of(kind: type[OptionGroup], given: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = field.default if given is inspect.Parameter.empty else getattr(given, field.name)
        shown = _with_panel(hints, field, kind.panel)
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)


def _with_panel(hints: Mapping[str, Any], field: Field[Any], panel: str) -> Any:
    base, info = _declared(hints, field)
    shown = copy(info)
    shown.rich_help_panel = info.rich_help_panel or panel or None
    return Annotated[base, shown]


def _declared(hints: Mapping[str, Any], field: Field[Any]) -> tuple[Any, ParameterInfo]:
    """A field's type and its typer declaration."""
    hint = hints[field.name]
    if get_origin(hint) is Annotated:
        base, *extras = get_args(hint)
        for extra in extras:
            if isinstance(extra, ParameterInfo):
                return base, extra
    raise TypeError(f"{field.name} is not declared with typer.Option")


def option_words(*groups: OptionGroup, always: tuple[str, ...] = ()) -> list[str]:
    """The words that set ``groups`` again: values that are not at their default, and the fields in ``always``."""
    words: list[str] = []
    for group in groups:
        hints = get_type_hints(type(group), include_extras=True)
        for field in fields(group):
            value = getattr(group, field.name)
            is_set = value is not None and (value != "" or field.default is None)
            if is_set and (value != field.default or field.name in always):
                words += _words(_declared(hints, field)[1], value)
    return words


def _words(info: ParameterInfo, value: Any) -> list[str]:
    # In Annotated, the first name given to typer.Option stands in ``default``.
    names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
    assert isinstance(info, OptionInfo), names
    name = next((name for name in names if name.startswith("--")), names[0])
    if isinstance(value, bool):
        on, _, off = name.partition("/")
        return [on] if value else [off]
    if isinstance(value, (list, tuple)):
        return [word for each in value for word in ([f"{name}{each}"] if len(name) == 2 else [name, str(each)])]
    text = _float_text(value) if isinstance(value, float) else str(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]


def _float_text(value: float) -> str:
    """The shorter of the two texts that give the same number."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)
