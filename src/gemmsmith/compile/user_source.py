"""A user's file as the compiler gets it: texts in memory, host code blanked, and what to try if it does not compile."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from gemmsmith.compile.request import CompileRequest
from gemmsmith.compile.toolchain import Toolchain
from gemmsmith.userfile.host_code import Source
from gemmsmith.userfile.include_search import IncludeSearch
from gemmsmith.userfile.stub_headers import PRELUDE, needs_cpp20, prelude
from gemmsmith.userfile.user_bundle import UserBundle, user_bundle

_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic )?error", re.M)
_MOST_ATTEMPTS = 8

Entry = Callable[[str, tuple[str, ...]], tuple[str, tuple[tuple[str, str], ...]]]


def own_headers() -> Path:
    """The ladder's shared device code, which users' files may include too."""
    return Path(str(files("gemmsmith.ladder").joinpath("include")))


@dataclass
class UserSource:
    """A user's file, its headers and its program; makes one request after another until one compiles."""

    bundle: UserBundle
    source: Source
    libcuxx: bool
    whole: bool = False
    attempts: int = 0
    texts: tuple[str, ...] = field(default=())

    @classmethod
    def read(cls, path: Path, folders: tuple[Path, ...], toolchain: Toolchain) -> UserSource:
        """Read ``path`` and what it includes from its repository and ``folders``."""
        search = IncludeSearch(path, folders, toolchain.includes, (own_headers(),))
        bundle = user_bundle(search)
        libcuxx = any((folder / "cuda" / "std" / "type_traits").is_file() for folder in toolchain.includes)
        return cls(bundle, Source(bundle.texts, bundle.libraries), libcuxx, texts=tuple(bundle.texts.values()))

    def request(self, name: str, entry: str, defines: tuple[tuple[str, str], ...], arch: str) -> CompileRequest:
        """What to compile for ``entry``, a name expression; its namespaces are added if it has none."""
        made = CompileRequest(
            name, "", (), defines, arch, self.source.qualified(entry), True, self.bundle.files,
            missing=self.bundle.missing, isolated=True, cpp20=needs_cpp20(self.texts),
        )  # fmt: skip
        return self._filled(made)

    def _filled(self, request: CompileRequest) -> CompileRequest:
        texts = self.source.device_code("" if self.whole else request.entry)
        own = [text for name, text in texts.items() if name not in self.bundle.libraries]
        opening = prelude(own, self.bundle.includes, self.source.names, self.libcuxx)
        headers = [(name, text) for name, text in texts.items() if name != self.bundle.name]
        return replace(
            request, source=texts[self.bundle.name], headers=((PRELUDE, opening), *sorted(headers)),
            retry=lambda log: self._retry(request, log),
        )  # fmt: skip

    def _retry(self, request: CompileRequest, log: str) -> CompileRequest | None:
        """The next request after ``log``: without host code that was kept for its name; then with all device code."""
        self.attempts += 1
        if self.attempts > _MOST_ATTEMPTS:
            return None
        name = {request.name: self.bundle.name}
        errors = [(name.get(where, where), int(line)) for where, line in _ERROR.findall(log)]
        if self.source.rejected(errors):
            return self._filled(request)
        if self.whole or "error" not in log:
            return None
        self.whole = True
        return self._filled(request)
