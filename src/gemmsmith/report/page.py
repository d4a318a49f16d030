"""The page: one HTML file with everything inline, allowed to load nothing."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gemmsmith.explain.diagnosis import MODEL
from gemmsmith.report.charts.patterns import patterns
from gemmsmith.report.charts.svg import colour
from gemmsmith.report.charts.words import sentence, size_of
from gemmsmith.report.figures.ladder import ladders
from gemmsmith.report.figures.names import anchors, contender
from gemmsmith.report.files import inline, replace_file
from gemmsmith.report.method import runs_of
from gemmsmith.report.report_model import Story
from gemmsmith.report.rung_view import COUNTED, view_rung
from gemmsmith.report.sections import sections_of
from gemmsmith.report.speeds import plain_gpu, speeds_of
from gemmsmith.report.summary import headline_words, top_facts
from gemmsmith.store.published import sources_of

ORIGINS = {
    "measured": ("●", "measured here", "timed on this machine's GPU, by the protocol below"),
    "recorded": ("◆", "recorded", "timed earlier, on the machine that is named with it"),
    "simulated": ("▲", "simulated", "counted while the simulator executed the kernel's PTX"),
    "predicted": ("◇", "predicted", "the model's answer from simulated counts and the GPU's data sheet"),
    "published": ("■", "published", "given by others, on their machine; not checked here"),
    "compiler": ("▣", "compiler", "reported by ptxas, or read from the machine code"),
}


def page(story: Story) -> str:
    """The whole page as HTML."""
    speeds = speeds_of(story)
    links = anchors(story.rungs)
    style, script = stylesheet(), inline("page.js")
    views = tuple(view_rung(story, speeds, at, links) for at in range(len(story.rungs)))
    return _environment().get_template("page.html").render(
        story=story, views=views, links=links, sections=sections_of(story, speeds, links), runs=runs_of(story),
        ladders=ladders(story, speeds, links), headline=headline_words(story, speeds), facts=top_facts(story, speeds),
        origins=_origins(story), inputs=" and ".join(dict.fromkeys(rung.dtype for rung in story.rungs)),
        rejected=speeds.rejected, others=speeds.others, model=MODEL, counted=COUNTED,
        baseline=contender(story.baseline), size=size_of(story.problem.m, story.problem.n, story.problem.k),
        patterns=patterns(), style=Markup(style), script=Markup(script), csp=policy(style, script),
        sources=sources_of(story.published),
    )  # fmt: skip


def write_page(path: str | Path, story: Story) -> Path:
    """Write the page: a reader sees the old file or the new one, never a part. Not durable against power loss."""
    return replace_file(path, page(story))


def policy(style: str, script: str) -> str:
    """A content security policy under which only these two inline blocks work, and nothing is fetched."""
    return (f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
            "form-action 'none'")  # fmt: skip


def stylesheet() -> str:
    """Light colours, dark ones where the system or the reader asks for them, then the page's and the charts' rules."""
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
    made.filters.update(sentence=sentence)
    return made


def _origins(story: Story) -> dict[str, tuple[str, str, str]]:
    """The tags: a sign, a name and its meaning. A recorded figure's names the GPU, where all are of one."""
    elsewhere = {plain_gpu(run.machine.gpu) for run in story.recorded}
    if len(elsewhere) != 1:
        return ORIGINS
    sign, name, meaning = ORIGINS["recorded"]
    return ORIGINS | {"recorded": (sign, f"{name} on {elsewhere.pop()}", meaning)}
