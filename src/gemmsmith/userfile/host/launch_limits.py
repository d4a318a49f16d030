"""What a launch is known to be made for alone: products that its host code's conditions let through."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.launch_conditions import LaunchConditions, Launched, conditions_of, only_scalars
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts, problem_sizes
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.launches.launch_site import launch_sites
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_roles import roles_of


class LaunchLimits:
    """What ``UserLaunch`` knows of products that host code does not launch it for."""

    facts: KernelFacts
    site: SiteValues | None
    options: UserOptions
    swapped: bool
    scalar_paths: tuple[tuple[str, str], ...] = ()  # variables of host code that are passed for alpha and beta
    scalars: tuple[FoundValue, ...] = ()  # alpha and beta, where host code has one value of them here
    scalars_decide: bool = False  # whether host code looks at alpha or beta before it launches the kernel
    _read: tuple[SiteValues, LaunchConditions] | None = None

    def own_sizes(self, problem: Problem) -> dict[str, int]:
        """The sizes that host code passes for a product."""
        return problem_sizes(problem.with_(m=problem.n, n=problem.m) if self.swapped else problem)

    def launched(self, problem: Problem) -> Launched:
        """Whether host code makes the launch for a product."""
        if self.site is None or self.options.block or self.options.grid:
            return Launched()
        scalars = {"alpha": Fraction(problem.alpha), "beta": Fraction(problem.beta)}
        return self._conditions(self.site).of(self.own_sizes(problem), scalars)

    @property
    def passed_for_all(self) -> str:
        """The variable that every launch of the kernel passes for M, for N and for K; empty if there is none."""
        if self.site is None or self.options.grid:
            return ""
        found: set[str] = set()
        for site in (self.site.site, *launch_sites(self.facts.project, self.facts.kernel)):
            passed = dict(zip(self.site.roles.roles, site.arguments, strict=False))
            found |= {passed.get(role, "").strip() for role in ("M", "N", "K")}
        return found.pop() if len(found) == 1 else ""

    def _conditions(self, site: SiteValues) -> LaunchConditions:
        if self._read is None or self._read[0] is not site:
            sites = launch_sites(self.facts.project, self.facts.kernel)
            self._read = site, conditions_of(site, sites, self.scalar_paths or tuple(site.scalar_paths()))
        return self._read[1]

    def with_only_scalars(self, signature: Signature) -> Signature:
        """The signature, where alpha and beta that host code has one value of are constants."""
        if self.site is None or self.options.signature or not (signature.has("alpha") or signature.has("beta")):
            return signature
        site = replace(self.site, roles=roles_of(signature))
        self.scalar_paths = tuple(site.scalar_paths())
        conditions = self._conditions(site)
        if not self.scalar_paths:
            return signature
        self.scalars_decide, found = only_scalars(conditions)
        self.scalars = tuple(FoundValue(signature.named(role), str(value), tells.place, tells.text)
                             for role, (value, tells) in found.items())  # fmt: skip
        arguments = tuple(replace(arg, role=str(found[arg.role][0])) if arg.role in found else arg
                          for arg in signature.arguments)  # fmt: skip
        return replace(signature, arguments=arguments)
