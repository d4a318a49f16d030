"""From a source and a kernel's name to compiled code and its parameters."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from gemmsmith.call.any_kernel.declaration import Declaration, declared_kernels, mangled_types
from gemmsmith.call.any_kernel.ptx_file import (
    SUFFIX,
    address_parameters,
    cluster_of,
    parameter_names,
    parameter_sizes,
    parameter_types,
    read_ptx,
)
from gemmsmith.call.any_kernel.types import OBJECTS, UNKNOWN, CType
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.compile.render import render_kernel
from gemmsmith.errors import SignatureError, UnknownKernelError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, Problem
from gemmsmith.userfile.text.source import read_text

Source = str | os.PathLike[str]
TEXT_NAME = "kernel.cu"  # what messages call a source that was given as text
_TENSOR_STORE = re.compile(r"\bcp\.(?:reduce\.)?async\.bulk\.tensor\.\dd\.global\b")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name (its position, where it has none), its type and its bytes.

    ``ptx_type`` is what PTX says where the type is not known: 'f32', 'u64'; ``address``: it is used as an address.
    """

    name: str
    type: CType
    size: int
    ptx_type: str = ""
    address: bool = False

    @property
    def is_pointer(self) -> bool:
        """Whether it takes memory. Where the type is not known, whatever has 8 bytes may."""
        return self.type.pointers > 0 or (not self.type.known and self.size == 8)

    @property
    def may_be_struct(self) -> bool:
        """Whether PTX has it as an array of bytes: a struct, which may hold one pointer."""
        return not self.type.known and not self.ptx_type

    def __str__(self) -> str:
        if self.type.known:
            return f"{self.type} {self.name}"
        kind = "an address" if self.address else f".{self.ptx_type}" if self.ptx_type else f"{self.size} bytes"
        return f"{self.name} ({kind})"


@dataclass(frozen=True)
class LaunchKernel:
    """A compiled kernel that can be launched with any arguments.

    name   as the caller wrote it, with template arguments
    files  the source and its headers by the names that messages and counters use
    enums  types that the source declares as enumerations, which take integers
    """

    name: str
    file: str
    compiled: CompiledKernel
    parameters: tuple[Parameter, ...]
    files: Mapping[str, str] = field(repr=False)
    enums: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def has_tensor_stores(self) -> bool:
        """Whether it copies by TMA to a tensor in global memory."""
        return bool(_TENSOR_STORE.search(self.compiled.ptx))

    @property
    def cluster(self) -> Dim3 | None:
        """The cluster that ``__cluster_dims__`` compiled into it."""
        return cluster_of(self.compiled.ptx, self.compiled.entry)


def is_text(source: Source) -> bool:
    """Whether ``source`` is CUDA C++ itself rather than the path of a file."""
    return isinstance(source, str) and ("\n" in source or "__global__" in source)


def compile_launch(
    source: Source, name: str, defines: Mapping[str, object], include: Sequence[Source], arch: str,
    cache: CompileCache | None = None,
) -> LaunchKernel:  # fmt: skip
    """Compile the kernel ``name`` of ``source``; an empty name means the only kernel there is."""
    with _on_disk(source) as path:
        if path.suffix == SUFFIX:
            return _from_ptx(path, name, bool(defines))
        folders = tuple(Path(os.fspath(folder)) for folder in include)
        declared = _choose(path.name, name, declared_kernels(path, folders))
        name, macros = _expression(name, declared, {key: _macro(value) for key, value in defines.items()})
        spec = KernelSpec(path.name, path, name, "", no_geometry, entry=name, extra_defines=tuple(macros.items()),
                          include=folders)  # fmt: skip
        return launch_kernel(spec, declared, arch, cache)


def launch_kernel(
    spec: KernelSpec, declared: Declaration | None, arch: str, cache: CompileCache | None = None
) -> LaunchKernel:
    """The kernel of a user's file, compiled; ``declared`` is its declaration there."""
    request = render_kernel(spec, Config(()), dtype=FP32, arch=arch)
    compiled = compile_kernel(spec, Config(()), dtype=FP32, arch=arch, cache=cache)
    files = {**dict(request.headers), spec.source.name: read_text(spec.source)}
    enums = frozenset(re.findall(r"\benum\s+(?:class\s+|struct\s+)?(\w+)", "\n".join(files.values())))
    return LaunchKernel(spec.entry, spec.source.name, compiled, parameters_of(compiled, declared), files, enums)


