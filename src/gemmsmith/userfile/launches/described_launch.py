"""A launch that a comment describes, ``// launch: block (32, 8), grid (ceil(N/32), ceil(M/8))``, or writes as code:
``// gemm<<<dim3((n + 31) / 32, (m + 7) / 8), dim3(32, 8)>>>(A, B, C, m, n, k)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.expressions import evaluate, split
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.userfile.text.parts import KernelSource, SourceFile

# What is not closed ends with its line, or the file: one pass, whatever the text is.
_COMMENT = re.compile(r"//(?P<line>[^\n]*+)|/\*(?P<block>.*?)(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?", re.S)
_GRID = re.compile(r"\bgrid(?:Dim)?\b\s*(?:=|:|is|of)?\s*(?:dim3)?\s*\(", re.I)
_FLAT_GRID = re.compile(
    r"\bgrid(?:Dim)?\b\s*(?:=|:|is|of)\s*(?P<flat>\w[^,;:=\n]{0,120}?)\s+(?:thread )?blocks\b", re.I
)
_BLOCK = re.compile(
    r"\bblock(?:Dim|s)?\b\s*(?:=|:|is|of)?\s*(?:dim3)?\s*(?:\(|(?P<flat>\d+(?:\s*[x×]\s*\d+)?)\b)", re.I
)
_THREADS = re.compile(r"\b(?P<flat>\d+(?:\s*[x×]\s*\d+)?)\s+threads\b", re.I)
_OF_LAUNCH = re.compile(r"\b(?:launch(?:ed)?|grid|blocks?)\b", re.I)
_WRITTEN = re.compile(
    r"(?:\b(?P<name>[A-Za-z_]\w*)\s*(?:<[^<>;]{0,80}>)?)?\s*<<<(?P<how>[^;]{1,200}?)>>>\s*(?:\((?P<passed>[^;()]{0,400})\))?"
)
_TILES = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*(?:ceil\w*|cdiv|div_?up)\s*\(\s*(\w+)\s*[/,]\s*(\w+)\s*\)")
_DIM3 = re.compile(r"\s*dim3\s*\((.*)\)\s*", re.S)
_LINES = 4  # over which it may be written
_NAME = re.compile(r"[A-Za-z_]\w*")
_ROUNDED = re.compile(r"ceil|div|up\b|floor", re.I)
_DIVISION = re.compile(r"(?<!/)/(?!/)")
_MOST_TEXT = 1 << 14  # characters of comments
_LONGEST = 200  # characters of a grid or block
_SAMPLE = {"M": 1024, "N": 2048, "K": 512, "BATCH": 2, "batch": 2}


@dataclass(frozen=True)
class DescribedLaunch:
    """Grid and block as ``--grid`` and ``--block`` take them; empty: not described. ``line`` of the file, from 1 on;
    ``text`` of the comment there."""

    grid: str
    block: str
    line: int
    text: str


def launch_in_comments(
    text: str, kernel: KernelSource, file: SourceFile, parameters: Mapping[str, str]
) -> DescribedLaunch | None:
    """The launch of ``kernel`` that comments of its ``file`` write as code, or describe between the kernel before it
    and its own end; or its file's end, if no kernel follows. ``parameters`` as in ``written_launch``."""
    ends = [each.line + each.body.count("\n") for each in file.kernels if each.line < kernel.line]
    last = kernel.line + kernel.head.count("\n") + kernel.body.count("\n") + 1
    if all(each.line <= kernel.line for each in file.kernels):
        last = text.count("\n") + 1  # of the last kernel they may stand anywhere behind it
    first, extents = max(ends, default=0) + 1, {name: role for name, role in parameters.items() if role in EXTENTS}
    found = written_launch(text, kernel.name, range(first, last + 1), parameters)
    return found or described_launch(text, first, last, extents)


def described_launch(text: str, first: int, last: int, names: Mapping[str, str]) -> DescribedLaunch | None:
    """The launch that comments between two lines describe; None where they do not, or contradict each other.

    ``names``: what the kernel's parameters are: M, N or K.
    """
    grids: dict[str, int] = {}
    blocks: dict[str, int] = {}
    texts: dict[int, str] = {}  # by line
    comments = _comments(text, first, last)
    names = _defined(comments, names)
    for line, comment in comments:
        for match in _GRID.finditer(comment):
            grids.setdefault(_as_option(_inside(comment, match.end()), names), line)
            texts.setdefault(line, _line_of(comment, match))
        for match in _FLAT_GRID.finditer(comment):
            grids.setdefault(_as_option(match["flat"], names), line)
            texts.setdefault(line, _line_of(comment, match))
        threads = _THREADS.finditer(comment) if _OF_LAUNCH.search(comment) else ()  # else of a part of the block
        for match in (*_BLOCK.finditer(comment), *threads):
            flat = match["flat"]
            blocks.setdefault(
                _as_option(re.sub(r"[x×]", ",", flat) if flat else _inside(comment, match.end()), names), line
            )
            texts.setdefault(line, _line_of(comment, match))
    grids.pop("", None)
    blocks.pop("", None)
    if len(grids) > 1 or len(blocks) > 1 or not (grids or blocks):
        return None
    line = min((*grids.values(), *blocks.values()))
    return DescribedLaunch(next(iter(grids), ""), next(iter(blocks), ""), line, texts[line])


