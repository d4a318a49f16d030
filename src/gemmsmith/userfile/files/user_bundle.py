"""A user's file with every header that it may include, as texts that the compiler needs no file for.

NVRTC opens whatever an include names, ``/etc/passwd`` too. So each include is resolved here and written anew: a file of
the user's by the name its text has in the bundle, a header of CUDA's as it was, a host header as a blank line, and a
refused one as an error. Comments are blanked, so that nobody disagrees on which lines are directives.
"""

from __future__ import annotations

import codecs
import os
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.files.include_search import Included, IncludeSearch
from gemmsmith.userfile.files.stamp import Stamp, stamp
from gemmsmith.userfile.text.cuda_text import cuda_text
from gemmsmith.userfile.text.tokens import Directive, Text, normalized, uncommented

REFUSED = "gemmsmith refuses the include"
_INCLUDING = ("include", "include_next", "import", "embed")
_NAMED = re.compile(r'\s*(?:"([^"\n]*)"|<([^>\n]*)>)\s*')
_HAS_INCLUDE = re.compile(
    r"\b__has_(?:include|include_next|embed)\b(?:\s*\(\s*(?:\"([^\"\n]*)\"|<([^>\n]*)>)?[^)\n]*\))?"
)
_MACRO = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(\s*([\w./]*)\s*\)\s*)?")
_LINE = re.compile(r"^[ \t\f\v]*(?:#|%:|\?\?=)(?:[ \t\f\v]|\\\n)*(?:include|include_next|import|embed)\b", re.M)
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class UserBundle:
    """A file, the headers it includes by name, and what was not found.

    includes  host headers and missing ones, as spelled
    files     the files as they were when read
    """

    name: str
    texts: dict[str, str]
    missing: tuple[str, ...]
    includes: frozenset[str]
    libraries: frozenset[str]
    files: Stamp


@dataclass
class _Collector:
    search: IncludeSearch
    edited: Edited = ()
    names: dict[Path, str] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    includes: set[str] = field(default_factory=set)
    files: list[Stamp] = field(default_factory=list)
    size: int = 0

    def add(self, path: Path) -> str:
        """The name of a file's text in the bundle; its includes are pending until ``collect`` reads them."""
        if path in self.names:
            return self.names[path]
        name = self._name(path)
        self.names[path] = name
        self.files.append(stamp((str(path),)))  # before reading, so that a change meanwhile is noticed
        text = edited_text(path, self.edited)
        text = normalized(read_text(path) if text is None else text)
        self.size += len(text)
        if self.size > _MOST_BYTES:
            raise UsageError(f"{self.search.file.name} and its headers have more than {_MOST_BYTES >> 20} MiB")
        self.texts[name], self.folders[name] = Text(uncommented(text)), path.parent
        return name

    def collect(self) -> None:
        """Rewrite the includes of every text, those of headers that are found on the way too."""
        done = 0
        while done < len(self.texts):
            name = list(self.texts)[done]
            self.made[name] = self._rewritten(name)
            done += 1

    def _name(self, path: Path) -> str:
        """The path relative to the kernel's folder, or to that of ``-I``, so that moving a project changes nothing."""
        search = self.search
        bases = search.own if path.is_relative_to(search.root) else (*search.own, *search.folders)
        base = next((folder for folder in bases if path.is_relative_to(folder)), None)
        name = Path(os.path.relpath(path, base or search.file.parent)).as_posix()
        while name in self.texts:
            name = "_/" + name
        return name

    def _rewritten(self, name: str) -> str:
        text, depth, parts, last = self.texts[name], 0, [], 0
        guard = _guard(text.directives)
        rewritten = 0
        for each in text.directives:
            if each.word in ("if", "ifdef", "ifndef"):
                depth += each is not guard
            elif each.word == "endif":
                depth -= 1
            old = text.code[each.start : each.end]
            if each.word in _INCLUDING:
                new = self._include(name, each, depth > 0)
                rewritten += new.lstrip().startswith("#include")
            elif "__has_" in old:
                new = _HAS_INCLUDE.sub(partial(self._has_include, self.folders[name]), old)
            else:
                continue
            parts += [text.code[last : each.start], new + "\n" * (old.count("\n") - new.count("\n"))]
            last = each.end
        made = "".join([*parts, text.code[last:]])
        if len(_LINE.findall(re.sub(r"\\\n", "", made))) != rewritten:
            raise UsageError(f"{name} has an include inside a raw string literal, which cannot be told from a real one")
        return made

    def _include(self, name: str, each: Directive, conditional: bool) -> str:
        """The line that replaces an include."""
        named = _NAMED.match(self._expanded(each.rest))
        if named is None or each.word in ("import", "embed"):
            return f'#error "{REFUSED} {_shown(each.rest)}: its name is not written in place"'
        spelling, quoted = (named[1], True) if named[1] is not None else (named[2], False)
        found = self.search.find(spelling, quoted, self.folders[name])
        if found.kind == "refused":
            line = self.texts[name].code.count("\n", 0, each.start) + 1
            if not conditional:
                raise refused(f"{name}:{line}", spelling)
            return f'#error "{REFUSED} {_shown(spelling)}"'
        if found.path is not None:
            return f'#include "{self.add(found.path)}"'
        self.includes.add(spelling)
        if found.kind == "cuda":
            return f"#include <{spelling}>"
        if found.kind == "missing":
            self.missing[spelling] = None
        return ""

    def _expanded(self, rest: str) -> str:
        """The rest of an include; a macro is replaced by its only definition in the bundle, with its argument."""
        called = _MACRO.fullmatch(rest)
        if called is None:
            return rest
        macros = {m for text in self.texts.values() for m in text.macros if m.name == called[1]}
        if len(macros) != 1:
            return rest
        macro = macros.pop()
        if macro.parameters is None or len(macro.parameters) != 1 or called[2] is None:
            return macro.body if macro.parameters is None and called[2] is None else rest
        return re.sub(rf"\b{re.escape(macro.parameters[0])}\b", lambda _: called[2].strip(), macro.body)

    def _has_include(self, folder: Path, match: re.Match[str]) -> str:
        if "(" not in match.group():
            return match.group()  # defined(__has_include)
        spelling, quoted = (match[1], True) if match[1] is not None else (match[2] or "", False)
        found = self.search.find(spelling, quoted, folder)
        return "1" if found.kind in ("file", "cuda", "host") else "0"


