"""The launches of two kernels that make a product together (kernel_chain.py), with the values that host code gives."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Self

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.host_rounds import Round
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.kernels.kernel_facts import problem_sizes
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_values import SiteValues

INTEGERS = frozenset("iIqQhHbB?")
_FEW_ROWS = Problem(96, 160, 224)


class ChainedLaunch:
    """What ``UserLaunch`` knows of a second kernel."""

    site: SiteValues | None
    signature: Signature
    second: LaunchSite | None
    computed: frozenset[int]
    swapped: bool

    def __call__(self, problem: Problem, config: Config) -> Geometry:
        raise NotImplementedError

    def read_as(self, signature: Signature) -> Self:
        raise NotImplementedError

    def rounds(self, problem: Problem) -> tuple[Round, ...]:
        raise NotImplementedError

    def both(self, problem: Problem) -> tuple[Round, Round]:
        """The launches of two kernels that make a product together."""
        first, step = self(problem, Config(())), len(self.signature.arguments) - 1
        own = problem.with_(m=problem.n, n=problem.m) if self.swapped else problem
        if self.site is not None:
            self.site.extent(0, problem_sizes(own))  # raises for a launch of nothing, as of a copy where K is 0
        grid, block, smem = self.second_launch(own)
        given = self._computed_values(own)
        return (Round(first.grid, first.block, first.smem, {**given, step: 0}, {}),
                Round(grid, block, smem, {**given, step: 1}, {}))  # fmt: skip

    def _second_values(self) -> SiteValues:
        """The launch that finishes the product, with the arguments of both."""
        if self.site is None or self.second is None:
            raise UsageError("no launch in host code finishes the product")
        own = replace(self.second, kernel=self.site.site.kernel, arguments=self.site.site.arguments)
        return SiteValues(own, self.site.roles, self.site.given)

    def second_launch(self, problem: Problem) -> tuple[Dim3, Dim3, int]:
        values, sizes = self._second_values(), problem_sizes(problem)
        try:
            return values.extent(0, sizes)[0], values.extent(1, sizes)[0], values.smem(sizes)
        except (GemmsmithError, RecursionError, ArithmeticError) as error:
            raise UsageError(f"the launch at {values.site.shown()}, which finishes the product, is not understood: "
                             f"{error}") from None  # fmt: skip

    def _computed_values(self, problem: Problem) -> dict[int, int]:
        values = self._second_values()
        scope = values.scope(problem_sizes(problem), Asked())
        try:
            return {i: int(evaluate_int(values.site.arguments[i], scope)) for i in sorted(self.computed)}
        except (GemmsmithError, RecursionError, ArithmeticError) as error:
            raise UsageError(f"what {values.site.shown()} passes is not understood: {error}") from None

    def with_computed(self, signature: Signature) -> tuple[Self, Signature]:
        """Of a chain: the launch and the signature where integers without a meaning of their own, which host code
        computes from the sizes, are passed as it does."""
        if self.site is None or self.second is None:
            return self, signature
        passed, variables = self.site.site.arguments, self.second.frame.locals.variables
        roles = [arg.role for arg in signature.arguments]

        def is_computed(i: int) -> bool:
            arg = signature.arguments[i]
            if "." in arg.name:
                return False  # of a struct, which is passed whole
            text = passed[signature.place(i)] if signature.place(i) < len(passed) else ""
            value = variables[text].value if text in variables else text
            twice = arg.role in ("M", "N", "K") and roles.count(arg.role) > 1 and re.search(r"[-+*/%(]", value)
            return arg.code in INTEGERS and (not arg.role or bool(twice))

        found = frozenset(i for i in range(len(roles)) if is_computed(i))
        plain = replace(signature, arguments=tuple(replace(arg, role="0") if i in found else arg
                                                   for i, arg in enumerate(signature.arguments)))  # fmt: skip
        other = copy.copy(self)
        other.computed = found
        try:
            other.read_as(plain).rounds(_FEW_ROWS)
        except GemmsmithError:
            return self, signature
        return other, plain
