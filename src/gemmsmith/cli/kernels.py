"""The kernel that a word on the command line names: a rung, by name or number, or a user's file."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.cli.names import did_you_mean, shown
from gemmsmith.errors import UnknownKernelError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

_SOURCES = (".cu", ".cuh")
_LOOKED_AT = 1 << 20  # bytes of a file in which a kernel is looked for


def is_file(word: str) -> bool:
    """Whether ``word`` names a file rather than a rung: a path, CUDA source, or something in this directory."""
    if "/" in word or word.endswith(_SOURCES):
        return True
    return rung_from(word) is None and _exists(Path(word))


def rung_from(word: str) -> KernelSpec | None:
    """The rung called ``word``: 'warp_tile', 'WARP-TILE' or its number, '10'."""
    if _is_number(word):
        return next((spec for spec in rungs() if str(spec.rung) == word.lstrip("0")), None)
    name = word.lower().replace("-", "_")
    return next((spec for spec in rungs() if spec.name == name), None)


def rung_of(word: str) -> KernelSpec:
    """The same; an unknown name is refused with the nearest one and all of them."""
    if (spec := rung_from(word)) is not None:
        return spec
    names = [spec.name for spec in rungs()]
    if _is_number(word):
        raise UnknownKernelError(
            f"there is no rung {word[:20]}",
            f"the ladder has rungs {rungs()[0].rung} to {rungs()[-1].rung}: gemmsmith list",
        )
    raise UnknownKernelError(
        f"there is no rung called {shown(word)}",
        f"{did_you_mean(word, names)}give the path of a .cu file; the rungs: {', '.join(names)}",
    )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def file_kernel(word: str, options: UserOptions) -> KernelSpec:
    """The kernel in a user's file. A directory, and a file that is not CUDA source, are named as what they are."""
    path = Path(word)
    check_source(path)
    return user_kernel(path, options)


def check_source(path: Path) -> None:
    """Refuse a path that leads to something other than a source file; one that leads nowhere is left to the reader."""
    if not _exists(path):
        return
    if path.is_dir():
        held = sorted(file.name for file in path.iterdir() if file.suffix in _SOURCES)
        inside = f"it holds {', '.join(held[:3])}{' and more' if len(held) > 3 else ''}" if held else "it holds none"
        raise UnknownKernelError(f"{path} is a directory, not a .cu file", f"give the path of a .cu file; {inside}")
    if not path.is_file():
        raise UnknownKernelError(f"{path} is not a regular file", "give the path of a .cu file")
    if path.suffix in _SOURCES:
        return
    try:
        with path.open("rb") as file:
            start = file.read(_LOOKED_AT)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if path.suffix == ".ptx":
        from gemmsmith.call.any_kernel.ptx_file import described_entries

        more = "; ".join(described_entries(path)[:3])
        raise UsageError(f"{path.name} is PTX, which does not say what its parameters are",
                         "give its launch: --grid, --block unless it has its own, --args, --smem, and --entry where it "
                         f"has several kernels; a pointer has 8 bytes, a tensor_map 128; {more}")  # fmt: skip
    if b"__global__" not in start:
        kind = "binary" if b"\0" in start else "text"
        raise UnknownKernelError(
            f"{path} is a {kind} file without a __global__ function, not a kernel",
            "give the path of a .cu file, or the name of a rung: gemmsmith list",
        )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long for any file
        return False


def check_no_preset(preset: str) -> None:
    if preset:
        raise UsageError("a file has no presets", "set its macros with -D")


def check_rung_options(word: str, options: UserOptions) -> None:
    """Refuse launch options for a rung, which has its own launch."""
    if options != UserOptions():
        own = "--entry, --grid, --block, --smem, --signature, --layout and -I"
        raise UsageError(f"{word} is a rung; {own} are for files")


Found = tuple[KernelSpec, Config]
