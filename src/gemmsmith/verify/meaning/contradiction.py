"""What a kernel's name or its host code says against a reading of it (readings.py).

A product that fits the result is not always the one that is meant: a kernel called ``nt`` that computes A·B, or a bias
that is read by row though host code allocates one value for each column, or a comment says so.
"""

from __future__ import annotations

from gemmsmith.kernel.axis_strides import stored_by_columns
from gemmsmith.kernel.layout import ROW_MAJOR, Layout, layout_in_name
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.verify.meaning.readings import Reading
from gemmsmith.verify.meaning.told_bias import told_bias


def contradiction(reading: Reading, spec: KernelSpec) -> str:
    """What the kernel's name or its host code says against a reading; empty if nothing does."""
    layout, signature = reading.layout, reading.signature
    said = layout_in_name(signature.entry)
    if said is not None and said not in (layout, ROW_MAJOR) and not _may_mean(said, layout):
        return f"it computes the product of a {layout}, but is called {signature.entry}"
    stored = stored_by_columns({arg.name: arg.role for arg in signature.arguments})
    if stored is not None and stored != layout.stored:
        return f"it computes the product of a {layout}, but its strides are those of a {ROW_MAJOR}" if not any(
            stored) else f"it computes the product of a {layout}, but its strides are not those of one"  # fmt: skip
    at = {arg.role: arg.at_launch for arg in signature.arguments if arg.at_launch}
    rows_columns = {"lda": ("M", "K"), "ldb": ("K", "N"), "ldc": ("M", "N")}
    for (ld, (rows, columns)), by_column in zip(rows_columns.items(), layout.stored, strict=True):
        passed, tall, wide = at.get(ld), at.get(rows), at.get(columns)
        if not passed or not tall or not wide or tall == wide or passed not in (tall, wide):
            continue
        if (passed == tall) != by_column:
            return f"it computes the product of a {layout}, but its host code passes {passed} as {signature.named(ld)}"
    return _other_bias(reading, spec)


def _other_bias(reading: Reading, spec: KernelSpec) -> str:
    """Against a bias of rows or of columns: host code allocates one that has the other extent, or says that it has."""
    counted = getattr(spec.geometry, "bias_extent", None)
    if not reading.bias or counted is None:
        return ""
    signature, needed = reading.signature, "M" if reading.bias == "row" else "N"
    named, allocated = signature.named("bias"), counted(signature)
    told, where = (allocated, f"its host code allocates {allocated} for {named}") if allocated else told_bias(
        spec, signature)  # fmt: skip
    if not told or told == needed:
        return ""
    return f"it adds {named} by {reading.bias}, which takes {needed} values, but {where}"


def _may_mean(said: Layout, found: Layout) -> bool:
    """Whether a name fits a layout. "tn" is A transposed of row-major matrices, or, as in BLAS, of column-major ones: A
    by rows and B by columns, which is NT of row-major ones. "column_major" alone leaves open what is transposed; and a
    kernel with a row-major C may be called so for its A or B by columns."""
    if said.column_major and said.operations == "NN":
        return found.column_major or found.operations in ("NT", "TN")
    flipped = said.operations.translate(str.maketrans("NT", "TN"))
    return found.operations in (said.operations, flipped)
