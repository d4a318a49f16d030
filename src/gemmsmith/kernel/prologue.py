"""What is launched before a kernel, as plain data: its launches, its workspace, and what the kernel sees after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import FP16, Problem

if TYPE_CHECKING:
    from gemmsmith.kernel.spec import KernelSpec

_ANY = Problem(1, 1, 1, dtype=FP16, out_dtype=FP16)  # stands for all: such a launch looks at no types


class Addresses(NamedTuple):
    """Where A, B, C and the bias (0: none) begin on the device."""

    a: int
    b: int
    c: int
    bias: int = 0


@dataclass(frozen=True)
class PrologueLaunch:
    """A launch besides the kernel's own. ``compiled_for`` has the types and the layout that its source is told of."""

    spec: KernelSpec
    geometry: Geometry
    arguments: tuple[bytes, ...]
    compiled_for: Problem = _ANY


@dataclass(frozen=True)
class Fallback:
    """Who computes the product, from the caller's operands, where the verdict is against a kernel.

    It must have a parameter ``workspace``, and look at the verdict there. ``accepts`` reads the verdict, the first
    ``verdict_bytes`` of the workspace, as the kernels do: whether it is for the kernel itself.
    """

    spec: KernelSpec
    config: Config
    verdict_bytes: int
    accepts: Callable[[bytes], bool]


@dataclass(frozen=True)
class Prologue:
    """What a kernel sees once it has been prepared for, and what must be launched until then.

    problem, addresses  with leading dimensions, strides and addresses of what lies in the workspace in the place of A
                        and B, and its layout, where they were turned; extents, types and all else are the caller's
    nbytes              of the workspace, 0 for most
    launches            in order
    workspace           the address that the kernel's own parameter of that name gets, 0 where it has no use for it
    fallback            where data decide: who else may compute the product
    mapped              what tensor maps of A and B describe, where the kernel's own A and B are still the caller's
    """

    problem: Problem
    addresses: Addresses
    nbytes: int = 0
    launches: tuple[PrologueLaunch, ...] = ()
    workspace: int = 0
    fallback: Fallback | None = None
    mapped: Addresses | None = None
    fallback_prologue: Prologue | None = None


PrologueBuilder = Callable[[Problem, Config, Addresses, int, bool], Prologue]
"""Of the caller's problem, the kernel's configuration, the caller's addresses, the workspace's address, and whether the
kernel is another's ``instead``: then the verdict at the beginning of the workspace is set and must stay, and the rest
is free."""
