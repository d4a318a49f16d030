"""Pieces of an animated SVG. Times are shares of one round, which repeats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

WIDTH = 720


def rect(x: float, y: float, wide: float, high: float, fill: str, *inner: Markup, **more: object) -> Markup:
    """A rectangle; ``fill`` is a CSS variable without its dashes, or 'none'."""
    paint = fill if fill == "none" else f"var(--{fill})"
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    shape = f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}" fill="{paint}"{rest}'
    return Markup(f"{shape}>{''.join(inner)}</rect>" if inner else f"{shape}/>")


def text(x: float, y: float, words: str, **more: object) -> Markup:
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return Markup(f'<text x="{_n(x)}" y="{_n(y)}"{rest}>{escape(words)}</text>')


def appears(at: float, seconds: float, *, low: float = 0.0) -> Markup:
    """Opacity ``low`` until the share ``at`` of a round, then 1."""
    at = min(max(at, 0.001), 0.999)
    return Markup(
        f'<animate attributeName="opacity" values="{low};1" keyTimes="0;{at:.3f}" calcMode="discrete" '
        f'dur="{seconds:g}s" repeatCount="indefinite"/>'
    )


def moves(attribute: str, values: Sequence[float], seconds: float, *, smooth: bool = False) -> Markup:
    """An attribute takes one value after another, evenly; ``smooth``: it slides between them."""
    listed = ";".join(_n(value) for value in values)
    mode = "linear" if smooth else "discrete"
    return Markup(
        f'<animate attributeName="{attribute}" values="{listed}" calcMode="{mode}" dur="{seconds:g}s" '
        f'repeatCount="indefinite"/>'
    )


def drawing(name: str, high: float, body: Iterable[Markup], caption: str, about: str) -> Markup:
    """The figure: an SVG with its title, and a sentence below."""
    inside = Markup("").join(body)
    return Markup(
        f'<figure class="moving"><svg viewBox="0 0 {WIDTH} {_n(high)}" role="img" aria-label="{escape(about)}" '
        f'data-name="{escape(name)}" width="100%" font-size="11" fill="var(--soft)">{inside}</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
