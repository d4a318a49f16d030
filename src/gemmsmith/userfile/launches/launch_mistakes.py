"""What is wrong with a launch, whatever the kernel is: grid and block swapped, wrong strides."""

from __future__ import annotations

import re
from functools import cached_property

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.launch_limits import LaunchLimits
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.launches.exchanged_launch import fits_own_sizes, is_exchanged

_EXTENTS = ("M", "N", "K")
_LEADING = ("lda", "ldb", "ldc")
_BATCH_STRIDES = ("strideA", "strideB", "strideC")
_CAST = re.compile(r"\(\s*(?:(?:unsigned|long|int|size_t|int64_t|ptrdiff_t)\s*)+\)|static_cast\s*<[^<>]*>")


class LaunchMistakes(LaunchLimits):
    """What ``UserLaunch`` knows of mistakes at its launch site."""

    @property
    def exchanged(self) -> str:
        """Where host code launches it with grid and block swapped, if it does not do so for small matrices of its own
        alone; else empty."""
        if self.site is None or not self._is_exchanged or fits_own_sizes(self.site):
            return ""
        return self.site.site.shown()

    @cached_property
    def _is_exchanged(self) -> bool:
        return self.site is not None and not (self.options.block or self.options.grid) and is_exchanged(self.site)

    def passed_strides(self, signature: Signature, problem: Problem) -> dict[str, tuple[int, str, str]]:
        """The leading dimensions for which host code passes what it passes for M, N or K, too, and the strides of a
        batch that are products of these: the value for ``problem``, its text and the place. None where one variable is
        several of M, N and K."""
        if self.site is None or self.options.signature or self.site.roles.places or self.site.shares_extents():
            return {}
        scope, found = self.site.scope(self.own_sizes(problem), Asked()), {}
        passed = list(zip(signature.arguments, self.site.site.arguments, strict=False))
        extents = {text for argument, text in passed if argument.role in _EXTENTS}
        for argument, text in passed:
            factors = {part.strip(" ()") for part in _CAST.sub("", text).split("*")}
            is_product = argument.role in _BATCH_STRIDES and len(factors) == 2 and factors <= extents
            if is_product or (argument.role in _LEADING and text in extents):
                try:
                    found[argument.role] = evaluate_int(text, scope), text, self.site.site.shown()
                except (GemmsmithError, RecursionError):
                    continue
        return found
