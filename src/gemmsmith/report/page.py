"""Render the page: one HTML file with everything inline and a policy that forbids loading anything."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gemmsmith.explain.diagnosis import MODEL
from gemmsmith.report.chapters import chapters_of
from gemmsmith.report.charts.patterns import patterns
from gemmsmith.report.charts.svg import colour
from gemmsmith.report.charts.words import sentence, size_of
from gemmsmith.report.choices import group_table
from gemmsmith.report.compact import compact
from gemmsmith.report.figures.ladder import ladders
from gemmsmith.report.figures.names import anchors, contender
from gemmsmith.report.files import inline, replace_file
from gemmsmith.report.machine_loop import folded
from gemmsmith.report.method import runs_of
from gemmsmith.report.report_model import ReportModel
from gemmsmith.report.rung_view import COUNTED, view_rung
from gemmsmith.report.sections import sections_of
from gemmsmith.report.speeds import short_gpu_name, speeds_of
from gemmsmith.report.summary import headline_words, top_facts
from gemmsmith.store.published import sources_of

ORIGINS = {
    "measured": ("●", "measured here", "timed on this machine's GPU, with the protocol below"),
    "recorded": ("◆", "recorded", "timed earlier, on the machine named beside it"),
    "simulated": ("▲", "simulated", "counted while the simulator executed the kernel's PTX"),
    "predicted": ("◇", "predicted", "estimated from simulated counts and the GPU's data sheet"),
    "published": ("■", "published", "reported by other authors, on their machines; not checked here"),
    "compiler": ("▣", "compiler", "reported by ptxas, or read from the machine code"),
}


def page(model: ReportModel) -> str:
    """The whole page as HTML."""
    speeds = speeds_of(model)
    links = anchors(model.rungs)
    style, script = stylesheet(), inline("page.js") + inline("charts.js")
    views = tuple(view_rung(model, speeds, at, links) for at in range(len(model.rungs)))
    return _environment().get_template("page.html").render(
        model=model, views=views, links=links, sections=sections_of(model, speeds, links), runs=runs_of(model),
        ladders=ladders(model, speeds, links), headline=headline_words(model, speeds), facts=top_facts(model, speeds),
        origins=_origins(model), inputs=" and ".join(dict.fromkeys(rung.dtype for rung in model.rungs)),
        rejected=speeds.rejected, others=speeds.others, time_model=MODEL, counted=COUNTED,
        choice=group_table(model, speeds), choice_source=model.choice.source,
        baseline=contender(model.baseline), size=size_of(model.problem.m, model.problem.n, model.problem.k),
        sources=sources_of(model.published), patterns=patterns(), chapters=chapters_of(model.rungs),
        style=Markup(style), script=Markup(script), csp=policy(style, script),
    )  # fmt: skip


def write_page(path: str | Path, model: ReportModel) -> Path:
    """Write the page. Atomic for readers; not durable across power loss."""
    return replace_file(path, compact(page(model)))


def policy(style: str, script: str) -> str:
    """A content security policy that allows only these two inline blocks and forbids all requests."""
    return (f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
            "form-action 'none'")  # fmt: skip


def stylesheet() -> str:
    """Light colours, dark colours for a dark system or the reader's choice, then the rules of page and charts."""
    dark = inline("colours_dark.css")
    return (
        f"{inline('colours.css')}"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark;\n{dark}}} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark;\n{dark}}}\n{inline('page.css')}{inline('charts.css')}"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _environment() -> Environment:
    made = Environment(loader=PackageLoader("gemmsmith.report", "templates"), autoescape=True, trim_blocks=True,
                       lstrip_blocks=True, undefined=StrictUndefined)  # fmt: skip
    made.globals.update(colour=colour)
    made.filters.update(sentence=sentence, folded=folded)
    return made


def _origins(model: ReportModel) -> dict[str, tuple[str, str, str]]:
    """The origin tags: sign, name and meaning. 'recorded' names the GPU if all recorded runs share one."""
    elsewhere = {short_gpu_name(run.machine.gpu) for run in model.recorded}
    if len(elsewhere) != 1:
        return ORIGINS
    sign, name, meaning = ORIGINS["recorded"]
    return ORIGINS | {"recorded": (sign, f"{name} on {elsewhere.pop()}", meaning)}