def user_bundle(search: IncludeSearch, main: Path | None = None, edited: Edited = ()) -> UserBundle:
    """The text of a user's file with every header that it includes; raises ``UsageError`` for a refused one.

    ``main`` is what is compiled, if not the file itself: a file that includes it. ``edited``: texts in place of files.
    """
    collector = _Collector(search, edited)
    name = collector.add(main or search.file)
    collector.collect()
    return UserBundle(
        name, collector.made, tuple(collector.missing), frozenset(collector.includes),
        _libraries(collector), sum(collector.files, ()),
    )  # fmt: skip


def refused(where: str, spelling: str) -> UsageError:
    return UsageError(
        f'{where} includes "{_shown(spelling)}", which is outside the repository of the file',
        "give its folder with -I DIR if it may be read",
    )


def _libraries(collector: _Collector) -> frozenset[str]:
    """Texts from folders of ``-I`` that are written for NVRTC: they name its macro."""
    found: set[str] = set()
    for folder in (*collector.search.folders, *collector.search.own):
        below = {name for path, name in collector.names.items() if path.is_relative_to(folder)}
        below.discard(collector.names.get(collector.search.file, ""))
        if any("__CUDACC_RTC__" in collector.texts[name].text for name in below):
            found |= below
    return frozenset(found)


def _guard(directives: tuple[Directive, ...]) -> Directive | None:
    """The ``#ifndef`` of an include guard."""
    if len(directives) > 1 and directives[0].word == "ifndef" and directives[1].word == "define":
        return directives[0] if directives[0].rest.split() == directives[1].rest.split()[:1] else None
    return None


def _shown(spelling: str) -> str:
    return re.sub(r"[^\w./<>+ -]", "?", spelling.strip())[:120]


def read_text(path: Path) -> str:
    """A source file's text. Old files have comments in other encodings: those bytes are replaced."""
    try:
        if regular(path).stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} has more than {_MOST_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return cuda_text(path, data.decode("utf-16"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if (nul := data.find(0)) >= 0:
        raise UsageError(f"{path} is not UTF-8 text: a zero at byte {nul}")
    return cuda_text(path, data.decode("utf-8", errors="replace"))


__all__ = ["REFUSED", "Included", "UserBundle", "refused", "user_bundle"]
