"""A kernel named on the command line whose parameters and launch must be known, for commands that do not judge it."""

from __future__ import annotations

from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.render.output import say
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec


def product_kernel(name: str, options: KernelOptions, compiler: Compiler, arch: str) -> tuple[KernelSpec, Config]:
    """The kernel. Where names do not tell what its parameters are, or nothing tells its launch, launches on the
    simulator do; what they found is said on stderr."""
    spec, config = find_kernel(name, options)
    if spec.is_rung or not (spec.signature.unknown or getattr(spec.geometry, "guessed", False)):
        return spec, config
    from gemmsmith.verify.meaning.recognise import recognised

    found = recognised(spec, config, compiler, arch, options.layout)
    for line in found.lines:
        say(f"{spec.signature.entry}: {line}", "dim", stderr=True)
    return found.spec, config