def _from_ptx(path: Path, name: str, defines: bool) -> LaunchKernel:
    compiled = read_ptx(path, name, defines)
    sizes, names = parameter_sizes(compiled.ptx, compiled.entry), parameter_names(compiled)
    types, addresses = parameter_types(compiled.ptx, compiled.entry), address_parameters(compiled.ptx, compiled.entry)
    is_address = [name in addresses or f"{compiled.entry}_{name}" in addresses for name in names]
    parameters = tuple(Parameter(own, UNKNOWN, size, kind, address)
                       for own, size, kind, address in zip(names, sizes, types, is_address, strict=True))  # fmt: skip
    return LaunchKernel(compiled.entry, path.name, compiled, parameters, {path.name: compiled.ptx})


@contextmanager
def _on_disk(source: Source) -> Iterator[Path]:
    if is_text(source):
        with tempfile.TemporaryDirectory(prefix="gemmsmith-") as folder:
            path = Path(folder) / TEXT_NAME
            path.write_text(str(source), encoding="utf-8")
            yield path
        return
    path = Path(os.fspath(source))
    if path.is_dir():
        raise UnknownKernelError(f"{path} is a folder, not a .cu file", "give the path of a .cu file in it")
    if not path.is_file():
        raise UnknownKernelError(
            f"there is no file {path}", "give the path of a .cu file, or CUDA C++ text with a __global__ function"
        )
    yield path


def _macro(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else "1" if value is None else str(value)


def no_geometry(problem: Problem, config: Config) -> Geometry:
    """The geometry of a kernel that is not launched for products."""
    raise UsageError(f"a launch has its own grid; it does not depend on {problem} and {config}")


def _choose(file: str, name: str, listed: list[Declaration]) -> Declaration | None:
    """The declaration of ``name``, None where a macro hides it; raises for a name that no kernel has."""
    names = [made.qualified for made in listed]
    if not names:
        if name:
            return None
        raise SignatureError(f"{file} has no __global__ function", "add one, or name another file")
    if not name and len(names) > 1:
        raise SignatureError(f"{file} has several kernels: {', '.join(names)}", "name one of them")
    plain = name.partition("<")[0].strip().removeprefix("::") or names[0]
    found = [made for made in listed if f"::{made.qualified}".endswith(f"::{plain}")]
    exact = [made for made in found if made.qualified == plain] or found
    if len(exact) > 1:
        shown = ", ".join(made.qualified for made in exact)
        raise SignatureError(f"{plain!r} names several kernels of {file}: {shown}", "give the name with its namespace")
    if not exact:
        near = get_close_matches(plain, names, 1, 0.5)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UnknownKernelError(f"{file} has no kernel called {plain!r}", f"{meant}its kernels: {', '.join(names)}")
    return exact[0]


def _expression(name: str, declared: Declaration | None, macros: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The kernel's name with its template arguments, and the macros that remain.

    Template parameters take their values from macros of the same name, which would break the template as macros.
    """
    name = name or (declared.qualified if declared is not None else "")
    if declared is None or declared.template is None or "<" in name:
        return name, macros
    values = []
    for parameter, has_default in declared.template:
        if parameter in macros:
            values.append(macros[parameter])
        elif has_default:
            break  # this one and all after it keep their defaults
        else:
            listed = ", ".join(each for each, _ in declared.template)
            raise UsageError(f"{name} is a template, and its parameter {parameter} has no value",
                             f"write its arguments: {name}<{listed}> with values")  # fmt: skip
    names = {each for each, _ in declared.template}
    return f"{name}<{', '.join(values)}>", {key: value for key, value in macros.items() if key not in names}


def parameters_of(compiled: CompiledKernel, declared: Declaration | None) -> tuple[Parameter, ...]:
    """Parameters by their bytes in the PTX, their types in the mangled name, and their names in the source."""
    sizes = parameter_sizes(compiled.ptx, compiled.entry)
    own = declared.parameters if declared is not None and len(declared.parameters) == len(sizes) else ()
    types = mangled_types(compiled.entry)
    if types is None or len(types) != len(sizes):
        types = [kind for kind, _ in own] or [UNKNOWN] * len(sizes)
    # A texture object is an integer in the mangled name.
    types = [kind if kind.base in OBJECTS and not kind.pointers else known
             for known, (kind, _) in zip(types, own, strict=True)] if own else types  # fmt: skip
    names = [name for _, name in own] or [""] * len(sizes)
    made = zip(names, types, sizes, strict=True)
    return tuple(
        Parameter(name or f"argument {number}", kind if _plausible(kind, size) else UNKNOWN, size)
        for number, (name, kind, size) in enumerate(made)
    )


def _plausible(kind: CType, size: int) -> bool:
    """Whether a type, which may be an alias in the source, has as many bytes as the compiler gave it."""
    if kind.pointers:
        return size == 8
    return kind.element is None or kind.element.itemsize * kind.lanes == size
