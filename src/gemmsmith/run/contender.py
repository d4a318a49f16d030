"""Contenders: kernels and libraries that take part in a measurement, all called in the same way.

A contender gets the device addresses of several operand sets and returns a function that enqueues the product of one
set on a stream. That function neither waits nor allocates, so it can be timed by events and captured into a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gemmsmith.problem import Problem


@dataclass(frozen=True)
class OperandSet:
    """Device addresses of A, B and C, stored row-major and without gaps."""

    a: int
    b: int
    c: int


Enqueue = Callable[[int], None]
"""Enqueues the product of the operand set with this index; returns at once.

It may have a method ``held``: a context manager that sets our stream and settings once and gives a function that only
makes the library's call. The host's time is measured with that function.
"""


@dataclass(frozen=True)
class Identity:
    """The description of a contender in tables and records.

    name       'warp_tile', 'my.cu', 'cublas', 'cublas-tf32', 'cublaslt', 'triton'
    kind       'rung', 'file' or 'baseline'
    config     its parameters, or the library's choice, as text
    precision  the arithmetic: 'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'int8', 'bf16x6' (fp32 as six products in bf16)
               or 'fp16x3'; TF32 is never called fp32. Where a verdict on the data decides, a measurement records the
               arithmetic of the timed products (``method_reader``)
    version    of the library, or of gemmsmith
    digest     of the sources and configurations of all its launches; empty for a library
    """

    name: str
    kind: str
    config: str = ""
    precision: str = "fp32"
    version: str = ""
    digest: str = ""


class Contender(Protocol):
    """Computes C = alpha·op(A)·op(B) + beta·C on the GPU."""

    @property
    def identity(self) -> Identity:
        """Complete after ``prepare``, where some contenders choose their configuration."""

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        """Compile, choose and allocate for ``problem`` on ``stream`` (a driver handle).

        Raises ``UnsupportedError`` if it cannot compute ``problem``, and ``MissingDeviceError``, with how to install
        it, if a library is missing.
        """

    def close(self) -> None:
        """Free what ``prepare`` allocated; all enqueued work must have ended."""


MethodReader = Callable[[], str]
"""The arithmetic of the latest product; all enqueued work must have ended."""


def method_reader(contender: Contender) -> MethodReader | None:
    """The attribute ``method`` of a prepared contender with a fallback; None where the arithmetic is fixed."""
    found: MethodReader | None = getattr(contender, "method", None)
    return found
