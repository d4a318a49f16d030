"""A CUDA text with comments, literals and directives told apart. Every step is linear in the text.

Line numbers stay the same throughout, and so do offsets between ``text``, ``code`` and ``bare``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_LITERAL = re.compile(
    r"//(?:\\\n|[^\n])*"
    r"|/\*.*?(?:\*/|\Z)"
    r'|\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'?",
    re.S,
)
_DIRECTIVE = re.compile(r"^[ \t\f\v]*(?:#|%:)((?:\\\n|[^\n])*)", re.M)
_WORD = re.compile(r"(?:\\\n|\s)*(\w*)(.*)", re.S)
_DEFINE = re.compile(r"\s*(\w+)(\(([^()]*)\))?(.*)", re.S)
_ZERO = re.compile(r"\s*(?:0|false)\s*")
_OPENING = ("if", "ifdef", "ifndef")
_OTHERWISE = ("else", "elif", "elifdef", "elifndef")


@dataclass(frozen=True)
class Directive:
    """A preprocessor line with its continuations: ``# word rest``, continuations joined in ``rest``."""

    start: int
    end: int
    word: str
    rest: str


@dataclass(frozen=True)
class Macro:
    """A ``#define``; ``parameters`` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: str


def normalized(text: str) -> str:
    """``text`` without a byte order mark and NUL, with newlines as line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def blank(text: str) -> str:
    """Blanks of the same length and lines."""
    if "\n" not in text:
        return " " * len(text)
    return "\n".join(" " * len(line) for line in text.split("\n"))


class Text:
    """One file's text.

    code  without comments; contents of literals stay
    bare  without comments, contents of literals, directives, and what ``#if 0`` excludes
    """

    def __init__(self, text: str) -> None:
        self.text = text
        code, bare, last = [], [], 0
        for match in _LITERAL.finditer(text):
            start, end = match.span()
            between, literal = text[last:start], match.group()
            is_comment = literal.startswith(("//", "/*"))
            hidden = blank(literal)
            code += [between, hidden if is_comment else literal]
            bare += [between, hidden if is_comment else literal if literal == '"C"' else _quoted(hidden)]
            last = end
        self.code = "".join([*code, text[last:]])
        self._literals_hidden = "".join([*bare, text[last:]])

    @cached_property
    def directives(self) -> tuple[Directive, ...]:
        found = []
        for match in _DIRECTIVE.finditer(self._literals_hidden):
            start, end = match.span()
            body = _WORD.match(self.code[match.start(1) : end].replace("\\\n", ""))
            assert body is not None  # every part of the pattern may be empty
            found.append(Directive(start, end, body[1], body[2]))
        return tuple(found)

    @cached_property
    def bare(self) -> str:
        spans = [(d.start, d.end) for d in self.directives]
        return without(self._literals_hidden, merged(spans + self.excluded))

    @cached_property
    def excluded(self) -> list[tuple[int, int]]:
        """What ``#if 0`` excludes, up to its ``#else`` or ``#endif``."""
        spans: list[tuple[int, int]] = []
        stack: list[int] = []  # where the excluded branch of each open #if begins; -1: none
        for each in self.directives:
            if each.word in _OPENING:
                stack.append(each.end if each.word == "if" and _ZERO.fullmatch(each.rest) else -1)
            elif each.word in _OTHERWISE and stack:
                if stack[-1] >= 0:
                    spans.append((stack[-1], each.start))
                one = each.word == "elif" and _ZERO.fullmatch(each.rest)
                stack[-1] = each.end if one else -1
            elif each.word == "endif" and stack and (start := stack.pop()) >= 0:
                spans.append((start, each.start))
        return spans

    @cached_property
    def macros(self) -> tuple[Macro, ...]:
        """All definitions, in order; a macro may have several."""
        found = []
        for each in self.directives:
            if each.word == "define" and (named := _DEFINE.match(each.rest)):
                given = named[3]
                parameters = tuple(p.strip() for p in given.split(",")) if given is not None else None
                found.append(Macro(named[1], parameters, named[4].strip()))
        return tuple(found)


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted spans without overlaps."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """``text`` with sorted, separate spans blanked."""
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], blank(text[start:end])]
        last = end
    return "".join([*parts, text[last:]])


def _quoted(hidden: str) -> str:
    return f'"{hidden[1:-1]}"' if len(hidden) > 1 and "\n" not in hidden else hidden
