"""What a user's CUDA file holds: kernels, functions, launches, constants, aliases, includes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gemmsmith.userfile.text.conditional_branches import NO_BRANCHES, Branches
from gemmsmith.userfile.text.preprocessor import Macro


@dataclass(frozen=True)
class TemplateParameter:
    """One parameter of a template. ``kind`` is "typename", or the type's text: "int", "bool", "Layout"."""

    kind: str
    name: str
    default: str = ""
    pack: bool = False


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a function. ``type`` is as written, without name and default: "const float * __restrict__"."""

    type: str
    name: str
    default: str = ""


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
    """A function that is not a kernel: device or host code. ``line`` is that of its head, ``body_line`` of its brace.

    scope     the namespaces and classes around it: "ns::S"
    branches  the conditions of the preprocessor in its body
    built     the members that a constructor initialises before its body, with their values as text
    """

    name: str
    head: str
    body: str
    line: int
    body_line: int
    parameters: tuple[KernelParameter, ...] = ()
    template: tuple[TemplateParameter, ...] | None = None
    scope: str = ""
    device: bool = False
    branches: Branches = NO_BRANCHES
    built: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class LaunchText:
    """A launch as written.

    kernel         the launched expression without template arguments: a kernel's name, or a variable's
    configuration  grid, block, dynamic shared memory, stream
    function       which of the file's functions it is in
    start          where in that function's body
    config         the name of the variable with the configuration (cudaLaunchKernelEx), else empty
    """

    kernel: str
    template: tuple[str, ...]
    configuration: tuple[str, ...]
    arguments: tuple[str, ...]
    line: int
    function: int
    start: int
    config: str = ""
    text: str = ""


@dataclass(frozen=True)
class Instantiation:
    """``template void launch<float>(…);``."""

    name: str
    template: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Field:
    """A data member: its type, its extents if it is an array, and its alignment, as texts; and its name. ``members``
    are those of a struct that has no name itself."""

    type: str
    counts: tuple[str, ...] = ()
    align: str = ""
    name: str = ""
    members: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Enumeration:
    """An enumeration: the type of its values, and these as texts."""

    type: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SourceFile:
    """A file, read. ``text`` has comments, literals and directives blanked.

    constants  const and constexpr variables at file, namespace or class scope, enumerators, object-like macros, by
               name and by qualified name, as text
    variables  other variables at file or namespace scope
    aliases    ``using`` and ``typedef`` names
    qualified  types of this file by their last name, with namespaces
    class_templates, class_fields  of each class, by its last name
    class_bases, unions            the classes that a class inherits from; classes whose members share one place
    members    names of constants and variables that only classes have here
    enums      of each enumeration, the type and the texts of its values
    """

    path: Path
    text: str
    kernels: tuple[KernelSource, ...] = ()
    functions: tuple[FunctionSource, ...] = ()
    launches: tuple[LaunchText, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    includes: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, Macro] = field(default_factory=dict)
    qualified: Mapping[str, str] = field(default_factory=dict)
    instantiations: tuple[Instantiation, ...] = ()
    class_templates: Mapping[str, tuple[TemplateParameter, ...]] = field(default_factory=dict)
    class_fields: Mapping[str, tuple[Field, ...]] = field(default_factory=dict)
    class_bases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unions: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    enums: Mapping[str, Enumeration] = field(default_factory=dict)
