"""Arguments that a call leaves out: defaults of the function's definition, or of a prototype that the caller sees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gemmsmith.userfile.text.parts import KernelParameter, SourceFile
from gemmsmith.userfile.text.preprocessor import arguments_of, closing

_DEFAULT = re.compile(r"(?<![=!<>])=(?!=)\s*(.+)$", re.S)


def with_defaults(
    arguments: tuple[str, ...], name: str, parameters: Sequence[KernelParameter], sources: Iterable[SourceFile]
) -> tuple[str, ...]:
    """The arguments of a call, completed by defaults; as they are where one that is left out has none."""
    left_out = range(len(arguments), len(parameters))
    if not left_out:
        return arguments
    defaults = defaults_of(name, parameters, sources)
    return (*arguments, *(defaults[i] for i in left_out)) if all(defaults[i] for i in left_out) else arguments


def defaults_of(name: str, parameters: Sequence[KernelParameter], sources: Iterable[SourceFile]) -> tuple[str, ...]:
    """The default of each parameter as text, empty for none. A definition may not repeat those of its prototype."""
    own = tuple(parameter.default for parameter in parameters)
    if not own or own[-1]:  # defaults are those of the last parameters
        return own
    for source in sources:
        for declared in _prototypes(name, source.text):
            if len(declared) == len(own) and declared[-1]:
                return tuple(mine or theirs for mine, theirs in zip(own, declared, strict=True))
    return own


def _prototypes(name: str, text: str) -> Iterable[tuple[str, ...]]:
    """The defaults of each declaration without a body: a type stands before its name, a semicolon after it."""
    if name not in text:
        return
    for match in re.finditer(rf"[\w>*&]\s+[*&]?{re.escape(name)}\s*\(", text):
        end = closing(text, match.end() - 1)
        if re.match(r"\)\s*;", text[end : end + 20]) and not text[: match.start() + 1].endswith("return"):
            listed = arguments_of(text[match.end() : end])
            yield tuple(found[1].strip() if (found := _DEFAULT.search(each)) else "" for each in listed)
