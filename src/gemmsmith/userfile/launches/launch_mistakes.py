"""What is wrong with a launch, whatever the kernel is: grid and block swapped, wrong strides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.launch_limits import LaunchLimits
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.launches.exchanged_launch import fits_own_sizes, is_exchanged

_LEADING = ("lda", "ldb", "ldc")
_BATCH_STRIDES = ("strideA", "strideB", "strideC")
_STRIDES = (*_LEADING, *_BATCH_STRIDES)
_PRODUCT = re.compile(r"[\s()]*[A-Za-z_]\w*[\s()]*(?:\*[\s()]*[A-Za-z_]\w*[\s()]*)*")
_FLAG = re.compile(r"(!?)\s*([A-Za-z_]\w*)")
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
        """The leading dimensions that host code makes of M, N and K, and the strides of a batch that are products of
        these: the value for ``problem``, its text and the place. None where one variable is several of M, N and K."""
        if self.site is None or self.options.signature or self.site.roles.places or self.site.shares_extents():
            return {}
        found = {}
        for argument, text in zip(signature.arguments, self.site.site.arguments, strict=False):
            value = self._made_of_extents(_CAST.sub("", text), problem) if argument.role in _STRIDES else None
            if value is not None and (argument.role in _LEADING or value in _areas(problem)):
                found[argument.role] = value, text, self.site.site.shown()
        return found

    def _made_of_extents(self, text: str, problem: Problem) -> int | None:
        """The value of a name or a product in host code, if M, N and K alone tell it: not where the caller passes it.
        Flags have the values that lead to the launch."""
        if self.site is None or _PRODUCT.fullmatch(text) is None:
            return None
        asked, own = Asked(), {role: size for role, size in self.own_sizes(problem).items() if role not in _LEADING}
        frame = self.site.site.frame
        told = tuple((name, "bool", value) for name, value in flag_values(frame.locals.conditions).items())
        site = replace(self.site, site=replace(self.site.site, frame=replace(frame, chosen=(*frame.chosen, *told))))
        try:
            value = evaluate_int(text, site.scope(own, asked))
        except (GemmsmithError, RecursionError):
            return None
        return value if asked.sized else None


def _areas(problem: Problem) -> tuple[int, int, int]:
    """The elements of A, B and C."""
    return problem.m * problem.k, problem.k * problem.n, problem.m * problem.n


def flag_values(conditions: Iterable[tuple[str, bool]]) -> dict[str, str]:
    """The flags that such conditions leave one value: both of ``!ta && tb`` where it holds, and ``tb`` where ``!ta`` is
    known to hold and ``!ta && !tb`` does not."""
    found: dict[str, bool] = {}
    joined = [each for each in (_joined(text, holds) for text, holds in conditions) if each is not None]
    for _ in joined:
        for flags, all_hold in joined:
            open_flags = [(name, value) for name, value in flags if found.get(name) != value]
            if all_hold:
                found |= dict(open_flags)
            elif len(open_flags) == 1:
                found.setdefault(open_flags[0][0], not open_flags[0][1])
    return {name: str(value).lower() for name, value in found.items()}


def _joined(text: str, holds: bool) -> tuple[list[tuple[str, bool]], bool] | None:
    """A condition as values of flags, and whether all of them hold or not all do; None if it is of something else."""
    union = "||" in text
    flags = [_FLAG.fullmatch(part.strip(" ()\n")) for part in text.split("||" if union else "&&")]
    values = [(flag[2], bool(flag[1]) == union) for flag in flags if flag is not None]
    return (values, holds != union) if len(values) == len(flags) else None
