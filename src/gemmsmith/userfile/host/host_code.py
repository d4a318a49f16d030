"""Blank out the host code of a user's files, so that a ``.cu`` file with a ``main`` compiles unchanged.

NVRTC compiles device code only. What a kernel reaches by name is kept: device functions, types, constants, constexpr
functions, helpers. All else is replaced by blanks; preprocessor lines and line numbers stay. Names are compared without
regard to scope, so too much may be kept. Where the compiler rejects a function without ``__device__`` that was kept for
its name alone, it is blanked as well (``Source.rejected``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gemmsmith.userfile.text.declarations import Declaration, declarations, line_of, line_starts, members
from gemmsmith.userfile.text.tokens import Macro, Text, blank

_DEVICE_WORDS = ("__global__", "__device__", "__constant__", "__shared__", "__managed__", "__grid_constant__")
_WORD = re.compile(r"[A-Za-z_]\w*")
# A name that may be a declaration's, with the namespace or class before it: no member after a dot or an arrow.
_NAME = re.compile(r"(?<![\w.])(?<!->)((?:[A-Za-z_]\w*\s*::\s*)*+)([A-Za-z_]\w*)")
_HOST = re.compile(
    r"\bstd\s*::\s*(?:vector|string\w*|map|unordered_\w+|set|list|deque|queue|stack|function|thread|mutex|chrono|"
    r"[iow]?[io]?f?stream\w*|[io]?stringstream|cout|cerr|cin|endl|unique_ptr|shared_ptr|make_unique|make_shared|"
    r"random_device|mt19937\w*|\w+_distribution|default_random_engine|runtime_error|exception|optional|any|future|async|"
    r"lock_guard|unique_lock|ostream|istream|setw|setprecision|generate|iota|for_each|sort|exit|getenv)\b"
    r"|\bcublas\w*_t\b|\bcuda(?:Event|Stream|Error|DeviceProp|Graph)\w*\b|\b(?:cuda(?:Malloc|Memcpy|Free|Memset)\w*)\s*\("
    r"|\b(?:torch|at)\s*::\s*Tensor\b|\bFILE\s*\*|<<<|\bCU(?:result|context|module|stream|device)\b"
)
# A library's macro that annotates device code.
_ANNOTATION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n(]*__(?:device|global|host)__.*)$", re.M)
_CONSTANT = re.compile(r"\bconst(?:expr|init|eval)?\b")
_HOST_ONLY = re.compile(r"\b__host__\b")
_USING = re.compile(r"\busing\s+namespace\s+(?:::\s*)?(\w+(?:\s*::\s*\w+)*)")


@dataclass(frozen=True)
class Kept:
    """Which declarations of one text are blanked, and what of the kept ones may be blanked if the compiler objects."""

    blanked: tuple[tuple[int, int], ...]
    doubtful: tuple[tuple[int, int], ...]


_Found = tuple[str, Declaration]  # a text's name, and a declaration in it


class _Use(NamedTuple):
    """A name in kept code: what it is qualified with, and the namespaces around the code; None: anywhere."""

    qualifier: str
    name: str
    scope: tuple[str, ...] | None


@dataclass
class _File:
    text: Text
    found: list[Declaration] = field(default_factory=list)

    @cached_property
    def lines(self) -> list[int]:
        return line_starts(self.text.text)


def without_host_code(text: str) -> str:
    """``text`` with host functions and host variables at namespace scope blanked; every kernel and constant stays."""
    return Source({"": text}).device_code()[""]


class Source:
    """A file and its headers, by name, seen as one program."""

    def __init__(self, texts: Mapping[str, str], libraries: Iterable[str] = ()) -> None:
        """``libraries``: names of texts that are left as they are, since they are written for NVRTC."""
        libraries = frozenset(libraries)
        self._untouched = {name: text for name, text in texts.items() if name in libraries}
        self._files = {name: _File(Text(text)) for name, text in texts.items() if name not in libraries}
        self.macros: dict[str, list[Macro]] = {}
        annotations = (
            Macro(name, None, body) for text in self._untouched.values() for name, body in _ANNOTATION.findall(text)
        )
        for macro in (*annotations, *(macro for each in self._files.values() for macro in each.text.macros)):
            self.macros.setdefault(macro.name, []).append(macro)
        self._device = self._device_words()
        whole = {name for name, found in self.macros.items() if any(_is_whole(macro) for macro in found)}
        for each in self._files.values():
            each.found = declarations(each.text, whole)
        self._by_name: dict[str, list[tuple[str, Declaration]]] = {}
        for name, each in self._files.items():
            for declaration in each.found:
                for declared in declaration.names:
                    self._by_name.setdefault(declared, []).append((name, declaration))
        self._banned: set[tuple[str, int, int]] = set()
        self._kept: dict[str, Kept] = {}

    def _device_words(self) -> re.Pattern[str]:
        """Matches the annotations of device code, spelled by macros too."""
        words = set(_DEVICE_WORDS)
        while True:
            more = {
                name
                for name, found in self.macros.items()
                if name not in words
                and any(macro.parameters is None and words & set(_WORD.findall(macro.body)) for macro in found)
            }
            if not more:
                break
            words |= more
        alternatives = "|".join(sorted(words))
        # NVRTC takes no annotation on a lambda; within device code it needs none.
        self._lambda = re.compile(
            rf"(?<=\])((?:\s|\b(?:__host__|__forceinline__|{alternatives})\b)+)(?=[({{]|mutable\b)"
        )
        return re.compile(rf"\b(?:{alternatives})\b")

    @property
    def names(self) -> Iterable[str]:
        """Every name that is declared at namespace scope."""
        return self._by_name.keys()

    def qualified(self, entry: str) -> str:
        """``entry`` with the namespaces it is declared in; as given if it has some, or is not found."""
        name, angle, rest = entry.partition("<")
        if "::" in name:
            return entry
        for _, each in self._by_name.get(name.strip(), ()):
            if self._is_kernel(each) and any(each.namespace):
                return "::".join(part for part in each.namespace if part) + "::" + name + angle + rest
        return entry

    def device_code(self, entry: str = "") -> dict[str, str]:
        """The texts with only what ``entry`` reaches; with all kernels, constants and types if it is not given."""
        kept = self._reached(entry)
        result = dict(self._untouched)
        for name, each in self._files.items():
            self._kept[name] = self._choose(name, each, kept)
            made = _blanked(each.text, self._kept[name].blanked)
            result[name] = self._lambda.sub(lambda match: blank(match.group()), made)
        return result

    def rejected(self, errors: Iterable[tuple[str, int]]) -> bool:
        """Blank, from now on, the doubtful code on these lines; whether there was any."""
        banned = set(self._banned)
        for name, line in errors:
            if (kept := self._kept.get(name)) is None:
                continue
            starts = self._files[name].lines
            covering = [s for s in kept.doubtful if line_of(starts, s[0]) <= line <= line_of(starts, s[1] - 1)]
            if covering:
                banned.add((name, *min(covering, key=lambda s: s[1] - s[0])))
        grew = len(banned) > len(self._banned)
        self._banned = banned
        return grew

    # --- which declarations are kept

    def _is_device(self, declaration: Declaration, name: str) -> bool:
        if declaration.kind == "macro call":
            return any(self._device.search(macro.body) for macro in self.macros.get(declaration.names[0], ()))
        bare = self._files[name].text.bare
        where = bare[declaration.start : declaration.end] if declaration.kind == "type" else declaration.head
        if self._device.search(where):
            return True
        return any(self._device_call(word) for word in _WORD.findall(declaration.head)[:4])

    def _device_call(self, word: str) -> bool:
        """Whether a function-like macro opens a device function: ``KERNEL(name) { ... }``."""
        return any(m.parameters is not None and self._device.search(m.body) for m in self.macros.get(word, ()))

    def _is_kernel(self, declaration: Declaration) -> bool:
        words = set(_WORD.findall(declaration.head))
        if "__global__" in words:
            return True
        return any("__global__" in macro.body for word in words for macro in self.macros.get(word, ()))

    def _reached(self, entry: str) -> set[tuple[str, int]]:
        """(text, start) of what is kept."""
        name = entry.partition("<")[0].split("::")[-1].strip()
        pending: list[tuple[str, Declaration]] = [
            found for found in self._by_name.get(name, ()) if self._is_kernel(found[1])
        ]
        if pending:
            always = [e for e in self._everything() if self._stays(e[1], e[0], named="operator" in e[1].names)]
        else:
            always = [e for e in self._everything() if self._stays(e[1], e[0], named=True)]
        kept: set[tuple[str, int]] = set()
        seen: set[_Use] = set()
        uses = [_Use("", word, None) for word in _WORD.findall(entry)]
        pending += always
        while pending or uses:
            while pending:
                file, each = pending.pop()
                if (file, each.start) in kept or (file, each.start, each.end) in self._banned:
                    continue
                kept.add((file, each.start))
                used = self._files[file].text.bare[each.start : each.end]
                for scopes, word in set(_NAME.findall(used)):
                    qualifiers = _WORD.findall(scopes)
                    uses += [_Use("", scope, each.namespace) for scope in qualifiers]
                    uses.append(_Use(qualifiers[-1] if qualifiers else "", word, each.namespace))
            while uses:
                use = uses.pop()
                if use in seen:
                    continue
                seen.add(use)
                for macro in self.macros.get(use.name, ()):
                    uses += [_Use("", word, None) for word in set(_WORD.findall(macro.body))]
                pending += self._meant(use)
        return kept

    def _meant(self, use: _Use) -> list[_Found]:
        """The declarations that a name may mean: those of the namespace it is qualified with, or of those around it;
        all of that name if there are none there."""
        found = [each for each in self._by_name.get(use.name, ()) if self._may_stay(each[1], each[0])]
        if len(found) < 2 or use.scope is None:
            return found
        if use.qualifier:
            near = [each for each in found if each[1].namespace[-1:] == (use.qualifier,)]
        else:
            near = self._visible(found, use.scope)
        return near or found

    def _visible(self, found: list[_Found], scope: tuple[str, ...]) -> list[_Found]:
        """What code in ``scope`` may mean without qualifying it: the innermost namespace hides those around it."""
        around = {len(outer) for _, each in found if (outer := _named(each.namespace)) == _named(scope)[: len(outer)]}
        innermost = _named(scope)[: max(around)] if around else None
        return [
            (file, each)
            for file, each in found
            if _named(each.namespace) == innermost
            or each.namespace in self._with_types
            or each.namespace[-1:] in self._used_namespaces
        ]

    @cached_property
    def _with_types(self) -> set[tuple[str, ...]]:
        """Namespaces whose functions an argument of one of their types makes visible."""
        return {each.namespace for _, each in self._everything() if each.kind in ("type", "alias")}

    @cached_property
    def _used_namespaces(self) -> set[tuple[str]]:
        """The last names of ``using namespace``, anywhere."""
        used = (_USING.findall(file.text.bare) for file in self._files.values())
        return {(re.split(r"\s*::\s*", name)[-1],) for names in used for name in names}

    def _everything(self) -> Iterable[tuple[str, Declaration]]:
        return ((name, each) for name, file in self._files.items() for each in file.found)

    def _stays(self, declaration: Declaration, name: str, named: bool) -> bool:
        """Whether a declaration is kept without being reached."""
        if declaration.kind in ("using", "assertion"):
            return declaration.kind == "using"
        if declaration.kind == "macro call":
            return self._is_device(declaration, name)
        if not named or declaration.kind == "instance" or self._is_host(declaration, name):
            return False
        if declaration.kind in ("type", "alias"):
            return True
        if declaration.kind == "variable":
            return bool(_CONSTANT.search(declaration.head)) or self._is_device(declaration, name)
        return self._is_device(declaration, name) or "constexpr" in declaration.head

    def _may_stay(self, declaration: Declaration, name: str) -> bool:
        """Whether a declaration that is reached by name is device code, or may be."""
        if declaration.kind == "instance" or "main" in declaration.names:
            return False
        if declaration.kind == "variable" and not _CONSTANT.search(declaration.head):
            return self._is_device(declaration, name)
        return not self._is_host(declaration, name)

    def _is_host(self, declaration: Declaration, name: str) -> bool:
        """Whether a declaration has no annotation of device code and uses what only host code has."""
        if self._is_device(declaration, name):
            return False
        if declaration.kind == "function" and _HOST_ONLY.search(declaration.head):
            return True
        whole = self._files[name].text.bare[declaration.start : declaration.end]
        return bool(_HOST.search(whole))

    def _call_before(self, declaration: Declaration) -> tuple[int, int] | None:
        """A call of an unknown macro without semicolon on the lines before a declaration: ``REGISTER(name)``."""
        head = declaration.head
        opened = re.match(r"[A-Za-z_]\w*\s*\(", head)
        if opened is None or declaration.kind == "macro call":
            return None
        depth = 0
        for match in re.finditer(r"[()]", head):
            depth += 1 if match.group() == "(" else -1
            if depth == 0:
                separate = re.match(r"[ \t]*\n\s*\w", head[match.end() :])
                return (declaration.start, declaration.start + match.end()) if separate else None
        return None

    # --- what is blanked

    def _choose(self, name: str, file: _File, kept: set[tuple[str, int]]) -> Kept:
        blanked: list[tuple[int, int]] = []
        doubtful: list[tuple[int, int]] = []
        for each in file.found:
            if (name, each.start) not in kept:
                blanked.append((each.start, each.end))
                continue
            if not self._is_device(each, name):
                doubtful.append((each.start, each.end))
            if (prefix := self._call_before(each)) is not None:
                (blanked if (name, *prefix) in self._banned else doubtful).append(prefix)
            if each.kind == "type" and each.opening >= 0:
                for member in members(file.text, each):
                    if member.kind != "function" or self._is_device(member, name):
                        continue
                    span = (member.start, member.end)
                    if (name, *span) in self._banned or self._is_host(member, name):
                        blanked.append(span)
                    else:
                        doubtful.append(span)
        return Kept(tuple(blanked), tuple(doubtful))


def _named(namespace: tuple[str, ...]) -> tuple[str, ...]:
    """Without unnamed namespaces, whose members are found as those of the namespace around them."""
    return tuple(name for name in namespace if name)


def _is_whole(macro: Macro) -> bool:
    """Whether a call of a function-like macro is a whole declaration."""
    return macro.parameters is not None and macro.body.rstrip().endswith(("}", ";"))


def _blanked(text: Text, spans: Iterable[tuple[int, int]]) -> str:
    """The text without the spans; preprocessor lines stay, so that every #if keeps its #endif."""
    parts, last, at = [], 0, 0
    directives = text.directives
    for start, end in sorted(spans):
        parts.append(text.text[last:start])
        while at < len(directives) and directives[at].start < start:
            at += 1
        last = start
        while at < len(directives) and directives[at].end <= end:
            each = directives[at]
            parts += [_newlines(text.text[last : each.start]), text.text[each.start : each.end]]
            last = each.end
            at += 1
        parts.append(_newlines(text.text[last:end]))
        last = end
    return "".join([*parts, text.text[last:]])


def _newlines(text: str) -> str:
    return "\n" * text.count("\n")
