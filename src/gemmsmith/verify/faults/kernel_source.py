"""The source of a kernel as its messages need it: files by name, constants as compiled, names of arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gemmsmith.compile.user_source import own_headers
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.userfile.text.array_names import Constants, DeclaredArray
from gemmsmith.userfile.text.declared_arrays import declared_array
from gemmsmith.userfile.text.parts import KernelSource
from gemmsmith.userfile.text.source_tree import SourceTree


@dataclass
class SourceOfKernel:
    """What the files of one kernel say, read when a message asks for it.

    entry      the kernel's name, with namespaces and template arguments if it has them
    given      values of macros, template parameters and parameters of a rung
    launch     of a user's kernel: what was read about it already
    """

    path: Path
    entry: str
    given: Mapping[str, str] = field(default_factory=dict)
    include: tuple[Path, ...] = ()
    unit: Path | None = None
    launch: UserLaunch | None = None

    @cached_property
    def _project(self) -> Project:
        return Project.of(self.unit or self.path, self.include)

    @cached_property
    def _paths(self) -> dict[str, list[Path]]:
        """The kernel's file and the headers that it includes, by their last name. CUDA's own are not among them."""
        found: dict[str, list[Path]] = {}
        paths = [self.path]
        with suppress(GemmsmithError, OSError):
            paths += [source.path for source in self._project.sources(self._project.path)]
        for path in paths:
            same = found.setdefault(path.name, [])
            if path.resolve() not in [other.resolve() for other in same]:
                same.append(path)
        return found

    @cached_property
    def _trees(self) -> dict[str, SourceTree | None]:
        return {}

    def tree(self, file: str) -> SourceTree | None:
        """The file of that name; None if it is none of the user's, or if there are two."""
        if file not in self._trees:
            paths = self._paths.get(file, [])
            self._trees[file] = None
            if len(paths) == 1:
                with suppress(GemmsmithError):
                    self._trees[file] = SourceTree(paths[0])
        return self._trees[file]

    @cached_property
    def _facts(self) -> KernelFacts | None:
        if self.launch is not None:
            return self.launch.facts
        with suppress(GemmsmithError, OSError, StopIteration):
            kernel = self._kernel()
            return KernelFacts(self._project, kernel, tuple(self.given.items())) if kernel is not None else None
        return None

    def _kernel(self) -> KernelSource | None:
        name = re.sub(r"<.*", "", self.entry).rsplit("::", 1)[-1].strip()
        kernels = [k for source in self._project.sources(self._project.path) for k in source.kernels]
        return next((kernel for kernel in kernels if kernel.name == name), None)

    @cached_property
    def constants(self) -> Constants:
        """Integers and types by name."""
        facts = self._facts
        numbers = {name: int(text) for name, text in self.given.items() if re.fullmatch(r"-?\d+", text)}
        if facts is None:
            return Constants(numbers, {})
        template = dict(self.launch.template) if self.launch is not None else {}
        template |= self._arguments(facts.kernel)
        types: dict[str, str] = {}
        with suppress(GemmsmithError, RecursionError):
            numbers = facts.values(template) | numbers
            types = facts.aliases(template)
        return Constants(numbers, types)

    def _arguments(self, kernel: KernelSource) -> dict[str, str]:
        """The template arguments that the entry's name has."""
        listed = re.search(r"<(.*)>\s*$", self.entry)
        if listed is None or kernel.template is None:
            return {}
        texts = [text.strip() for text in re.split(r",(?![^<(]*[>)])", listed[1])]
        return {parameter.name: text for parameter, text in zip(kernel.template, texts, strict=False)}

    def array(self, name: str, size: int) -> DeclaredArray | None:
        """The shared array ``name`` of ``size`` bytes, as declared."""
        return declared_array(self.trees, self.constants, name, size)

    @cached_property
    def trees(self) -> tuple[SourceTree, ...]:
        """The kernel's file and its headers."""
        return tuple(tree for file in self._paths if (tree := self.tree(file)) is not None)

    def local_array(self, file: str, line: int, size: int) -> DeclaredArray | None:
        """The thread's own array of ``size`` bytes that a line indexes, if there is one alone."""
        tree = self.tree(file)
        if tree is None or not 0 < line <= len(tree.lines):
            return None
        names = set(re.findall(r"\b([A-Za-z_]\w*)\s*\[", tree.lines[line - 1])) - set(self.parameters)
        arrays = [declared_array([tree], self.constants, name, size, shared=False) for name in sorted(names)]
        found = [array for array in arrays if array is not None and None not in array.extents]
        return found[0] if len(found) == 1 else None

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the kernel's parameters."""
        facts = self._facts
        return tuple(parameter.name for parameter in facts.kernel.parameters) if facts is not None else ()


def source_of(spec: KernelSpec, config: Config) -> SourceOfKernel:
    """The source of a rung or of a user's kernel."""
    given = {name: str(value) for name, value in config} | dict(spec.extra_defines)
    launch = spec.geometry if isinstance(spec.geometry, UserLaunch) else None
    folders = (own_headers(),) if spec.is_rung else spec.include
    return SourceOfKernel(spec.source, spec.entry, given, folders, spec.unit, launch)
