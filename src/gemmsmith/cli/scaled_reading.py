"""Whether a kernel that is refused as a plain product may be one with scales, zero points or operands of two types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gemmsmith.cli.entry_words import split_entry
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.errors import GemmsmithError, SignatureError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.userfile.kernels.user_kernel import UserOptions, scaled_kernel

ScaledReading = tuple[KernelSpec, tuple[ScaledParameter, ...]]


def asked_of(word: str, options: KernelOptions) -> tuple[Path, UserOptions]:
    """The file that a word of the command line names, and what is asked of its kernel."""
    file, entry = split_entry(word)
    return Path(file), replace(options.launch, defines=options.pairs, entry=entry or options.entry)


def scaled_parameters(word: str, options: KernelOptions, refused: SignatureError) -> ScaledReading:
    """The kernel, and the parameters of such a product; raises ``refused`` for any other kernel."""
    from gemmsmith.call.any_kernel.types import parse_type

    try:
        found = scaled_kernel(*asked_of(word, options))
    except GemmsmithError:
        raise refused from None
    if found is None:
        raise refused
    if any(each.pointer and each.role != "0" and parse_type(each.type).element is None for each in found[1]):
        raise refused
    return found
