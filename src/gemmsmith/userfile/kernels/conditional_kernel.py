"""A kernel behind an ``#if`` that the build decides: which condition, and which macros would make it hold.

Values are looked for where the build sets them (``-DNAME=4``, ``target_compile_definitions``), then in the condition.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.files.include_search import repository_of
from gemmsmith.userfile.text.conditions import condition_value
from gemmsmith.userfile.text.preprocessor import Directive, directives
from gemmsmith.userfile.text.source import read_text

Pairs = tuple[tuple[str, str], ...]
_BUILD_FILES = ("CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "*.cmake", "*.mk", "setup.py", "*.sh")
_MOST_FILES = 24
_LARGEST = 1 << 18  # bytes of a build file
_MOST_NAMES = 4
_MOST_TRIES = 2000
_OPENS, _TURNS = ("if", "ifdef", "ifndef"), ("elif", "else", "elifdef", "elifndef")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NOT_OURS = re.compile(r"__|defined$|true$|false$")


@dataclass(frozen=True)
class Hidden:
    """A kernel that is not compiled. ``condition`` is as written, at ``line``; ``defines`` would change that."""

    condition: str
    file: str
    line: int
    defines: Pairs

    def __str__(self) -> str:
        return f"`{self.condition}` ({self.file}:{self.line})"

    @property
    def options(self) -> str:
        """The defines as words of a command line."""
        return " ".join(f"-D {name}" if value == "1" else f"-D {name}={value}" for name, value in self.defines)


def hidden_entry(spec: KernelSpec) -> Hidden | None:
    """Why the kernel of a user's file is left out; None where it is not."""
    facts = getattr(spec.geometry, "facts", None)
    if facts is None:
        return None
    return hidden_kernel(facts.kernel.file, facts.kernel.line, dict(spec.extra_defines))


def hidden_kernel(file: Path, line: int, given: Mapping[str, str]) -> Hidden | None:
    """Why the text at ``line`` is left out with the user's macros; None where it is not."""
    try:
        found = directives(read_text(file))
    except UsageError:
        return None
    closed = _closed_branch(found, line, given)
    if closed is None:
        return None
    names = list(dict.fromkeys(name for each in _enclosing(found, line) for name in _NAME.findall(each.rest)
                               if not _NOT_OURS.match(name) and name not in given))  # fmt: skip
    built = _build_values(file, tuple(names[:_MOST_NAMES]))
    defines = _satisfying(found, line, given, names[:_MOST_NAMES], built)
    return Hidden(f"#{closed.word} {closed.rest.strip()}".strip(), file.name, closed.line, defines)


def _satisfying(
    found: tuple[Directive, ...], line: int, given: Mapping[str, str], names: list[str], built: Mapping[str, list[str]]
) -> Pairs:
    """The fewest macros with which ``line`` is compiled; none where no values do."""
    numbers = [int(n) for each in _enclosing(found, line) for n in re.findall(r"\b\d{1,6}\b", each.rest)]
    near = list(dict.fromkeys(str(n) for number in numbers for n in (number, number + 1, number - 1) if n >= 0))
    choices = [[*built.get(name, ()), "1", *near] for name in names]
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(range(len(names)), count):
            tries = itertools.product(*(dict.fromkeys(choices[i]) for i in chosen))
            for values in itertools.islice(tries, _MOST_TRIES):
                defines = tuple((names[i], value) for i, value in zip(chosen, values, strict=True))
                if _closed_branch(found, line, {**given, **dict(defines)}) is None:
                    return defines
    return ()


def _enclosing(found: tuple[Directive, ...], line: int) -> list[Directive]:
    """The conditions around a line: those of its branch and of the branches before it."""
    opened: list[list[Directive]] = []
    for each in found:
        if each.line > line:
            break
        if each.word in _OPENS:
            opened.append([each])
        elif each.word in _TURNS and opened:
            opened[-1].append(each)
        elif each.word == "endif" and opened:
            opened.pop()
    return [each for group in opened for each in group]


def _closed_branch(found: tuple[Directive, ...], line: int, given: Mapping[str, str]) -> Directive | None:
    """The condition that leaves a line out; None where it is compiled."""
    macros = dict(given)
    opened: list[tuple[Directive, bool, bool]] = []  # the branch's directive, whether it is taken, whether one was
    for each in found:
        if each.line > line:
            break
        active = all(taken for _, taken, _ in opened)
        if each.word in _OPENS:
            holds = active and _holds(each, macros)
            opened.append((each, holds, holds or not active))
        elif each.word in _TURNS and opened:
            _, _, was = opened.pop()
            active = all(taken for _, taken, _ in opened)
            holds = active and not was and _holds(each, macros)
            opened.append((each, holds, was or holds))
        elif each.word == "endif" and opened:
            opened.pop()
        elif each.word == "define" and active and (named := re.match(r"\s*(\w+)(\()?(.*)", each.rest, re.S)):
            macros[named[1]] = "" if named[2] else named[3].strip()
        elif each.word == "undef" and active:
            macros.pop(each.rest.strip(), None)
    return next((directive for directive, taken, _ in opened if not taken), None)


def _holds(each: Directive, macros: Mapping[str, str]) -> bool:
    """Whether a condition holds as C++ reads it: a name that is no macro is 0."""
    word, text = each.word.removeprefix("el"), each.rest.strip()
    if word == "se":
        return True
    if word in ("ifdef", "ifndef"):
        name = (_NAME.match(text) or [""])[0]
        return (name in macros or name.startswith("__CUDA")) == (word == "ifdef")
    said = _DEFINED.sub(lambda m: str(int((m[1] or m[2]) in macros or (m[1] or m[2]).startswith("__CUDA"))), text)
    zero = {name: "0" for name in _NAME.findall(said) if name not in macros and not name.startswith("__CUDA")}
    return bool(condition_value(said, {**zero, **macros}))


def _build_values(file: Path, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The values that build files between the file and its repository's root set, the nearest first."""
    found: dict[str, list[str]] = {}
    for text in _build_texts(file):
        for name in names:
            for match in re.finditer(rf"-D\s*{name}\b(?:=\"?([\w.]+))?|\b{name}=(\w+)", text):
                found.setdefault(name, []).append(match[1] or match[2] or "1")
    return found


def _build_texts(file: Path) -> Iterator[str]:
    root, folder, count = repository_of(file.absolute()), file.absolute().parent, 0
    while True:
        for pattern in _BUILD_FILES:
            for path in sorted(folder.glob(pattern)):
                count += 1
                if count > _MOST_FILES:
                    return
                if path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
                    try:
                        yield read_text(path)
                    except UsageError:
                        continue
        if folder == root or folder == folder.parent:
            return
        folder = folder.parent
