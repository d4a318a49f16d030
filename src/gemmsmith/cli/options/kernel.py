"""Which configuration of a kernel: a rung's parameters or preset, and how a user's file is launched."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.entry_words import split_entry
from gemmsmith.cli.kernels import Found, check_no_preset, check_rung_options, file_kernel, is_file, rung_of
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UsageError
from gemmsmith.userfile.kernels.user_kernel import UserOptions

KernelName = Annotated[
    str,
    typer.Argument(
        metavar="RUNG|FILE.cu[:KERNEL]", help="A rung, by name or number, or a .cu file.", show_default=False
    ),
]
Pairs = tuple[tuple[str, str], ...]
_LONGEST = 1000  # characters of an expression; the reader of expressions is recursive


@dataclass(frozen=True)
class ConfigOptions(OptionGroup):
    """A rung's parameters; a file's macros."""

    panel: ClassVar[str] = "Kernel"

    config: Annotated[
        str, typer.Option("--config", metavar="NAME=VALUE", help="Parameters of a rung: BM=64,BN=64.")
    ] = ""
    preset: Annotated[
        str, typer.Option("--preset", help="Start from a named configuration of the rung; show lists them.")
    ] = ""
    define: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A parameter of a rung, or a macro of a file.")
    ] = None

    @property
    def pairs(self) -> Pairs:
        """What ``--config`` and ``-D`` set, in this order."""
        given = [part.strip() for part in self.config.split(",") if part.strip()]
        return (*(_pair(part, "--config", needs_value=True) for part in given), *self.defines)

    @property
    def defines(self) -> Pairs:
        return tuple(_pair(text, "-D", needs_value=False) for text in self.define or ())


@dataclass(frozen=True)
class KernelOptions(ConfigOptions):
    """The same, and the launch of a user's file where its host code does not say it."""

    entry: Annotated[str, typer.Option("--entry", help="The kernel's name, where a file has several.")] = ""
    grid: Annotated[
        str, typer.Option("--grid", help="Blocks, as expressions of M, N and K: 'ceil(N/32),ceil(M/32)'.")
    ] = ""
    block: Annotated[str, typer.Option("--block", help="Threads of a block: '32,32' or '256'.")] = ""
    smem: Annotated[str, typer.Option("--smem", help="Bytes of dynamic shared memory, as an expression.")] = ""
    signature: Annotated[
        str, typer.Option("--signature", help="What the kernel's parameters are, in order: 'A,B,C,M,N,K'.")
    ] = ""
    layout: Annotated[
        str,
        typer.Option(
            "--layout", help="NN, NT, TN, TT (row-major) or col, col-NT … (column-major); found by trying if not given."
        ),
    ] = ""

    include: Annotated[
        list[Path] | None,
        typer.Option("-I", metavar="DIR", help="A folder in which a file's includes are looked for; repeatable."),
    ] = None

    def __post_init__(self) -> None:
        for folder in self.include or ():
            if not folder.is_dir():
                raise UsageError(f"-I {folder} is not a folder", "give the folder that the includes are relative to")
        for name in ("grid", "block", "smem", "signature"):
            if len(getattr(self, name)) > _LONGEST:
                raise UsageError(f"--{name} has {len(getattr(self, name)):,} characters; {_LONGEST} are the most")

    @property
    def launch(self) -> UserOptions:
        """What is said about a file's launch."""
        folders = tuple(self.include or ())
        return UserOptions(self.entry, self.grid, self.block, self.smem, self.signature, self.layout, include=folders)

    @property
    def is_default(self) -> bool:
        return self == KernelOptions()


def find_kernel(word: str, options: KernelOptions | None = None) -> Found:
    """The kernel that ``word`` names, with its configuration."""
    options = options or KernelOptions()
    word, entry = split_entry(word)
    options = replace(options, entry=entry) if entry else options
    if is_file(word):
        check_no_preset(options.preset)
        spec = file_kernel(word, replace(options.launch, defines=options.pairs))
        return spec, spec.config()
    check_rung_options(word, options.launch)
    spec = rung_of(word)
    return spec, spec.config(integers(options.pairs), options.preset)


def integers(pairs: Pairs) -> dict[str, int | str]:
    """Values of a rung's parameters; a word is left for the kernel, which may have a value of that name."""
    result: dict[str, int | str] = {}
    for name, value in pairs:
        result[name] = int(value) if re.fullmatch(r"[+-]?[0-9]{1,18}", value) else value
    return result


def _pair(text: str, option: str, needs_value: bool) -> tuple[str, str]:
    """NAME=VALUE. A bare NAME after -D is 1, as for a C compiler; --config has no such rule."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise UsageError(f"{text!r} is not NAME=VALUE", "write it as -DBM=64")
    if needs_value and not value:
        raise UsageError(f"{option} {text} gives {name} no value", f"write {option} {name}=VALUE")
    return name, value or "1"
