"""A kernel that explain, profile and compare look at: found, checked and compiled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmsmith.call.binding import aligned_code, needs_simulator
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.product_kernel import product_kernel
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UsageError
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.simulated_profile import Level, simulate
from gemmsmith.explain.struct_members import with_members
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem
from gemmsmith.verify.faults.kernel_source import source_of
from gemmsmith.verify.meaning.recognise import recognised

_BLOCKS = 1  # simulated of each kind: inside, edges
_DEPTH = 128  # counts are extrapolated in K from runs of 128 and 256


@dataclass(frozen=True)
class Subject:
    """A kernel compiled and ready to be counted; ``name`` and ``options`` are as on the command line.

    ``confirmed``: a launch gave the product that its layout says, where that was tried.
    """

    name: str
    spec: KernelSpec
    config: Config
    problem: Problem
    compiled: CompiledKernel
    options: KernelOptions
    confirmed: bool = True

    @property
    def title(self) -> str:
        return kernel_title(self.spec, self.config) + f", {self.problem}"

    def profile(self, level: Level = Level.PTX) -> tuple[Profile, Sass]:
        """Counts of one simulated block of each kind over part of K, extrapolated to the launch; and the SASS."""
        return self.counted(self.spec, self.config, self.compiled, disassemble(self.compiled), level)

    def counted(
        self, spec: KernelSpec, config: Config, compiled: CompiledKernel, sass: Sass, level: Level = Level.PTX
    ) -> tuple[Profile, Sass]:
        """The same of a copy of the kernel."""
        depth = 0 if "K" in dict(spec.signature.fixed) else _DEPTH  # a K that the source sets cannot be made smaller
        found = simulate(spec, config, self.problem, compiled, sample=_BLOCKS, depth=depth, sass=sass, level=level)
        return with_members(found, source_of(spec, config)), sass


def kernel_title(spec: KernelSpec, config: Config) -> str:
    """A kernel with its configuration, which a line may be broken in."""
    return f"{spec.name} {str(config).replace(',', ', ')}".rstrip()


def find_subject(
    name: str, options: KernelOptions, problem: ProblemOptions, arch: str, compiler: Compiler, simulated: bool = True,
    recognise: bool = False,
) -> Subject:  # fmt: skip
    """Find and compile a kernel; one that is to be ``simulated`` must use only instructions the simulator knows.

    ``recognise``: a user's kernel is tried first, for the layout and roles that ``gemmsmith check`` finds. Without, it
    is if names do not tell its roles.

    Extents that the source sets take the place of those in ``problem``.
    """
    confirmed = True
    if not recognise:
        spec, config = product_kernel(name, options, compiler, arch)
    else:
        spec, config = find_kernel(name, options)
        found = recognised(spec, config, compiler, arch, options.layout)
        spec, confirmed = found.spec, found.confirmed
    own = {role.lower(): extent for role, extent in spec.signature.fixed if role in ("M", "N", "K")}
    asked = replace(problem, **own).problem(spec)  # type: ignore[arg-type]
    check_accepts(spec, asked)
    if not spec.geometry(asked, config).blocks:
        raise UsageError(f"{asked} launches no block, so there is nothing to count", "give M and N of at least 1")
    if simulated:
        needs_simulator(spec, asked, f"on a GPU with ncu, gemmsmith profile {name} --device gpu measures it")
    fitted, seen = aligned_code(spec, config, asked)
    return Subject(name, spec, fitted, asked, compiler(spec, fitted, seen, arch), options, confirmed)
