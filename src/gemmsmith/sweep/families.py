"""A kernel with some values fixed: given the values of a point, it is one configuration, or the reasons why not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import ConfigError, TemplateValueError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.renamed import replacement
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.sweep.axes import SPECIAL, Pairs, integer
from gemmsmith.userfile.files.includes import bundle
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel


@dataclass(frozen=True)
class Variant:
    """A kernel at one point. ``text`` is its configuration, or a file's macros."""

    spec: KernelSpec
    config: Config
    text: str


@dataclass(frozen=True)
class RungFamily:
    """A rung with some parameters fixed."""

    spec: KernelSpec
    fixed: Pairs = ()
    preset: str = ""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def fixed_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fixed)

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that the rung does not have."""
        known = [p.name for p in self.spec.parameters]
        for name in names:
            if name in known:
                continue
            if new := replacement(name):
                raise ConfigError(f"{self.name} has no parameter {name}: it was renamed", f"write {new}")
            raise ConfigError(f"{self.name} has no parameter {name}", _can_vary(known))

    def variant(self, changes: Pairs) -> Variant | tuple[str, ...]:
        """The rung with ``changes``, or every reason why it is illegal."""
        values = {p.name: p.default for p in self.spec.parameters}
        if self.preset:
            values.update(self.spec.config(preset=self.preset).values)
        values.update((name, self._value(name, value)) for name, value in (*self.fixed, *changes))
        config = Config(tuple(values.items()))
        reasons = self.spec.illegal(config)
        return tuple(reasons) if reasons else Variant(self.spec, config, str(config))

    def _value(self, name: str, text: str) -> int:
        """A number, or a name of a value: STORE_MODE=tma."""
        return self.spec.value_of(name, text) if text.isidentifier() else integer(name, text)


@dataclass(frozen=True)
class FileFamily:
    """A user's file; its macros vary, and its template parameters by name."""

    path: Path
    options: UserOptions

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def fixed_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.options.defines)

    def check(self, names: Iterable[str]) -> None:
        """Refuse a macro that the file does not have or sets itself: all points would be the same."""
        names = tuple(names)
        try:
            user_kernel(self.path, self.options)  # a missing file, or one without a kernel, is the likelier mistake
        except TemplateValueError as error:
            if not set(error.missing) & set(names):  # a template's value may be one of those that vary
                raise
        parts = bundle(self.path, ())
        text = "\n".join([parts.source, *(header for _, header in parts.headers)])
        for name in names:
            if not re.search(rf"\b{name}\b", text):
                macros = sorted(set(re.findall(r"^\s*#\s*ifndef\s+(\w+)\s*\n\s*#\s*define\s+\1\b", text, re.M)))
                raise ConfigError(f"{self.name} has no macro {name}", _can_vary(macros))
            if _sets_itself(name, text):
                raise ConfigError(f"{self.name} sets {name} itself and ignores -D{name}",
                                  f"let it be set from outside: #ifndef {name}, #define {name} …, #endif")  # fmt: skip

    def variant(self, changes: Pairs) -> Variant | tuple[str, ...]:
        """The file with ``changes`` as macros, or why it cannot be launched."""
        defines = (*self.options.defines, *changes)
        try:
            spec = user_kernel(self.path, replace(self.options, defines=defines))
        except UsageError as error:
            return (error.message,)
        return Variant(spec, spec.config(), ",".join(f"{name}={value}" for name, value in defines))


Family = RungFamily | FileFamily


def _sets_itself(name: str, text: str) -> bool:
    """Whether the source gives ``name`` a value that -D does not replace."""
    guard = rf"^[ \t]*#[ \t]*(?:ifndef[ \t]+{name}\b|if[ \t]+!\s*defined\s*\(?\s*{name}\b)"
    defined = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.M)
    if defined is not None:
        return re.search(guard, text[: defined.start()], re.M) is None
    return re.search(rf"\b(?:const|constexpr)\b[^;(){{}}<>]*\b{name}\s*(?:=|\{{)", text) is not None


def _can_vary(names: Sequence[str]) -> str:
    return f"it can vary {', '.join([*names, *SPECIAL])}"
