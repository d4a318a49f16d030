"""SVG elements as escaped strings, and the shapes that all charts share."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

SHAPES = ("circle", "square", "triangle", "diamond")
SERIES = 8  # colours in the palette; badges, dashes and shapes distinguish series that share one
DASHES = ("", "7 3", "2 3", "9 3 2 3")
CHARACTER = 0.61  # estimated average character width of a wide sans-serif, in ems


def el(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element. Attributes and children that are not Markup are escaped; ``class_`` is class, ``_`` is ``-``."""
    made = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{number(value) if _is_number(value) else escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{name}{made}>{inside}</{name}>" if inside else f"<{name}{made}/>")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(value: str | float | None) -> str:
    """A coordinate with at most two decimals and no exponent; a non-finite one raises."""
    place = float(value or 0.0)
    if not math.isfinite(place):
        raise ValueError(f"{place} is not a coordinate")
    return f"{place:.2f}".rstrip("0").rstrip(".") if "." in f"{place:.2f}" else f"{place:.2f}"


def join(*parts: str) -> Markup:
    return Markup("").join(parts)


def group(*children: str, class_: str | None = None) -> Markup:
    return el("g", *children, class_=class_)


def series(name: str, *children: str) -> Markup:
    """What belongs to one kernel or library: the page highlights it, and filters by it."""
    return el("g", *children, data_series=name)


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> Markup:
    return el("text", words, x=x, y=y, class_=class_ or None, text_anchor=anchor if anchor != "start" else None)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, dash: str = "") -> Markup:
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, stroke_dasharray=dash or None)


def rect(x: float, y: float, width: float, height: float, class_: str, title: str = "", radius: float = 0,
         value: float | None = None) -> Markup:  # fmt: skip
    """A rectangle; ``title`` is its tooltip, ``value`` the datum it represents."""
    return el("rect", *_title(title), x=x, y=y, width=max(width, 0.5), height=height, class_=class_,
              rx=radius or None, data_value=_datum(value))  # fmt: skip


def marker(x: float, y: float, shape: str, class_: str, title: str = "", radius: float = 5,
           value: float | None = None) -> Markup:  # fmt: skip
    """A mark centred on (x, y). All shapes have about the same area."""
    more = {"class_": class_, "data_value": _datum(value), "data_x": number(x), "data_y": number(y)}
    if shape == "circle":
        return el("circle", *_title(title), cx=x, cy=y, r=radius, **more)
    if shape == "square":
        side = radius * 1.76
        return el("rect", *_title(title), x=x - side / 2, y=y - side / 2, width=side, height=side, **more)
    r = radius * 1.3
    corners = {
        "triangle": ((0, -r), (r * 0.95, r * 0.65), (-r * 0.95, r * 0.65)),
        "diamond": ((0, -r), (r, 0), (0, r), (-r, 0)),
    }[shape]
    points = " ".join(f"{number(x + dx)},{number(y + dy)}" for dx, dy in corners)
    return el("polygon", *_title(title), points=points, **more)


def badge(x: float, y: float, rung: int, radius: float = 11) -> Markup:
    """A rung's number on a disc of its colour."""
    return group(
        el("circle", cx=x, cy=y, r=radius, class_=f"{colour(rung)} fill"),
        text(x, y + radius * 0.37, str(rung), "badge-number", "middle"),
    )


def polyline(points: list[tuple[float, float]], class_: str, dash: str = "") -> Markup:
    path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return el("polyline", points=path, class_=class_, stroke_dasharray=dash or None)


def colour(rung: int) -> str:
    """The CSS class of a rung's colour; a baseline is rung 0."""
    return f"s{(rung - 1) % SERIES + 1}" if rung > 0 else "s0"


def dash(rung: int) -> str:
    return DASHES[(rung - 1) // SERIES % len(DASHES)] if rung > 0 else DASHES[1]


def shape(rung: int) -> str:
    # The shape shifts by one per palette cycle, so that two rungs of one colour differ in shape and in dash.
    return SHAPES[(rung - 1 + (rung - 1) // SERIES) % len(SHAPES)] if rung > 0 else "diamond"


def width_of(words: str, size: float) -> float:
    """The estimated width of ``words`` in a font of ``size``."""
    return len(words) * size * CHARACTER


def _title(words: str) -> tuple[Markup, ...]:
    return (el("title", words),) if words else ()


def _datum(value: float | None) -> str | None:
    return None if value is None else f"{value:.6g}"
