"""Who owns what: C, the block's tile, and the outputs of its warps and threads."""

from __future__ import annotations

from gemmsmith.report.view.model import ViewData, ViewSubject


def build(subject: ViewSubject) -> ViewData | None:
    """The elements that each thread stores, and what of A and B feeds them."""
    return ViewData("Who owns what", "Each thread computes its own outputs.", {"threads": subject.trace.threads})
