"""Numbers that host code computes for parameters without a meaning of their own: ``1.0f / tiles``, ``sched.total``.

They are no formula of M, N and K that could be written down (roles.py): they go through host code's own variables, or
are fractions. So they are computed for every product anew, as host code does it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.assumed_parts import is_number_of_parts
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.values import Number, evaluate, number
from gemmsmith.userfile.kernels.kernel_facts import problem_sizes
from gemmsmith.userfile.kernels.struct_parameters import flat_arguments
from gemmsmith.userfile.launches.chained_launch import INTEGERS
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_values import SiteValues

_TRIED = (Problem(96, 160, 224), Problem(1024, 512, 2048))
_EXTENTS = {"M", "N", "K"}
_DIGITS = 30  # after the point: more than any float of use has
_REALS = frozenset("fd")
_COMPUTED = re.compile(r"\w\s*\(|[/%]|>>")


class PassedValues:
    """What ``UserLaunch`` knows of such parameters; ``passed``: their places."""

    site: SiteValues | None
    second: LaunchSite | None
    swapped: bool
    computed: frozenset[int]
    passed: frozenset[int] = frozenset()

    def read_as(self, signature: Signature) -> Self:
        raise NotImplementedError

    def with_passed(self, signature: Signature) -> tuple[Self, Signature]:
        """The launch and the signature where numbers without a meaning are those that host code computes."""
        roles = {arg.role for arg in signature.arguments}
        places = [i for i, arg in enumerate(signature.arguments) if not arg.role and _is_number(arg)
                  and (self.second is None or "." in arg.name)]  # fmt: skip
        if self.site is None or not places:
            return self, signature
        if not roles >= _EXTENTS:
            return self._with_computed_beside(signature, len(_EXTENTS - roles))
        plain = (replace(arg, role="0") if i in places else arg for i, arg in enumerate(signature.arguments))
        found = replace(signature, arguments=tuple(plain))
        other = copy.copy(self)
        other.passed = frozenset(places)
        try:
            tried = [other.read_as(found).passed_values(problem) for problem in _TRIED]
        except (GemmsmithError, RecursionError, ArithmeticError):
            return self, signature
        if any(_may_mean_more(signature.arguments[i], [values[i] for values in tried]) for i in places):
            return self, signature
        return other, found

    def _with_computed_beside(self, signature: Signature, lacking: int) -> tuple[Self, Signature]:
        """The same where M, N and K have other names, and are tried in every order: what host code computes of them, in
        a variable, is none of them. How it does so is known once they are."""
        unknown = [i for i, arg in enumerate(signature.arguments) if not arg.role and arg.code in INTEGERS]
        places = [i for i in unknown if self._is_computed(i)]
        if not places or len(unknown) - len(places) != lacking:
            return self, signature
        plain = (replace(arg, role="0") if i in places else arg for i, arg in enumerate(signature.arguments))
        other = copy.copy(self)
        other.passed = frozenset(places)
        return other, replace(signature, arguments=tuple(plain))

    def _is_computed(self, place: int) -> bool:
        """Whether host code passes a variable of its own that holds a quotient, or what a function or macro gives; or
        a number of parts of K, which its caller chooses."""
        assert self.site is not None
        if self.site.roles.places or place >= len(self.site.site.arguments):
            return False
        text = self.site.site.arguments[place]
        variable = self.site.site.frame.locals.variables.get(text)
        if is_number_of_parts(text):
            return True
        return variable is not None and _COMPUTED.search(variable.value) is not None

    def as_passed(self, signature: Signature, problem: Problem) -> Signature:
        """The signature with the numbers that host code passes for ``problem``."""
        if not self.passed:
            return signature
        arguments = list(signature.arguments)
        for place, value in self.passed_values(problem).items():
            whole = arguments[place].code in INTEGERS
            role = str(int(value)) if whole else f"{float(value):.{_DIGITS}f}"
            arguments[place] = replace(arguments[place], role=role)
        return replace(signature, arguments=tuple(arguments))

    def passed_values(self, problem: Problem) -> dict[int, Number]:
        """By place, what host code computes for ``problem``."""
        own = problem.with_(m=problem.n, n=problem.m) if self.swapped else problem
        return {place: self._value(place, own) for place in sorted(self.passed)}

    def shares_out(self, problem: Problem) -> bool:
        """Whether host code divides the work by a number of blocks that its caller chooses: ``ceil(total / blocks)`` is
        passed as a share."""
        return any(True for _ in self._shares(problem))

    def shares_nothing(self, problem: Problem) -> bool:
        """Whether these shares are of no work, as where K is 0."""
        shares = list(self._shares(problem))
        return bool(shares) and not any(shares)

    def _shares(self, problem: Problem) -> Iterator[Number]:
        own = problem.with_(m=problem.n, n=problem.m) if self.swapped else problem
        for place in sorted(self.passed | self.computed):
            asked = Asked()
            with suppress(UsageError):
                value = self._value(place, own, asked)
                if asked.assumed:
                    yield value

    def _value(self, place: int, problem: Problem, asked: Asked | None = None) -> Number:
        assert self.site is not None
        texts, roles = self.site.site.arguments, self.site.roles
        texts = flat_arguments(texts, roles.names, roles.places) if roles.places else texts
        if place >= len(texts) or not texts[place]:
            raise UsageError(f"{self.site.site.shown()} passes nothing for {roles.names[place]}")
        try:
            return number(evaluate(texts[place], self.site.scope(problem_sizes(problem), asked or Asked())))
        except (RecursionError, ArithmeticError, TypeError) as error:
            raise UsageError(f"what {self.site.site.shown()} passes is not understood: {error}") from None


def _is_number(argument: Argument) -> bool:
    return argument.code in INTEGERS | _REALS


def _may_mean_more(argument: Argument, values: Sequence[Number]) -> bool:
    """Whether trials should choose it: a factor that does not depend on the sizes, or a size itself, as leading
    dimensions are."""
    if argument.code in _REALS:
        return len(set(values)) == 1
    return any(values == [getattr(problem, extent) for problem in _TRIED] for extent in ("m", "n", "k"))
