"""The files of a user's kernel for the search of causes: what is compiled, its headers, and where it is launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemmsmith.cure.code import Code, Program
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.files.include_search import IncludeSearch
from gemmsmith.userfile.files.repository import include_closure
from gemmsmith.userfile.launches.kernel_chain import chained_name
from gemmsmith.userfile.text.source import read_text

_MOST_FILES = 40
_MOST_BYTES = 200_000  # of a header


def program_of(spec: KernelSpec, *, with_grid: bool = True) -> Program:
    """What may be changed: the user's own files. ``with_grid``: the launch's grid, too."""
    unit = spec.unit or spec.source
    search = IncludeSearch(unit, spec.include, (), ())
    paths = [path for path in include_closure(unit, search) if _is_own(path, search)][:_MOST_FILES]
    site = getattr(getattr(spec.geometry, "site", None), "site", None)
    grid = _grid(spec.geometry) if with_grid and site is not None else None
    for path in filter(None, (site.file if site is not None else None, grid[0] if grid else None)):
        if path.resolve() not in {each.resolve() for each in paths}:
            paths.append(path)
    files = {path.resolve(): Code(path, read_text(path)) for path in paths}
    if grid is not None:
        grid = files[grid[0].resolve()].path, grid[1]
    signature = spec.signature.transposed() if spec.signature.column_major else spec.signature
    names = {argument.role: argument.name for argument in signature.arguments if argument.role}
    line = getattr(getattr(getattr(spec.geometry, "facts", None), "kernel", None), "line", 0)
    entry, second = signature.entry.split("<")[0].rsplit("::", 1)[-1], second_kernel(spec)
    return Program(tuple(files.values()), entry.removesuffix(chained_name("", second)), names, grid, line, second)


def second_kernel(spec: KernelSpec) -> str:
    """The plain name of the kernel that finishes the product of ``spec``; empty where one kernel makes it."""
    finishing = getattr(spec.geometry, "second", None)
    return "" if finishing is None else str(finishing.kernel.name)


def _is_own(path: Path, search: IncludeSearch) -> bool:
    return path.resolve() == search.file.resolve() or (
        path.resolve().is_relative_to(search.root.resolve()) and path.stat().st_size <= _MOST_BYTES
    )


def _grid(launch: Any) -> tuple[Path, int] | None:
    """The file and line where the grid is written."""
    place, _ = launch.site.origin(0)
    name, _, line = place.rpartition(":")
    frame = launch.site.site.frame
    while frame is not None:
        if frame.source.path.name == name:
            return frame.source.path, int(line)
        frame = frame.caller
    return (launch.site.site.file, int(line)) if launch.site.site.file.name == name else None
