"""A user's file as the compiler gets it: texts in memory, host code blanked, and what to try if it does not compile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from gemmsmith.compile.request import CompileRequest
from gemmsmith.compile.toolchain import Toolchain
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.userfile.files.include_search import IncludeSearch
from gemmsmith.userfile.files.stub_headers import PRELUDE, lacking, needs_cpp20, prelude, without_unused_includes
from gemmsmith.userfile.files.user_bundle import UserBundle, user_bundle
from gemmsmith.userfile.host.host_code import Source
from gemmsmith.userfile.kernels.given_values import with_given_values

_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic )?error", re.M)
_UNKNOWN = re.compile(r"is undefined|has no member|no instance of|no operator|not a template")
# ``static const float least = -1e9f;`` in a class: nvcc takes it as g++ does, NVRTC only as a constexpr
_MEMBER = re.compile(r"^(.+?)\((\d+)\): error: a member of type .* cannot have an in-class initializer", re.M)
_STATIC_CONST = re.compile(r"\b(?:static\s+const|const\s+static)\b")
_MOST_ATTEMPTS = 10
_MOST_INCLUDERS = 2


def own_headers() -> Path:
    """The ladder's shared device code, which users' files may include too."""
    return Path(str(files("gemmsmith.ladder").joinpath("include")))


class UserSource:
    """A user's file, its headers and its program; makes one request after another until one compiles."""

    def __init__(self, search: IncludeSearch, libcuxx: bool, edited: Edited = ()) -> None:
        self._search, self._libcuxx, self._edited = search, libcuxx, edited
        self._attempts = 0
        self._whole = False  # all device code, not only what the entry reaches
        self._lacking: frozenset[str] = frozenset()  # names that library headers take from headers NVRTC does not have
        self._members: set[tuple[str, int]] = set()  # lines of constants in classes that must be constexpr
        self._mains: list[Path] | None = None
        self._set(user_bundle(search, edited=edited))

    def _set(self, bundle: UserBundle) -> None:
        self.bundle, self.source = bundle, Source(bundle.texts, bundle.libraries)

    @classmethod
    def read(cls, path: Path, folders: tuple[Path, ...], toolchain: Toolchain, edited: Edited = ()) -> UserSource:
        """Read ``path`` and what it includes from its repository and ``folders``."""
        return cls(IncludeSearch(path, folders, toolchain.includes, (own_headers(),)), bool(toolchain.cccl), edited)

    @staticmethod
    def is_ours(path: Path) -> bool:
        """Whether a file is part of this package, and no user's; exercises are written as users write them."""
        root = Path(str(files("gemmsmith")))
        return path.is_relative_to(root) and not path.is_relative_to(root / "learn")

    @property
    def texts(self) -> tuple[str, ...]:
        """The file's own text and those of its headers."""
        return tuple(self.bundle.texts.values())

    def request(self, name: str, entry: str, defines: tuple[tuple[str, str], ...], arch: str) -> CompileRequest:
        """What to compile for ``entry``, a name expression; its namespaces are added if it has none."""
        made = CompileRequest(
            name, "", (), defines, arch, self.source.qualified(entry), True, self.bundle.files,
            missing=self.bundle.missing, isolated=True, cpp20=needs_cpp20(self.texts),
        )  # fmt: skip
        return self._filled(made)

    def _filled(self, request: CompileRequest) -> CompileRequest:
        texts = self.source.device_code("" if self._whole else request.entry)
        texts |= {name: _with_constexpr(text, {line for file, line in self._members if file == name})
                  for name, text in texts.items() if any(file == name for file, _ in self._members)}  # fmt: skip
        own = without_unused_includes({n: text for n, text in texts.items() if n not in self.bundle.libraries})
        texts |= own
        request = _with_defines(request, texts, own)
        opening = prelude(own.values(), self.bundle.includes, self.source.names, self._libcuxx, self._lacking)
        headers = [(name, text) for name, text in texts.items() if name != self.bundle.name]
        return replace(
            request, source=texts[self.bundle.name], headers=((PRELUDE, opening), *sorted(headers)),
            retry=lambda log: self._retry(request, log),
        )  # fmt: skip

    def _retry(self, request: CompileRequest, log: str) -> CompileRequest | None:
        """The next request after ``log``: with names of ``std`` that a library needs; without host code that was kept
        for its name; with all device code; as part of a file that includes this one, for what a header leaves to
        that."""
        self._attempts += 1
        if self._attempts > _MOST_ATTEMPTS:
            return None
        if not (found := lacking(log)) <= self._lacking:
            self._lacking |= found
            return self._filled(request)
        if not (members := self._places(request, _MEMBER, log)) <= self._members:
            self._members |= members
            return self._filled(request)
        errors = sorted(self._places(request, _ERROR, log))
        if self.source.rejected(errors):
            return self._filled(request)
        if not self._whole and errors and _UNKNOWN.search(log):
            self._whole = True
            return self._filled(request)
        if (main := self._next_main(log)) is None:
            return None
        self._whole, self._members = False, set()
        self._set(user_bundle(self._search, main, self._edited))
        entry = self.source.qualified(request.entry)
        return self._filled(
            replace(request, name=Path(self.bundle.name).name, entry=entry, missing=self.bundle.missing)
        )

    def _places(self, request: CompileRequest, kind: re.Pattern[str], log: str) -> set[tuple[str, int]]:
        """The files and lines of the errors of a kind."""
        return {(self.bundle.name if where == request.name else where, int(line)) for where, line in kind.findall(log)}

    def _next_main(self, log: str) -> Path | None:
        """A file that includes this one, or that file, where names are undefined; the nearest first."""
        if self._mains is None:
            if "is undefined" not in log:
                return None
            first = self._search.includers(self._search.file)[:_MOST_INCLUDERS]
            second = [path for file in first for path in self._search.includers(file)[:1]]
            self._mains = list(dict.fromkeys(first + second))
        return self._mains.pop(0) if self._mains else None


def _with_constexpr(text: str, numbers: set[int]) -> str:
    """``text`` with ``static constexpr`` for ``static const`` in these lines."""
    lines = text.split("\n")
    for number in numbers & set(range(1, len(lines) + 1)):
        lines[number - 1] = _STATIC_CONST.sub("static constexpr", lines[number - 1])
    return "\n".join(lines)


def _with_defines(request: CompileRequest, texts: dict[str, str], own: Iterable[str]) -> CompileRequest:
    """The request without the macros that name constants of the file: their values are set in ``texts``."""
    constants: set[str] = set()
    for name in own:
        texts[name], found = with_given_values(texts[name], dict(request.defines))
        constants |= found
    return replace(request, defines=tuple(pair for pair in request.defines if pair[0] not in constants))
