"""What is multiplied: extents and input type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup

if TYPE_CHECKING:
    from gemmsmith.kernel.spec import KernelSpec
    from gemmsmith.problem import Problem

DEFAULT_SIZE = 4096  # fills any GPU, so that the kernel and not the grid is judged
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random operands.", rich_help_panel="Problem")]


@dataclass(frozen=True)
class ShapeOptions(OptionGroup):
    """C is M×N, and K terms are summed."""

    panel: ClassVar[str] = "Problem"

    m: Annotated[int, typer.Option("--m", help="Rows of A and C.")] = DEFAULT_SIZE
    n: Annotated[int, typer.Option("--n", help="Columns of B and C.")] = DEFAULT_SIZE
    k: Annotated[int, typer.Option("--k", help="Columns of A, rows of B.")] = DEFAULT_SIZE

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k


_FITTED = "fits the kernel's tiles"
_FITTED_SIZE = 128  # of an extent that is not given beside others


@dataclass(frozen=True)
class FittedShapeOptions(OptionGroup):
    """The same; where no extent is given, check chooses all three."""

    panel: ClassVar[str] = "Problem"

    m: Annotated[int | None, typer.Option("--m", help="Rows of A and C.", show_default=_FITTED)] = None
    n: Annotated[int | None, typer.Option("--n", help="Columns of B and C.", show_default=_FITTED)] = None
    k: Annotated[int | None, typer.Option("--k", help="Columns of A, rows of B.", show_default=_FITTED)] = None

    @property
    def is_free(self) -> bool:
        """Whether no extent is given."""
        return self.m is None and self.n is None and self.k is None

    @property
    def shape(self) -> ShapeOptions:
        """What is given, and 128 for the rest."""
        m, n, k = (_FITTED_SIZE if extent is None else extent for extent in (self.m, self.n, self.k))
        return ShapeOptions(m, n, k)


@dataclass(frozen=True)
class ProblemOptions(ShapeOptions):
    """The same, in a type that the kernel takes."""

    dtype: Annotated[
        str, typer.Option("--dtype", help="Input type: fp32, tf32, fp16, bf16 or int8. Default: the kernel's first.")
    ] = ""

    def problem(self, spec: KernelSpec) -> Problem:
        """The problem in ``--dtype``, or in the kernel's own type."""
        from gemmsmith.problem import dtype_named

        return spec.problem(*self.extents, dtype_named(self.dtype) if self.dtype else None)
