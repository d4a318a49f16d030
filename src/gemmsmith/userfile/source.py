"""What a user's CUDA file holds: kernels, device functions, launches, constants, aliases, includes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class TemplateParameter:
    """One parameter of a template. ``kind`` is "typename", or the type's text: "int", "bool", "Layout"."""

    kind: str
    name: str
    default: str = ""
    pack: bool = False


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel. ``type`` is as written, without name and default: "const float * __restrict__"."""

    type: str
    name: str


@dataclass(frozen=True)
class KernelSource:
    """A ``__global__`` function with a body.

    qualified  the name with its namespaces: "ns::name"
    template   None if it is no template
    head       everything before the body's brace, comments and preprocessor lines blanked
    body       what is between its braces, blanked alike
    bounds     the first argument of ``__launch_bounds__`` as text
    """

    name: str
    qualified: str
    template: tuple[TemplateParameter, ...] | None
    parameters: tuple[KernelParameter, ...]
    head: str
    body: str
    file: Path
    line: int
    bounds: str = ""


@dataclass(frozen=True)
class FunctionSource:
    """A function that is not a kernel, device or host code."""

    name: str
    head: str
    body: str
    line: int
    parameters: tuple[KernelParameter, ...] = ()
    template: tuple[TemplateParameter, ...] | None = None
    device: bool = False


@dataclass(frozen=True)
class LaunchText:
    """A launch as written.

    kernel         the launched expression without template arguments: a kernel's name, a variable, a macro's argument
    configuration  grid, block, dynamic shared memory, stream
    function       which of the file's functions it is in; -1: none
    """

    kernel: str
    template: tuple[str, ...]
    configuration: tuple[str, ...]
    arguments: tuple[str, ...]
    line: int
    function: int = -1
    start: int = 0


@dataclass(frozen=True)
class SourceFile:
    """A file, read. ``constants`` and ``aliases`` are those at file or namespace scope, by name, as text."""

    path: Path
    text: str
    kernels: tuple[KernelSource, ...] = ()
    functions: tuple[FunctionSource, ...] = ()
    launches: tuple[LaunchText, ...] = ()
    constants: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    includes: tuple[str, ...] = ()


def read_source_file(path: Path) -> SourceFile:
    """The contents of ``path``."""
    raise NotImplementedError(path)


def find_kernels(path: Path, include: tuple[Path, ...] = ()) -> tuple[KernelSource, ...]:
    """The kernels of ``path`` and of the headers that it includes with quotes."""
    raise NotImplementedError(path, include)
