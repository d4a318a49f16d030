"""How a user's kernel stores its matrices: C row-major or column-major, A and B transposed or not.

A column-major C is the row-major Cᵀ = op(B)ᵀ·op(A)ᵀ: A and B, M and N change places in the signature, and every other
stage sees a row-major product.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gemmsmith.errors import UsageError
from gemmsmith.kernel.signature import Signature

LAYOUT_HELP = "NN, NT, TN or TT (A, B transposed; row-major), or col, col-NT, col-TN, col-TT (column-major)."


@dataclass(frozen=True)
class Layout:
    """``trans_a``, ``trans_b``: as in BLAS, relative to the order of C."""

    column_major: bool = False
    trans_a: bool = False
    trans_b: bool = False

    @property
    def operations(self) -> str:
        return ("T" if self.trans_a else "N") + ("T" if self.trans_b else "N")

    @property
    def word(self) -> str:
        """As ``--layout`` takes it."""
        if not self.column_major:
            return self.operations
        return "col" if self.operations == "NN" else f"col-{self.operations}"

    @property
    def stored(self) -> tuple[bool, bool, bool]:
        """Whether A, B and C are stored column by column."""
        return self.trans_a != self.column_major, self.trans_b != self.column_major, self.column_major

    def __str__(self) -> str:
        order = "column-major" if self.column_major else "row-major"
        which = " and ".join(name for name, is_so in (("A", self.trans_a), ("B", self.trans_b)) if is_so)
        return f"{order} kernel" + (f" with {which} transposed ({self.word})" if which else "")

    def applied(self, signature: Signature) -> tuple[Signature, str]:
        """The signature as a row-major product, and that product's layout: 'NN', 'NT', 'TN' or 'TT'."""
        if not self.column_major:
            return self._with_stored_extents(signature), self.operations
        inside = replace(self, trans_a=self.trans_b, trans_b=self.trans_a)
        return signature.transposed(), inside.operations

    def _with_stored_extents(self, signature: Signature) -> Signature:
        """Views (mdspan, accessors of tensors) say how many rows and columns are stored: those of a transposed operand
        are the other way round."""
        swapped: dict[str, str] = {}
        for role, is_transposed in (("A", self.trans_a), ("B", self.trans_b)):
            owner = next((each.name for each in signature.arguments if each.role == role), "").removesuffix(".data")
            view = {each.name: each.role for each in signature.arguments if each.name.startswith(f"{owner}.")}
            rows, columns = f"{owner}.rows", f"{owner}.cols"
            usual = ("M", "K") if role == "A" else ("K", "N")
            if is_transposed and f"{owner}.unit" in view and (view.get(rows), view.get(columns)) == usual:
                swapped |= {rows: view[columns], columns: view[rows]}
        arguments = tuple(replace(each, role=swapped.get(each.name, each.role)) for each in signature.arguments)
        return replace(signature, arguments=arguments) if swapped else signature


ROW_MAJOR = Layout()
LAYOUTS = tuple(Layout(c, a, b) for c in (False, True) for a in (False, True) for b in (False, True))


def layout_named(word: str) -> Layout:
    """The layout that ``--layout`` names."""
    plain = re.sub(r"[-_: ]", "", word.lower()).replace("major", "").replace("column", "col")
    match = re.fullmatch(r"(row|col)?([nt]{2})?", plain)
    if match is None or not plain:
        raise UsageError(f"--layout {word!r} is unknown", f"use {LAYOUT_HELP}")
    operations = match[2] or "nn"
    return Layout(match[1] == "col", operations[0] == "t", operations[1] == "t")


def layout_in_name(entry: str) -> Layout | None:
    """The layout that a kernel's own name states: ``sgemm_nt``, ``gemm_col_major``; None if it states none, or
    one for each matrix."""
    plain = entry.lower()
    orders = list(re.finditer(r"(row|col|column)_?major", plain))
    if len({found[1] == "row" for found in orders}) > 1:
        return None  # one order for A and another for B: which is which takes a reader
    order = orders[0] if orders else None
    operations = re.search(r"(?:^|_)([nt]{2})(?:_|$)", plain)
    if order is None and operations is None:
        return None
    letters = operations[1] if operations else "nn"
    return Layout(order is not None and order[1] != "row", letters[0] == "t", letters[1] == "t")
