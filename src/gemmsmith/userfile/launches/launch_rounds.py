"""Launches of a user's kernel on one part of its matrices after another, as the loop around them in host code makes
them; and what host code does to the result before and after."""

from __future__ import annotations

import copy
from functools import cached_property
from itertools import islice
from typing import Self

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.signature import SCRATCH, Argument
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.array_roots import roots_of
from gemmsmith.userfile.host.host_loops import loop_around, reader_after
from gemmsmith.userfile.host.host_rounds import Round, divided, rounds
from gemmsmith.userfile.kernels.kernel_facts import problem_sizes
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.scratch import begins_as_zeros, cleared_bytes, is_never_set, is_result
from gemmsmith.userfile.kernels.span_parameters import without_accessor
from gemmsmith.userfile.launches.chained_launch import INTEGERS, ChainedLaunch
from gemmsmith.userfile.launches.launch_memory import LaunchMemory

_FEW_ROUNDS = Problem(96, 160, 224)
_ARRAYS = ("A", "B", "C", "D", "bias")


class LaunchRounds(ChainedLaunch, LaunchMemory):
    """What ``UserLaunch`` knows of the loop around a launch."""

    options: UserOptions
    padded: bool
    one_launch: bool

    @property
    def loop(self) -> str:
        """Where host code launches it on one part of its matrices after another; empty for others."""
        return loop_around(self.site.site) if self.site is not None else ""

    @property
    def passed_on(self) -> str:
        """Which kernel host code launches on the result, as "finish at gemm.cu:40"; empty: none."""
        output = next((arg for arg in self.signature.arguments if arg.role == self.signature.output), None)
        if self.site is None or output is None or not output.at_launch:
            return ""
        return reader_after(self.site.site, output.at_launch)

    @property
    def workspace_read_by(self) -> str:
        """Which kernel host code launches on what this one leaves in an array that blocks share: partial sums."""
        if self.site is None:
            return ""
        shared = [i for i, arg in enumerate(self.signature.arguments) if arg.role == SCRATCH]
        readers = (reader_after(self.site.site, self.array_passed(i)) for i in shared if self.array_passed(i))
        return next(filter(None, readers), "")

    def array_passed(self, index: int) -> str:
        """What host code passes for an argument that is an array: its name, or that of the struct that holds it."""
        argument, passed = self.signature.arguments[index], self.site.site.arguments if self.site is not None else ()
        place = self.signature.place(index)
        return argument.at_launch or (passed[place] if "." in argument.name and place < len(passed) else "")

    def _passed_for(self, argument: Argument) -> str:
        """What the launch passes for an argument, as it is written."""
        passed = self.site.site.arguments if self.site is not None else ()
        place = self.signature.place(self.signature.arguments.index(argument))
        return passed[place] if place < len(passed) else ""

    @property
    def zeroes_output(self) -> bool:
        """Whether host code sets the result to zero before the launch."""
        places = [i for i, arg in enumerate(self.signature.arguments) if arg.role == self.signature.output]
        if self.site is None or not places:
            return False
        passed, place = self.site.site.arguments, self.signature.place(places[0])
        if place >= len(passed):
            return False
        frame, member = self.site.site.frame, self.signature.arguments[places[0]].name.partition(".")[2]
        arrays = [*islice(roots_of(f"{passed[place]}.{member}", frame), 2)] if member else []
        return any(begins_as_zeros(each, frame) for each in (without_accessor(passed[place]), *arrays))

    def not_cleared(self, problem: Problem) -> str:
        """The call in host code that sets a part of the result to zero alone, with the numbers of bytes; or
        that nothing sets it; else ""."""
        output = next((arg for arg in self.signature.arguments if arg.role == self.signature.output), None)
        if self.site is None or output is None or self.swapped:
            return ""
        frame, passed = self.site.site.frame, self._passed_for(output)
        if is_never_set(passed, frame) and is_result(passed, frame):
            return f"nothing sets {without_accessor(passed)} before the launch at {self.site.site.shown()}"
        if not output.at_launch:
            return ""
        found = cleared_bytes(output.at_launch, self.site, problem_sizes(problem))
        needed = problem.m * problem.n * problem.out_dtype.itemsize
        if found is None or found[0] >= needed:
            return ""
        return f"`{found[1]}` sets {found[0]} of the {needed} bytes of {output.name} to zero"

    @cached_property
    def in_rounds(self) -> bool:
        """Whether the rounds of the loop around its launch are understood: then they are launched, one by one."""
        if self.second is not None:
            return True
        if self.options.block or self.options.grid or self.maps or self.padded or self.one_launch or not self.loop:
            return False
        try:
            return not self._of_many_products(self._rounds(_FEW_ROUNDS))
        except (GemmsmithError, RecursionError, ArithmeticError):
            return False

    def _of_many_products(self, found: tuple[Round, ...]) -> bool:
        """Whether every round but the first writes behind the whole result: each makes a product of its own, as a loop
        over the heads of an attention does."""
        outputs = [i for i, arg in enumerate(self.signature.arguments) if arg.role == self.signature.output]
        size = _FEW_ROUNDS.m * _FEW_ROUNDS.n
        starts = [each.offsets.get(i, 0) for each in found[1:] for i in outputs]
        return bool(starts) and min(starts) >= size

    def alone(self) -> Self:
        """One launch for the whole product, without the loop of host code around it."""
        other = copy.copy(self)
        other.__dict__.pop("in_rounds", None)
        other.one_launch = True
        return other

    def rounds(self, problem: Problem) -> tuple[Round, ...]:
        """The launches that host code makes for a product, where it makes one for each of its parts; else none."""
        if not self.in_rounds:
            return ()
        if self.second is not None:
            return self.both(problem)
        try:
            return self._rounds(problem.with_(m=problem.n, n=problem.m) if self.swapped else problem)
        except (RecursionError, ArithmeticError) as error:
            raise UsageError(f"its host code's loop ({self.loop}) is not understood: {error}") from None

    @property
    def divided(self) -> frozenset[str]:
        """The extents that host code divides among the rounds, each of which is told how long its part is."""
        if not self.in_rounds or self.site is None or self.second is not None:
            return frozenset()
        other = {"M": "N", "N": "M"} if self.swapped else {}
        return frozenset(other.get(role, role) for role in divided(self.site))

    def _rounds(self, problem: Problem) -> tuple[Round, ...]:
        assert self.site is not None
        named = list(enumerate(self.signature.arguments))
        pointers = frozenset(i for i, arg in named if arg.role in _ARRAYS and arg.code == "P")
        integers = frozenset(i for i, arg in named if arg.code in INTEGERS)
        return rounds(self.site, problem_sizes(problem), pointers, integers)
