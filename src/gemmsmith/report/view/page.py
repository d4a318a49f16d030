"""Render a page of views: one HTML file with everything inline and a policy that forbids loading anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gemmsmith.report.files import inline, replace_file
from gemmsmith.report.page import policy
from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.report.view.page_facts import page_facts
from gemmsmith.report.view.registry import built


def view_page(subject: ViewSubject) -> str:
    """The whole page as HTML."""
    found = built(subject)
    style, script = stylesheet(), scripts(found)
    made = Environment(loader=PackageLoader("gemmsmith.report.view", "shell"), autoescape=True, trim_blocks=True,
                       lstrip_blocks=True, undefined=StrictUndefined)  # fmt: skip
    facts = page_facts(subject)
    return made.get_template("view.html").render(
        title=page_title(subject), facts=facts, views=found, command=subject.command,
        data=as_json({"page": facts, "views": {name: view.data for name, view in found.items()}}),
        style=Markup(style), script=Markup(script), csp=policy(style, script),
    )  # fmt: skip


def page_title(subject: ViewSubject) -> str:
    """The kernel with its configuration and problem; of two kernels both."""
    if subject.other is None:
        return subject.trace.title
    return f"{subject.trace.title} beside {subject.other.trace.title}"


def write_view(path: str | Path, subject: ViewSubject) -> Path:
    """Write the page. Atomic for readers; not durable across power loss."""
    return replace_file(path, view_page(subject))


def stylesheet() -> str:
    """Colours of the report, light and dark, then the rules of the shell."""
    dark = inline("colours_dark.css")
    return (
        f"{inline('colours.css')}"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark;\n{dark}}} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark;\n{dark}}}\n{_text('shell', 'view.css')}"
        f"{_text('shell', 'code.css')}"
    )


def scripts(views: Mapping[str, ViewData]) -> str:
    """The shell's scripts around those of the views."""
    return "\n".join([_text("shell", "kit.js"), *(_text("views", f"{name}.js") for name in views),
                      _text("shell", "player.js")])  # fmt: skip


def as_json(value: Any) -> Markup:
    """JSON that may stand in a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _text(*parts: str) -> str:
    return files("gemmsmith.report.view").joinpath(*parts).read_text(encoding="utf-8")
