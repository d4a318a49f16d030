"""Launches of several products at once: the kernel takes one for each ``blockIdx.z``."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import Self

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernel_facts import SAMPLE, KernelFacts
from gemmsmith.userfile.launch_values import SiteValues
from gemmsmith.userfile.options import UserOptions


class LaunchProducts:
    """What ``UserLaunch`` knows of products along z. ``products``: a parameter that may count them, but may count heads
    too, whose matrices lie beside one another; empty: none."""

    facts: KernelFacts
    site: SiteValues | None
    signature: Signature
    options: UserOptions
    products: str

    def read_as(self, signature: Signature) -> Self:
        """The same launch where the parameters mean something else."""
        raise NotImplementedError

    def _site(self, index: int, problem: Problem) -> Dim3 | None:
        """Grid (0) or block (1) at the launch site."""
        raise NotImplementedError

    @cached_property
    def counts_products(self) -> bool:
        """Whether only the launch tells how many products there are: the grid's third extent is host code's number of
        them."""
        if "blockIdx.z" not in self.facts.reached:
            return False
        one, three = (self._site(0, SAMPLE.with_(batch=count)) for count in (1, 3))
        return one is not None and three is not None and (one[2], three[2]) == (1, 3)

    def with_products_along_z(self) -> Self:
        """The same launch, where a number that is the grid's third extent counts products: packed ones, as long as no
        trial of several fails."""
        counter = self._counter()
        if not counter or self.options.signature:
            return self
        arguments = tuple(
            replace(arg, role="batch") if arg.name == counter else arg for arg in self.signature.arguments
        )
        other = self.read_as(replace(self.signature, arguments=arguments))
        other.products = counter
        return other

    def _counter(self) -> str:
        """A parameter of unknown meaning that the launch passes a number for, which is the grid's third extent, too."""
        if self.site is None or "blockIdx.z" not in self.facts.reached:
            return ""
        written = self.site.origin(0)[1]
        numbers = (arg for arg in self.signature.arguments if arg.role.isdecimal() and arg.at_launch)
        return next((a.name for a in numbers if re.search(rf",\s*{re.escape(a.at_launch)}\s*[)}}]\s*$", written)), "")
