"""Launches of several products at once: the kernel takes one for each block index along z, seldom y or x."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import Self

from gemmsmith.kernel.expressions import split
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.role_names import is_batch
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.host_allocations import allocated_by_owner
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.kernels.grouped_heads import group_roles
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, KernelFacts, problem_sizes
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.product_axis import product_axis, product_number, product_offsets
from gemmsmith.userfile.text.names_derived import derived_names
from gemmsmith.userfile.text.preprocessor import closing

_INTEGERS = tuple("iIqQ")
_THIRD = re.compile(r"(?:^|\().*,.*,\s*(\w+(?:\s*\*\s*\w+)?)\s*[)}]\s*$", re.S)
_TWO_COUNTERS = ("2-batch%2", "batch//(2-batch%2)")  # two of an even number, so that both are seen to count


class LaunchProducts:
    """What ``UserLaunch`` knows of products along z. ``products``: a parameter that may count them, but may count heads
    too, whose matrices are interleaved; empty: none."""

    facts: KernelFacts
    site: SiteValues | None
    signature: Signature
    options: UserOptions
    products: str
    swapped: bool

    def read_as(self, signature: Signature) -> Self:
        """The same launch where the parameters mean something else."""
        raise NotImplementedError

    def _site(self, index: int, problem: Problem) -> Dim3 | None:
        """Grid (0) or block (1) at the launch site."""
        raise NotImplementedError

    @cached_property
    def counts_products(self) -> bool:
        """Whether only the launch tells how many products there are: the grid's last extent is host code's number of
        them, or the user says so (``--grid 'ceil(N/16),ceil(M/16),batch'``)."""
        axis = product_axis(self.facts.reached)
        if self.options.grid:
            given = split(self.options.grid)
            return len(given) == axis + 1 and given[axis].strip().lower() == "batch"
        if axis != 2 and not (self.site is not None and self.site.counter):
            return False
        one, three = (self._site(0, SAMPLE.with_(batch=count)) for count in (1, 3))
        return one is not None and three is not None and (one[axis], three[axis]) == (1, 3)

    @cached_property
    def shared_operand(self) -> str:
        """A or B of the row-major product, if all products of a batch use one: the weights of a layer. Nothing that the
        kernel does with its pointer depends on the product's number, and host code allocates no more of it for several.
        """
        if any(self.signature.has(f"stride{role}") or self.signature.takes_table(role) for role in "AB"):
            return ""  # an array of pointers has one for each product
        counter = self.signature.named("batch") if self.signature.has("batch") else ""
        first = {*product_number(self.facts.reached)[:1], *({counter} - {""})}
        of_product = first | derived_names(self.facts.reached, rf"(?<![\w.])(?:{'|'.join(map(re.escape, first))})\b")
        found = [arg.role for arg in self.signature.arguments
                 if arg.role in ("A", "B") and not self._moves(arg.name, arg.at_launch, of_product)]  # fmt: skip
        if len(found) != 1:
            return ""
        return {"A": "B", "B": "A"}[found[0]] if self.swapped else found[0]

    def shared_note(self) -> FoundValue:
        """What the report says of such a kernel."""
        kernel, role = self.facts.kernel, self.shared_operand
        name = self.signature.named({"A": "B", "B": "A"}[role] if self.swapped else role)
        text = f"{kernel.name}({', '.join(p.name for p in kernel.parameters)})"
        return FoundValue(name, "one for all products", f"{kernel.file.name}:{kernel.line}", text)

    def _moves(self, name: str, at_launch: str, of_product: set[str]) -> bool:
        """Whether a pointer may be another one for each product."""
        if name in of_product:
            return True
        code = self.facts.reached
        for match in re.finditer(rf"(\(|,)?\s*&?(?<![\w.]){re.escape(name)}\b\s*", code):
            after = code[match.end() :]
            if match[1] and after[:1] in (",", ")"):
                return True  # what a function does with it is not followed
            whole = after[: closing(after, 0)] if after.startswith("[") else after
            expression = whole if after.startswith("[") else re.split(r"[;,)]", whole, maxsplit=1)[0]
            if any(re.search(rf"(?<![\w.]){re.escape(word)}\b", expression) for word in of_product):
                return True
        if self.site is None:
            return False
        sizes = [problem_sizes(SAMPLE.with_(batch=count)) for count in (1, 3)]
        return len({allocated_by_owner(at_launch, self.site.scope(each, Asked())) for each in sizes}) > 1

    def with_products_along_z(self) -> Self:
        """The same launch, where a number that is the grid's third extent counts products: packed ones, as long as no
        trial of several fails. Two numbers may count them together: those of a batch and its heads."""
        counters = self._counters()
        if self.options.signature:
            return self
        if not counters:
            return self._with_untold_products()
        roles = dict(zip(counters, ("batch",) if len(counters) == 1 else _TWO_COUNTERS, strict=True))
        spare = [arg.name for arg in self.signature.unknown if arg.code in _INTEGERS and arg.name not in roles]
        roles |= group_roles(self.facts.reached, counters, spare)
        arguments = tuple(replace(arg, role=roles.get(arg.name, arg.role)) for arg in self.signature.arguments)
        other = self.read_as(replace(self.signature, arguments=arguments))
        other.products = " * ".join(counters)
        return other

    def _with_untold_products(self) -> Self:
        """The same launch, where the grid has a number that the kernel is not told, and that may count heads."""
        if self.site is None or not self.site.counter or not self.counts_products or is_batch(self.site.counter):
            return self
        other = self.read_as(self.signature)
        other.products = self.site.counter
        return other

    def _shares_result(self) -> bool:
        """Whether all blocks along z add to one C, wherever they read: each has a part of K, though they may race."""
        extents = [arg.name for arg in self.signature.arguments if arg.role in ("M", "N", "K")]
        result = [arg for arg in self.signature.arguments if arg.role in ("C", "D")]
        if len(extents) < 3 or not result or product_offsets(self.facts.reached, extents):
            return False
        number = product_number(self.facts.reached)[:1]
        of_part = {*number, *derived_names(self.facts.reached, rf"(?<![\w.])(?:{re.escape(number[0])})\b")}
        adds = any(re.search(rf"\b{re.escape(arg.name)}\s*\[[^;=]*\]\s*\+=", self.facts.reached) for arg in result)
        return adds and not any(self._moves(arg.name, arg.at_launch, of_part) for arg in result)

    def _misnamed(self, asked: list[str]) -> str:
        """The extent that the number of products is named after, as N of ``A (N, M, K)``, if a number besides M, N and
        K has no meaning yet: that is the extent."""
        named = {arg.at_launch: arg.role for arg in self.signature.arguments if arg.role in ("M", "N", "K")}
        spare = [arg for arg in self.signature.unknown if arg.code in _INTEGERS]
        return named.get(asked[0], "") if len(asked) == 1 and len(named) == 3 and len(spare) == 1 else ""

    def _counters(self) -> tuple[str, ...]:
        """One or two parameters of unknown meaning that the launch passes what the grid's third extent is, too. It
        counts parts of K where blocks add to one place, or where a second kernel adds their sums up."""
        if self.site is None or "blockIdx.z" not in self.facts.reached or getattr(self, "second", None) is not None:
            return ()
        if _adds_atomically(self.facts.reached) or self._shares_result():
            return ()
        last = _THIRD.search(self.site.origin(0)[1])
        asked = [word.strip() for word in last[1].split("*")] if last is not None else []
        numbers = {arg.at_launch: arg.name for arg in self.signature.arguments
                   if arg.at_launch and (arg.role.isdecimal() or arg.role in ("batch", self._misnamed(asked))
                                         or (not arg.role and arg.code in _INTEGERS))}  # fmt: skip
        if len(asked) not in (1, 2) or not all(word in numbers for word in asked):
            return ()
        if self.signature.has("batch") and (len(asked) == 1 or self.signature.named("batch") not in numbers.values()):
            return ()  # the products of a batch alone
        return tuple(numbers[word] for word in asked)


def _adds_atomically(code: str) -> bool:
    """Whether threads add to memory that others add to, too."""
    return re.search(r"\batomicAdd\w*\s*\(|\bred\.(?:global|relaxed|add)|fetch_add", code) is not None
