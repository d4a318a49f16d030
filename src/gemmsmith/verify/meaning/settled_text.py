"""What a report says of how a kernel was read: layout, roles found by trying, bias, what it adds to; and the options
that say the same."""

from __future__ import annotations

import math

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import ROW_MAJOR, layout_in_name
from gemmsmith.kernel.other_readings import ROW_PARTS
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.shapes import Shape
from gemmsmith.verify.code.mode_values import shown_value
from gemmsmith.verify.harness import in_rounds
from gemmsmith.verify.meaning.candidate_roles import LEADING
from gemmsmith.verify.meaning.readings import Reading

Told = tuple[tuple[str, ...], tuple[str, ...]]  # lines of the report, words of the command line


def formula(reading: Reading | None) -> str:
    """What a kernel with an epilogue computes, as "relu(A·B + bias)"; empty for a plain product."""
    if reading is None or not (reading.signature.activation or reading.bias or reading.signature.accumulates):
        return ""
    has, bias = reading.signature.has, "bias of the row" if reading.bias == "row" else "bias"
    terms = ["C"] * reading.signature.accumulates
    terms += ["alpha·A·B" if has("alpha") else "A·B", *["beta·C"] * has("beta"), *[bias] * bool(reading.bias)]
    text = " + ".join(terms)
    return f"{reading.signature.activation}({text})" if reading.signature.activation else text


def _growing_block(spec: KernelSpec, shape: Shape) -> str:
    """The extents that the launch's block grows with, as "M"; empty for almost all kernels."""
    if spec.signature.fixed:
        return ""

    def threads(at: Shape) -> int:
        try:
            return math.prod(spec.geometry(spec.problem(*at), Config()).block)
        except GemmsmithError:
            return 0

    base = threads(shape)
    larger = {name: tuple(64 * size if i == place else size for i, size in enumerate(shape))
              for place, name in enumerate(EXTENTS)}  # fmt: skip
    return " and ".join(name for name, (m, n, k) in larger.items() if threads((m, n, k)) > max(base, 1024))


def _shown(arg: Argument) -> str:
    return shown_value(arg.role, arg) if arg.role.isdecimal() else arg.role


def told(spec: KernelSpec, found: KernelSpec, own: Signature, reading: Reading, shape: Shape) -> Told:
    """What is said of ``reading``: ``found`` is the kernel as it is read, ``own`` what its parameters' names tell."""
    lines, words = [], []
    if reading.layout != ROW_MAJOR:
        by_columns = [reading.signature.named(role) for role, is_so in zip("AB", reading.layout.stored, strict=False)
                      if is_so and not reading.layout.column_major]  # fmt: skip
        said = layout_in_name(own.entry)
        more = f": {' and '.join(by_columns)} is column-major" if by_columns and said and said.column_major else ""
        lines.append(f"this is a {reading.layout}{more}")
        words += ["--layout", reading.layout.word]
    before = {arg.name: arg.role for arg in own.arguments}
    changed = [arg for arg in reading.signature.arguments if before[arg.name] != arg.role]
    if ignored := [arg.name for arg in changed if before[arg.name] in LEADING]:
        lines.append(f"it ignores {', '.join(ignored)}: rows must be contiguous")
    if parts := [arg.name for arg in reading.signature.arguments if arg.role in ROW_PARTS]:
        lines.append(f"its rows are {'·'.join(parts)}: M is their product, and {parts[0]} is 2 where M is even")
    if tried := [arg for arg in changed if arg.name not in ignored and arg.role not in ROW_PARTS]:
        lines.append("found by trying: " + ", ".join(f"{arg.name} is {_shown(arg)}" for arg in tried))
    if changed:
        words += ["--signature", reading.signature.declaration()]
    if reading.signature.accumulates:
        c = reading.signature.named(reading.signature.output)
        lines.append(f"it adds to {c}: {c} += A·B, so beta is 1")
    if loop := getattr(spec.geometry, "loop", ""):
        whole = "the whole loop is judged" if in_rounds(found) else "one launch is judged, not the loop"
        lines.append(f"its host code launches it for parts of the product ({loop}): {whole}")
    if growing := _growing_block(found, shape):
        lines.append(f"its block grows with {growing}: it has no launch where that gives more than 1024 threads")
    if reading.signature.activation:
        lines.append(f"it computes {formula(reading)}")
    if reading.bias == "row":
        lines.append("the bias has one value for each row")
    given = [role for role in EXTENTS if reading.signature.has(role)]
    if tied := reading.signature.tied:
        lines.append(
            f"{reading.signature.named(tied[0])} is {tied[0]} and {tied[1]}: it is judged where they are equal"
        )
    elif len(given) == 2 and not reading.signature.fixed and not parts:
        lacking = next(role for role in EXTENTS if role not in given)
        lines.append(f"it has no parameter for {lacking}: the grid sets it")
    return tuple(lines), tuple(words)
