"""A certificate as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP64, TF32, Problem
from gemmsmith.verify.oracles.certificate import NOT_TRIED, Certificate


def certificate_lines(found: Certificate, spec: KernelSpec, own: Callable[[Problem], str] = str) -> list[str]:
    """Three to five short lines; one if there is no certificate. ``own`` gives a problem as the user knows it."""
    if not found.ok:
        return [f"No certificate: {found.reason}"]
    lines = [
        f"Certificate for {_shapes(found, own)}: every output is exactly {formula(spec, found)}, each product once "
        f"(error probability below 2^{math.ceil(found.probability)})"
    ]
    if found.scalars:
        lines.append(f"it holds {found.scalars}")
    lines.append(f"sum: {sum_text(found)}")
    lines.append(bound_text(found, spec))
    return lines


def _shapes(found: Certificate, own: Callable[[Problem], str]) -> str:
    shapes = [own(p.with_(alpha=1.0, beta=0.0)) for p in (found.problem, found.also) if p is not None]
    return f"{shapes[0].split()[0]} and {shapes[1]}" if len(shapes) == 2 else shapes[0]


def formula(spec: KernelSpec, found: Certificate) -> str:
    """What is proven, in the scalars that the kernel has."""
    signature = spec.signature
    terms = ["alpha·Σ a·b" if signature.has("alpha") else "Σ a·b"]
    if signature.has("beta"):
        terms.append("beta·c")
    elif found.adds_c:
        terms.append("c")
    if found.problem.bias:
        terms.append("bias")
    return " + ".join(terms)


def sum_text(found: Certificate) -> str:
    order = found.order or "its order was not read"
    if found.orders > 1:
        order += f" for most outputs ({found.orders} orders in all)"
    if found.why_not == NOT_TRIED:
        return f"{order}; {NOT_TRIED}"
    if not found.deterministic:
        return f"{order}; not deterministic: {found.why_not}"
    words = [order, "deterministic"]
    if found.differs_at:
        words.append(f"another order for M = {_list(found.differs_at)} than for {_list(found.same_for)}")
    elif len(found.same_for) > 1:
        words.append(f"the same for M = {_list(found.same_for)}")
    else:
        words.append("no other M was tried")
    return "; ".join(words)


def bound_text(found: Certificate, spec: KernelSpec) -> str:
    if found.exact:
        return "so it is exact while sums fit in the integer type"
    if found.bound is None and found.why_not == NOT_TRIED:
        return "so no error bound is given: the order of the sum may be another"
    if found.bound is None:
        return "no error bound follows: the kernel subtracts, or its order was not read"
    signature = spec.signature
    terms = ["|alpha|·Σ|a||b|" if signature.has("alpha") else "Σ|a||b|"]
    terms += ["|beta||c|"] if signature.has("beta") else ["|c|"] if found.adds_c else []
    terms += ["|bias|"] if found.problem.bias else []
    scale = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
    return f"so |error| ≤ {_bound(found)}·{scale}, barring overflow and underflow"


def _bound(found: Certificate) -> str:
    """A multiple of the unit roundoff that matters, rounded up: of a 16-bit output, of TF32, or of the accumulator."""
    assert found.bound is not None
    problem = found.problem
    coarse = next((t.unit_roundoff for t in (problem.out_dtype, problem.dtype) if t in (FP16, BF16, TF32)), 0.0)
    unit = 2.0**-53 if problem.dtype == FP64 else coarse if 0 < coarse <= found.bound else 2.0**-24
    factor = found.bound / unit
    shown = math.ceil(factor) if factor >= 1000 else math.ceil(factor * 10) / 10
    return f"{shown:g}·2^{round(math.log2(unit))}"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def certificate_json(found: Certificate, spec: KernelSpec, own: Callable[[Problem], str] = str) -> dict[str, Any]:
    if not found.ok:
        return {"certified": False, "reason": found.reason}
    return {
        "certified": True, "shape": _shapes(found, own), "statement": formula(spec, found), "scalars": found.scalars,
        "error_probability_log2": round(found.probability, 2), "order": found.order, "orders": found.orders,
        "deterministic": found.deterministic, "not_deterministic_because": found.why_not,
        "same_for_m": list(found.same_for), "differs_at_m": list(found.differs_at), "error_bound": found.bound,
        "text": certificate_lines(found, spec, own),
    }  # fmt: skip
