"""What went where and why: the report of ``optimize`` and of ``use``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """A layer, or the calls of one function with one signature.

    name    of the layer in its model, or of torch's function
    what    sizes and type: '512x50257x768 bfloat16'
    ours    computed by gemmsmith; else by torch
    why     the reason, with its figure
    ratio   torch's time over ours where it was measured, else 0
    calls   how many calls went this way; 0 before any
    """

    name: str
    what: str
    ours: bool
    why: str
    ratio: float = 0.0
    calls: int = 0


@dataclass(frozen=True)
class Report:
    """Routes in the order in which they were found."""

    routes: tuple[Route, ...]

    @property
    def ours(self) -> tuple[Route, ...]:
        return tuple(each for each in self.routes if each.ours)

    @property
    def forwarded(self) -> tuple[Route, ...]:
        return tuple(each for each in self.routes if not each.ours)

    def __str__(self) -> str:
        if not self.routes:
            return "no products"
        head = f"{len(self.ours)} of {len(self.routes)} to gemmsmith"
        rows = [("", "name", "product", "calls", "why")]
        rows += [("gemmsmith" if each.ours else "torch", each.name, each.what, str(each.calls or "-"), each.why)
                 for each in self.routes]  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) + "  " + row[4]
                 for row in rows]  # fmt: skip
        return "\n".join([head, *lines])
