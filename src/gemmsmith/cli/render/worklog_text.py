"""What gemmsmith worklogs prints: published ladders beside ours, and a claim with its evidence."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from gemmsmith.cli.render.output import item, print_table, say
from gemmsmith.cli.worklog_evidence import Shown
from gemmsmith.explain.profile import plain
from gemmsmith.learn.worklogs.claim import Claim, h200_origin
from gemmsmith.learn.worklogs.ladders import Step, Worklog, record
from gemmsmith.store.published import IDEAS

_COURTESY = (
    "The rungs of our ladder follow these worklogs. Their authors showed their work, which is why it can be learnt "
    "from, mistakes included."
)
_CODE = {"https://siboehm.com/articles/22/CUDA-MMM": "https://github.com/siboehm/SGEMM_CUDA"}
_ORIGINS = (
    "TFLOPS. published: by the author, on the author's GPU. predicted: our rung in the same configuration on that GPU, "
    "by the time model of explain ({date}, {compiler}); not measured. measured: our rung on an NVIDIA H200, "
    "recorded; another GPU, so the columns cannot be compared with each other, only the steps within one."
)


def print_worklogs(found: Sequence[Worklog], claims: Sequence[Claim]) -> None:
    say(_COURTESY)
    for worklog in found:
        say()
        _print_ladder(worklog)
    say()
    made = record("predicted.json")
    say(_ORIGINS.format(date=made["date"], compiler=made["compiler"]), "dim")
    if any(step.other_config for worklog in found for step in worklog.steps):
        say("* measured in another configuration than the published one.", "dim")
    say()
    say("Their ideas come from", "bold")
    for source in IDEAS:
        item(f"- {source.title}, by {source.author}: {', '.join(filter(None, (source.link, _CODE.get(source.link))))}")
    say()
    say("Claims, run again", "bold")
    print_table((("", "bar"), ("", "left"), ("", "left")),
                [(claim.name, escape(claim.title), escape(claim.worklog)) for claim in claims])  # fmt: skip
    say()
    item("next: gemmsmith worklogs constants")


def _print_ladder(worklog: Worklog) -> None:
    source = worklog.source
    say(f"{worklog.name}, {source.gpu}", "bold")
    for title, link in worklog.titles:
        item(f"{title}, by {source.author or 'an author who is not named in it'}{f': {link}' if link else ''}")
    sizes = {step.published.size for step in worklog.steps}
    rows = [_row(step, len(sizes) > 1) for step in worklog.steps]
    (at,) = sizes if len(sizes) == 1 else ("",)
    columns = [(f"rung, at {at}³" if at else "rung", "bar"), ("published", "right"), ("predicted", "right"),
               ("measured", "right"), ("published as", "left")]  # fmt: skip
    print_table(columns, rows)
    if worklog.sweeps:
        say(f"and {worklog.sweeps} figures of sweeps: gemmsmith sweep repeats them", "dim")


def _row(step: Step, with_size: bool) -> tuple[str, ...]:
    name = escape(step.published.kernel) if step.preset else "baseline"
    if with_size:
        name += f", {step.published.size}³"
    predicted = step.predicted.tflops if step.predicted else math.nan
    measured = _shown(step.measured) + ("*" if step.other_config else "")
    return name, _shown(step.published.tflops), _shown(predicted), measured, escape(step.published.config)


def _shown(tflops: float) -> str:
    """Three digits."""
    return "" if math.isnan(tflops) else f"{tflops:#.3g}".rstrip(".")


def print_claim(claim: Claim, shown: Sequence[Shown]) -> None:
    say(claim.title, "bold")
    say(f"{claim.worklog}: {claim.says}", lead=f"{claim.worklog}:")
    say()
    say(claim.found)
    for one in shown:
        say()
        say(f"{one.command.why}:")
        _command(one.command.run)
        for line in one.lines:
            item(line, "cyan", indent="    ")
        if not one.ok:
            item(f"not shown: {one.missing}", "bold red", indent="    ")
    say()
    for each in claim.sums:
        origin = f" ({', '.join(each.origins)})" if each.origins else ""
        item(each.sentence + origin, "cyan" if each.holds else "bold red", indent="    ")
    if any("recorded" in each.origins for each in claim.sums):
        item(f"recorded: {h200_origin()}", "dim", indent="    ")
    say()
    say("The author's own, once you have it:" if claim.files else "By yourself:")
    _command(claim.theirs)
    say(f"To remember: {claim.lesson}", lead="To remember:")
    if claim.files:
        item(f"The kernels: gemmsmith worklogs {claim.name} --save .", "dim")


def _command(text: str) -> None:
    """A command is never wrapped, so that it can be copied."""
    sys.stdout.write(f"  $ {text}\n")


def worklogs_json(found: Sequence[Worklog]) -> list[dict[str, Any]]:
    return [
        {
            "name": worklog.name, "gpu": worklog.source.gpu, "author": worklog.source.author or None,
            "documents": [{"title": title, "link": link or None} for title, link in worklog.titles],
            "sweep_figures": worklog.sweeps, "steps": [_step_json(step) for step in worklog.steps],
        }
        for worklog in found
    ]  # fmt: skip


def _step_json(step: Step) -> dict[str, Any]:
    figure, made = step.published, record("predicted.json")
    found: dict[str, Any] = {
        "kernel": figure.kernel, "size": figure.size, "config": figure.config, "preset": step.preset or None,
        "published": {"origin": "published", "gpu": figure.gpu, "tflops": plain(figure.tflops),
                      "percent_of_baseline": plain(figure.pct_of_baseline), "baseline": figure.baseline},
        "predicted": None, "measured": None,
    }  # fmt: skip
    if step.predicted:
        found["predicted"] = {"origin": "predicted", "gpu": step.predicted.gpu, "tflops": step.predicted.tflops,
                              "bound": step.predicted.bound, "date": made["date"],
                              "compiler": made["compiler"]}  # fmt: skip
    if not math.isnan(step.measured):
        found["measured"] = {"origin": "recorded", "gpu": "NVIDIA H200", "tflops": step.measured,
                             "config": step.measured_config}  # fmt: skip
    return found


def claims_json(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    return [{"name": claim.name, "worklog": claim.worklog, "title": claim.title, "says": claim.says,
             "found": claim.found, "lesson": claim.lesson, "files": list(claim.files),
             "commands": [command.run for command in claim.commands], "theirs": claim.theirs}
            for claim in claims]  # fmt: skip


def claim_json(claim: Claim, shown: Sequence[Shown]) -> dict[str, Any]:
    (made,) = claims_json([claim])
    return made | {
        "ok": all(one.ok for one in shown) and all(one.holds for one in claim.sums),
        "commands": [{"run": one.command.run, "why": one.command.why, "exit": one.exit, "shows": list(one.lines),
                      "missing": one.missing or None} for one in shown],
        "sums": [{"text": one.filled, "value": one.value, "is": one.meaning, "origins": list(one.origins)}
                 for one in claim.sums],
        "recorded": h200_origin() if any("recorded" in one.origins for one in claim.sums) else None,
    }  # fmt: skip
