"""The page: one HTML file with everything inline, allowed to load nothing."""

from __future__ import annotations

import base64
import hashlib
import math
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gemmsmith.explain.diagnosis import MODEL
from gemmsmith.report.charts.patterns import patterns
from gemmsmith.report.charts.svg import colour
from gemmsmith.report.charts.words import percent, sentence, size_of, tflops, times
from gemmsmith.report.figures.names import anchors, contender
from gemmsmith.report.figures.speed import ladder
from gemmsmith.report.files import inline, replace_file
from gemmsmith.report.method import runs_of
from gemmsmith.report.rung_view import COUNTED, Fact, RungView, view_rung
from gemmsmith.report.sections import sections_of
from gemmsmith.report.speeds import Speeds, headline, plain_gpu, speeds_of
from gemmsmith.report.story import MEASURED, PREDICTED, Story

ORIGINS = {
    "measured": ("●", "measured here", "timed on this machine's GPU, by the protocol below"),
    "recorded": ("◆", "recorded", "timed earlier, on the machine that is named with it"),
    "simulated": ("▲", "simulated", "counted while the simulator executed the kernel's PTX"),
    "predicted": ("◇", "predicted", "the model's answer from simulated counts and the GPU's data sheet"),
    "published": ("■", "published", "given by others, on their machine; not checked here"),
    "compiler": ("▣", "compiler", "reported by ptxas, or read from the machine code"),
}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def page(story: Story) -> str:
    """The whole page as HTML."""
    speeds = speeds_of(story)
    links = anchors(story.rungs)
    style, script = stylesheet(), inline("page.js")
    views = tuple(view_rung(story, speeds, at, links) for at in range(len(story.rungs)))
    return _environment().get_template("page.html").render(
        story=story, views=views, links=links, sections=sections_of(story, speeds, links), runs=runs_of(story),
        ladder=ladder(story, speeds, links), headline=_headline(story, speeds), facts=_facts(story, views),
        origins=_origins(story),
        rejected=speeds.rejected, model=MODEL, counted=COUNTED, baseline=contender(story.baseline),
        size=size_of(story.problem.m, story.problem.n, story.problem.k),
        patterns=patterns(), style=Markup(style), script=Markup(script), csp=policy(style, script),
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


def _headline(story: Story, speeds: Speeds) -> str:
    """'Twelve rungs, from 0.50 to 45.8 TFLOPS': the page in one line."""
    count = len(story.rungs)
    many = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
    rungs = f"{many.capitalize()} rung{'' if count == 1 else 's'}"
    known = [s for rung in story.rungs if (s := headline(rung, story, speeds)) is not None]
    values = [s.tflops for s in known]
    if len({(s.origin, s.gpu) for s in known}) != 1 or max(values) == values[0]:
        return f"{rungs} of matrix multiplication"
    guess = "predicted to go " if known[0].origin == PREDICTED else ""
    return f"{rungs}, {guess}from {tflops(values[0])} to {tflops(max(values))} TFLOPS"


def _facts(story: Story, views: tuple[RungView, ...]) -> tuple[Fact, ...]:
    """The four figures at the top."""
    known = [(v, v.speed) for v in views if v.speed is not None]
    made = []
    if known:
        view, best = max(known, key=lambda item: item[1].tflops)
        made.append(Fact(f"fastest: {view.rung.name}", f"{tflops(best.tflops)} TFLOPS", best.origin))
        if math.isfinite(best.of_baseline):
            made.append(Fact(f"of {contender(story.baseline)}", percent(best.of_baseline), best.origin))
        first = known[0][1]
        if first is not best and (first.origin, first.gpu) == (best.origin, best.gpu):
            made.append(Fact(f"over {known[0][0].rung.name}", times(best.tflops / first.tflops), best.origin))
    checked = [r for r in story.rungs if r.trusted is not None]
    if checked:
        good = sum(bool(r.trusted) for r in checked)
        origin = MEASURED if story.measured else "simulated"
        made.append(Fact("verified against float64", f"{good} of {len(checked)}", origin))
    return tuple(made)
