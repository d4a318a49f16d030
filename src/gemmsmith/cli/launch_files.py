"""The launches that a command line describes: a .cu file with --args, or a Python file that defines them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from gemmsmith.call.any_kernel.kernel import is_text
from gemmsmith.call.any_kernel.ptx_file import SUFFIX, read_ptx, required_block
from gemmsmith.call.any_kernel.spec import parse_arguments
from gemmsmith.call.launch import Launch
from gemmsmith.cli.names import did_you_mean
from gemmsmith.cli.options.arguments import PYTHON_FILE, ArgumentOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.python_files import describes_launches
from gemmsmith.errors import GemmsmithError, UnknownKernelError, UsageError
from gemmsmith.kernel.expressions import evaluate, split


def find_launches(word: str, options: KernelOptions, given: ArgumentOptions) -> list[Launch]:
    """The launches of ``word``: FILE.cu, FILE.py or FILE.py:NAME."""
    file, _, name = word.partition(":")
    if not describes_launches(word):
        return [_from_options(word, options, given)]
    if given.args is not None or given.expect or given.cooperative or given.cluster or options != KernelOptions():
        raise UsageError(f"{file} describes its launches itself",
                         "leave --args, --expect, --cooperative, --cluster and the kernel's options out")  # fmt: skip
    found = _launches_of(Path(file))
    if name:
        found = [each for each in found if name in (launch_name(each), each.kernel.partition("<")[0])] or _no_launch(
            file, name, found
        )
    return [
        replace(each, rtol=each.rtol if given.rtol is None else given.rtol,
                atol=each.atol if given.atol is None else given.atol)
        for each in found
    ]  # fmt: skip


def one_launch(word: str, options: KernelOptions, given: ArgumentOptions) -> Launch:
    """The same, where a command takes one."""
    found = find_launches(word, options, given)
    if len(found) > 1:
        names = ", ".join(map(launch_name, found))
        raise UsageError(f"{word} has {len(found)} launches: {names}", f"choose one: {word}:{launch_name(found[0])}")
    return found[0]


def launch_name(launch: Launch) -> str:
    """What a command calls a launch: its own name, its kernel, or its file."""
    if launch.name or launch.kernel:
        return launch.name or launch.kernel
    return "kernel" if is_text(launch.source) else Path(os.fspath(launch.source)).stem


def _no_launch(file: str, name: str, found: list[Launch]) -> list[Launch]:
    names = [launch_name(each) for each in found]
    raise UnknownKernelError(
        f"{file} has no launch called {name!r}", f"{did_you_mean(name, names)}its launches: {', '.join(names)}"
    )


def _from_options(word: str, options: KernelOptions, given: ArgumentOptions) -> Launch:
    if options.signature or options.preset:
        raise UsageError("--signature and --preset are for matrix products", "with --args, leave them out")
    needed = required_block_of(word, options.entry)
    if not options.grid or not (options.block or needed):
        raise UsageError("with --args a launch needs --grid and --block" if not needed else
                         f"with --args a launch needs --grid; its block of {','.join(map(str, needed))} is in the file",
                         "for example --grid 64 --block 256" if not needed else "for example --grid 64")  # fmt: skip
    names = parse_arguments(given.text).integers
    grid = _extents("grid", options.grid, names)
    block = _extents("block", options.block, names) if options.block else needed or ()
    cluster = _extents("cluster", given.cluster, names) if given.cluster else 1
    smem = evaluate(options.smem, names) if options.smem else 0
    include = tuple(str(folder) for folder in getattr(options, "include", None) or ())
    expect = load_function(given.expect) if given.expect else None
    return Launch(word, options.entry, grid, block, given.text, smem, dict(options.pairs), include, expect,
                  given.rtol, given.atol, cooperative=given.cooperative, cluster=cluster)  # fmt: skip


def required_block_of(word: str, entry: str) -> tuple[int, ...]:
    """The block that a PTX file asks for (.reqntid); none of other files."""
    path = Path(word)
    if path.suffix != SUFFIX or not path.is_file():
        return ()
    compiled = read_ptx(path, entry, defines=False)
    return required_block(compiled.ptx, compiled.entry) or ()


def _extents(what: str, text: str, names: dict[str, int]) -> tuple[int, ...]:
    parts = split(text)
    if not 1 <= len(parts) <= 3:
        raise UsageError(f"--{what} {text!r} has {len(parts)} parts", "write one to three numbers: x[,y[,z]]")
    return tuple(evaluate(part, names) for part in parts)


def _launches_of(path: Path) -> list[Launch]:
    module = _load(path)
    listed = getattr(module, "launches", None)
    defined = list(listed) if isinstance(listed, (list, tuple)) else [getattr(module, "launch", None)]
    if defined == [None]:  # each in a variable of its own, which names it
        defined = [replace(value, name=value.name or name) for name, value in vars(module).items()
                   if isinstance(value, Launch)]  # fmt: skip
    found = [each for each in defined if isinstance(each, Launch)]
    if not found or len(found) < len(defined):
        raise UsageError(
            f"{path} defines no launch",
            "define launch = gemmsmith.Launch(...), or launches = [gemmsmith.Launch(...), ...]",
        )
    return [_beside(path, each) for each in found]


def _beside(path: Path, launch: Launch) -> Launch:
    """The launch with its files looked for beside the Python file that describes it."""
    if is_text(launch.source):
        return launch
    listed = (launch.include,) if isinstance(launch.include, (str, os.PathLike)) else launch.include
    include = tuple(path.parent / os.fspath(folder) for folder in listed)
    return replace(launch, source=path.parent / os.fspath(launch.source), include=include)


def load_function(text: str) -> Any:
    """The function that --expect names: FILE.py:FUNCTION or MODULE:FUNCTION."""
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise UsageError(f"--expect {text!r} names no function", "write FILE.py:FUNCTION or MODULE:FUNCTION")
    module = _load(Path(place)) if place.endswith(PYTHON_FILE) else _import(place)
    function = getattr(module, name, None)
    if not callable(function):
        known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise UsageError(f"{place} has no function {name!r}", did_you_mean(name, known).strip())
    return function


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give the path of a Python file")
    spec = importlib.util.spec_from_file_location(f"gemmsmith_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    with _beside_it(path.parent), _own_errors(str(path)):
        spec.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    with _beside_it(Path.cwd()), _own_errors(name):
        return importlib.import_module(name)


@contextmanager
def _beside_it(folder: Path) -> Iterator[None]:
    """Modules in ``folder`` can be imported."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))


@contextmanager
def _own_errors(name: str) -> Iterator[None]:
    """What fails in the user's Python code is the user's mistake: one line, and the line of the code."""
    try:
        yield
    except GemmsmithError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        where = error.filename if isinstance(error, SyntaxError) else last.filename
        raise UsageError(
            f"{name} cannot be loaded: {type(error).__name__}: {error}", f"{Path(where or name).name}, line {line}"
        ) from None
