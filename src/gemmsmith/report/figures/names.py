"""Display names of contenders, and link anchors of rungs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gemmsmith.report.report_model import Rung

_LIBRARIES = {"cublas": "cuBLAS", "cublas-tf32": "cuBLAS TF32", "cublaslt": "cuBLASLt", "triton": "Triton"}


def contender(name: str, precision: str = "") -> str:
    """'cuBLAS fp32': a library's name with its arithmetic, unless the name already contains it."""
    plain = name.partition(":")[0]  # a suffix is the input type, if it is not the page's
    known = _LIBRARIES.get(plain, plain)
    return known if not precision or precision.lower() in known.lower() else f"{known} {precision}"


def anchors(rungs: Iterable[Rung]) -> dict[str, str]:
    """A unique URL fragment per rung: letters, digits, '_' and '-' only."""
    made: dict[str, str] = {}
    for rung in rungs:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", rung.name).strip("-") or "kernel"
        anchor, at = f"rung-{plain}", 2
        while anchor in made.values():
            anchor, at = f"rung-{plain}-{at}", at + 1
        made[rung.name] = anchor
    return made