def written_launch(text: str, name: str, near: range, parameters: Mapping[str, str]) -> DescribedLaunch | None:
    """The launch of the kernel ``name`` that a comment writes as code; None where none does, or several do. Without a
    name it is that of the kernel if it stands ``near``, on one of these lines.

    ``parameters``: what the kernel's parameters are, in order: M, N, K, or themselves.
    """
    comments = _comments(text, 1, text.count("\n") + 1)
    parameters = _defined(comments, parameters)
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for number, (line, comment) in enumerate(comments):
        following = " ".join(each for _, each in comments[number + 1 : number + _LINES])
        match = _WRITTEN.search(f"{comment} {following}")
        if match is None or match.start() >= len(comment):
            continue
        if match["name"] != name and (match["name"] or line not in near):
            continue
        passed = [each.strip() for each in split(match["passed"] or "")]
        given_for = zip(passed, parameters.values(), strict=False)
        names = dict(parameters) | {given: role for given, role in given_for if _NAME.fullmatch(given)}
        given = [_of_code(_DIM3.sub(r"\1", part), names) for part in split(match["how"])[:2]]
        if len(given) == len(("grid", "block")):
            found.setdefault((given[0], given[1]), (line, _line_of(comment, match)))
    if len(found) != 1:
        return None
    (((grid, block), (line, shown)),) = found.items()
    return DescribedLaunch(grid, block, line, shown)


def is_launch(found: DescribedLaunch, constants: Mapping[str, int]) -> bool:
    """Whether all of it is understood: numbers, constants of the file, and extents."""
    try:
        values = [evaluate(part, {**constants, **_SAMPLE}) for text in (found.grid, found.block) for part in split(text)
                  if text]  # fmt: skip
    except GemmsmithError:
        return False
    return min(values) > 0


def _comments(text: str, first: int, last: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    size, line, place = 0, 1, 0
    for match in _COMMENT.finditer(text):
        line += text.count("\n", place, match.start())
        place = match.start()
        comment = match["line"] if match["line"] is not None else match["block"]
        if line > last or size > _MOST_TEXT:
            break
        if comment is not None and line >= first:
            found.append((line, comment[:_MOST_TEXT]))
            size += len(comment)
    return found


def _defined(comments: list[tuple[int, str]], names: Mapping[str, str]) -> dict[str, str]:
    """The names, and those that comments define as numbers of tiles: ``with t = ceil(n / 16)``."""
    found = dict(names)
    for _, comment in comments:
        for name, size, tile in _TILES.findall(comment):
            size, tile = (_as_roles(each, names) for each in (size, tile))
            found.setdefault(name, f"(({size} + {tile} - 1) // {tile})")
    return found


def _line_of(comment: str, match: re.Match[str]) -> str:
    """The line of a comment in which a match begins."""
    start = comment.rfind("\n", 0, match.start()) + 1
    return " ".join(comment[start:].partition("\n")[0].strip(" \t*").split())


def _inside(text: str, start: int) -> str:
    """What stands between the bracket before ``start`` and the one that closes it."""
    depth = 1
    for place in range(start, min(len(text), start + _LONGEST)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    return ""


def _of_code(text: str, names: Mapping[str, str]) -> str:
    """C++ as an option: its division cuts."""
    parts = split(_as_roles(text.replace("/", "//"), names)) if text.strip() else []
    return ",".join(" ".join(part.split()) for part in parts)


def _as_roles(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: names.get(match[0], match[0]), text)


def _as_option(text: str, names: Mapping[str, str]) -> str:
    """``n / 64, batch`` as an option: "N // 64,BATCH". Without a word for how it is rounded a division cuts."""
    text = _as_roles(text, names)
    parts = [part.strip() for part in split(text)] if text.strip() else []
    return ",".join(part if _ROUNDED.search(part) else _DIVISION.sub("//", part) for part in parts)
