"""A CUDA text with comments, literals and directives told apart. Every step is linear in the text.

Line numbers stay the same throughout, and so do offsets between ``text``, ``code`` and ``bare``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_RAW = r'\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
_STRING = r'"(?:\\.|[^"\\\n])*+"?'
_CHARACTER = r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*+'?"
_COMMENT = r"//(?:\\\n|[^\n])*+|/\*.*?(?:\*/|\Z)"
_LITERAL = re.compile(rf"{_RAW}|{_STRING}|{_CHARACTER}", re.S)
# Everything up to a comment in one match, so that a header full of strings costs no call of Python for each.
_TO_COMMENT = re.compile(
    rf"(?:[^/\"'uULR]++|{_RAW}|{_STRING}|{_CHARACTER}|[uULR']|/(?![/*]))*+(?P<comment>(?:(?:{_COMMENT})\s*+)++)", re.S
)
_RAW_STRING = re.compile(_RAW, re.S)
_BACKSLASH = re.compile(r"\\[ \t\f\v]+\n")
_DIRECTIVE = re.compile(r"^[ \t\f\v]*(?:#|%:)((?:\\\n|[^\n])*)", re.M)
_WORD = re.compile(r"(?:\\\n|\s)*(\w*)(.*)", re.S)
_DEFINE = re.compile(r"\s*(\w+)(\(([^()]*)\))?(.*)", re.S)
_ZERO = re.compile(r"\s*(?:0|false)\s*")
_CELL_MAGIC = re.compile(r"\s*+%%[A-Za-z][^\n]*")
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


def plain_lines(text: str) -> str:
    """``text`` with newlines as line ends, without a byte order mark and a notebook's ``%%writefile`` or ``%%cu``."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text if (magic := _CELL_MAGIC.match(text)) is None else blank(magic.group()) + text[magic.end() :]


def normalized(text: str) -> str:
    """``text`` with plain lines, and none that ends with a backslash and blanks."""
    text = plain_lines(text).replace("\0", " ")
    return _BACKSLASH.sub(r"\\\n", text) if _BACKSLASH.search(text) else text


def blank(text: str) -> str:
    """Blanks of the same length and lines."""
    if "\n" not in text:
        return " " * len(text)
    return "\n".join(" " * len(line) for line in text.split("\n"))


def uncommented(text: str) -> str:
    """``text`` with each comment replaced by a blank and its newlines."""
    parts, last = [], 0
    while (match := _TO_COMMENT.match(text, last)) is not None:
        start, end = match.span("comment")
        parts += [text[last:start], " ", "\n" * text.count("\n", start, end)]
        last = end
    return "".join([*parts, text[last:]])


class Text:
    """One file's text.

    code  without comments; contents of literals stay
    bare  without comments, contents of literals, directives, and what ``#if 0`` excludes
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts, last = [], 0
        while (match := _TO_COMMENT.match(text, last)) is not None:
            start, end = match.span("comment")
            parts += [text[last:start], blank(text[start:end])]
            last = end
        self.code = "".join([*parts, text[last:]])

    @cached_property
    def _literals_hidden(self) -> str:
        return _LITERAL.sub(
            lambda match: match.group() if match.group() == '"C"' else _hidden(match.group()), self.code
        )

    @cached_property
    def _raw_strings_hidden(self) -> str:
        return _RAW_STRING.sub(lambda match: blank(match.group()), self.code) if 'R"' in self.code else self.code

    @cached_property
    def directives(self) -> tuple[Directive, ...]:
        found = []
        for match in _DIRECTIVE.finditer(self._raw_strings_hidden):
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


def _hidden(literal: str) -> str:
    hidden = blank(literal)
    return f'"{hidden[1:-1]}"' if len(hidden) > 1 and "\n" not in hidden else hidden
