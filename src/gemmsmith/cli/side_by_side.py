"""Options of two kernels that one command line names: each takes the parameters that it has."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.cli.kernels import is_file, rung_of
from gemmsmith.cli.options.kernel import KernelOptions


def parameters_of(word: str) -> frozenset[str] | None:
    """The names that a rung's parameters have; None for a file, whose macros may have any name."""
    return None if is_file(word) or word.endswith((".json", ".json.gz")) else frozenset(
        parameter.name for parameter in rung_of(word).parameters)  # fmt: skip


def for_both(
    first: str, options: KernelOptions, second: str, own: KernelOptions
) -> tuple[KernelOptions, KernelOptions]:
    """The options of each kernel: what --config and -D set goes to each that has such a parameter.

    ``own`` are the second kernel's alone, and win. A name that neither has stays with the first, which refuses it.
    """
    one, other = parameters_of(first), parameters_of(second)
    given, mine = options.pairs, {name for name, _ in own.pairs}
    to_first = [f"{name}={value}" for name, value in given
                if one is None or name in one or (other is not None and name not in other)]  # fmt: skip
    to_second = [f"{name}={value}" for name, value in given if name not in mine and (other is None or name in other)]
    return (replace(options, config="", define=to_first or None),
            replace(own, define=[*to_second, *(own.define or ())] or None))  # fmt: skip
