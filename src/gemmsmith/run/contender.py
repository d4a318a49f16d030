"""Who takes part in a measurement: a kernel of ours or a library, both asked for the same product in the same way.

A contender is given device addresses of several sets of operands and answers with a function that enqueues the
product of one set on a stream. It neither waits nor allocates in that function, so that it can be timed by events and
captured into a CUDA graph like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gemmsmith.problem import Problem


@dataclass(frozen=True)
class OperandSet:
    """Device addresses of one set of A, B and C, tight and row-major as the problem stores them."""

    a: int
    b: int
    c: int


Enqueue = Callable[[int], None]
"""Enqueues the product of the set with this index; returns at once.

It may have a method ``held``: a context that gives another such function, of which each call is the library's own and
nothing else. What we add to a call (our stream, a setting) is done once, around it; the host's time is taken there.
"""


@dataclass(frozen=True)
class Identity:
    """What a contender is, for tables and for the record.

    name       'warp_tile', 'my.cu', 'cublas', 'cublas-tf32', 'cublaslt', 'triton'
    kind       'rung', 'file' or 'baseline'
    config     its parameters, or what the library chose; for people
    precision  the arithmetic: 'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'int8', or 'bf16x6', fp32 by six
               products in bf16, and 'fp16x3'; TF32 is never called fp32. In a measurement it is what the timed
               products were multiplied in, where data decide (``method_reader``)
    version    of the library, or of gemmsmith
    digest     of the source and its configuration, and of all that is launched for it; empty for a library
    """

    name: str
    kind: str
    config: str = ""
    precision: str = "fp32"
    version: str = ""
    digest: str = ""


class Contender(Protocol):
    """Something that computes C = alpha·op(A)·op(B) + beta·C on the GPU."""

    @property
    def identity(self) -> Identity:
        """Complete once ``prepare`` has run: some choose their configuration there."""

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        """Get ready for ``problem`` on ``stream`` (a driver handle): compile, choose, allocate a workspace.

        Raises ``UnsupportedError`` where it cannot compute ``problem``, ``MissingDeviceError`` where a library is
        missing, with how to get it.
        """

    def close(self) -> None:
        """Free what ``prepare`` allocated; enqueued work must have ended."""


MethodReader = Callable[[], str]
"""What the latest product was multiplied in; everything that was enqueued must have ended."""


def method_reader(contender: Contender) -> MethodReader | None:
    """Of a contender that looks at the data before it multiplies, once it is prepared: its attribute ``method``.

    None for the others: they multiply as their identity says.
    """
    found: MethodReader | None = getattr(contender, "method", None)
    return found
