"""The views, in the order of their tabs."""

from __future__ import annotations

from importlib import import_module

from gemmsmith.report.view.model import ViewData, ViewSubject

# Two kernels side by side come first: who asks for two wants to see both.
VIEWS = ("compare", "ownership", "access", "pipeline", "fragments", "grid", "occupancy", "code")


def titles(subject: ViewSubject) -> dict[str, str]:
    """The titles of the views that a page of this launch has, by name."""
    return {name: view.title for name, view in built(subject).items()}


def built(subject: ViewSubject) -> dict[str, ViewData]:
    """The views that this launch has something for, by name."""
    found = {}
    for name in VIEWS:
        data: ViewData | None = import_module(f"gemmsmith.report.view.data.{name}").build(subject)
        if data is not None:
            found[name] = data
    return found
