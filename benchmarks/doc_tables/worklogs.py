"""The published ladders beside ours, and what the worklogs' claims came down to on an H200."""

from __future__ import annotations

import json
import math
from typing import Any

from doc_tables.records import load, table
from gemmsmith.learn.worklogs.claim import Sum, claims
from gemmsmith.learn.worklogs.ladders import Step, Worklog, worklogs

_DIGITS = 4


def packaged_predictions() -> str:
    """The published points of the time model's record: our rungs in published configurations, on their GPUs."""
    record = load("time_model.json")
    rows = [{"gpu": p["gpu"], "kernel": p["kernel"], "preset": p["preset"], "size": p["size"],
             "tflops": _rounded(2 * p["size"] ** 3 / p["predicted_us"] / 1e6), "bound": p["bound"]}
            for p in record["points"] if p["set"] == "published"]  # fmt: skip
    unique = {(row["gpu"], row["kernel"], row["preset"], row["size"]): row for row in rows}
    made = {name: record[name] for name in ("date", "compiler", "command")} | {"rows": list(unique.values())}
    return json.dumps(made, separators=(",", ":")) + "\n"


def packaged_measurements() -> str:
    """What the claims quote of the record of an H200: figures by name, without commands and arguments."""
    record = load("h200_worklogs.json")

    def both(one: dict[str, Any]) -> dict[str, float]:
        (tflops,) = one["timed"]["found"]["tflops"]
        return {"tflops": _rounded(tflops), **_metrics(one["counted"])}

    def wrong(runs: list[dict[str, Any]]) -> dict[str, int]:
        return {"launches": len(runs), "wrong": sum(not run["found"]["ok"] for run in runs)}

    machine = record["conflicts"]["as published"]["timed"]["found"]["machine"]
    made = {
        "date": record["date"], "command": record["command"], **machine,
        "conflicts": {name: both(one) for name, one in record["conflicts"].items()},
        "ladder": {name: both(one) for name, one in record["ladder"].items()},
        "not selected": {extra: _metrics(one) for extra, one in record["not selected"].items()},
        **{name: wrong(record[name]) for name in ("race", "race cured", "transposed", "tf32")},
    }  # fmt: skip
    return json.dumps(made, indent=1) + "\n"


def _metrics(one: dict[str, Any]) -> dict[str, float]:
    found = {name: value for name, value in one["found"].items() if isinstance(value, (int, float))}
    micro = round(found["gpu__time_duration.sum"] / 1e3)
    return found | {"warps_per_sm": one["found"]["occupancy"]["warps_per_sm"], "microseconds": micro}


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def ladders_table() -> str:
    """One table for each worklog."""
    return "\n\n".join(_ladder(worklog) for worklog in worklogs())


def _ladder(worklog: Worklog) -> str:
    source = worklog.source
    author = source.author or "author not named in the document"
    documents = "; ".join(f"[{title}]({link})" if link else title for title, link in worklog.titles)
    columns = ["rung", "published configuration", "size", f"published, {source.gpu}", f"predicted, {source.gpu}",
               "measured, H200"]  # fmt: skip
    rows = [[f"`{step.published.kernel}`" if step.preset else "*baseline*", step.published.config,
             f"{step.published.size}³", *_figures(step)] for step in worklog.steps]  # fmt: skip
    lines = [f"### {worklog.name}", "", f"{documents}, by {author}. TFLOPS.", "", *table(columns, "llrrrr", rows)]
    if any(step.other_config for step in worklog.steps):
        lines += ["", "\\* in another configuration than the published one."]
    if worklog.sweeps:
        lines += ["", f"{worklog.sweeps} more figures are of the author's sweeps."]
    return "\n".join(lines)


def _figures(step: Step) -> list[str]:
    predicted = step.predicted.tflops if step.predicted else math.nan
    star = "\\*" if step.other_config else ""
    return [shown(step.published.tflops), shown(predicted),
            shown(step.measured) + star if not math.isnan(step.measured) else ""]  # fmt: skip


def shown(tflops: float) -> str:
    return "" if math.isnan(tflops) else f"{tflops:#.3g}".rstrip(".")


def _sum(one: Sum) -> str:
    origin = f" ({', '.join(one.origins)})" if one.origins else ""
    return one.sentence.replace(one.filled, f"`{one.filled}`", 1 if " = " in one.sentence else 0) + f"{origin}."


def claims_text() -> str:
    """Each claim: what is said, what holds, and the commands."""
    parts = []
    for claim in claims():
        lines = [f"### {claim.title}", "", f"*{claim.worklog}.* {claim.says}", "", claim.found, ""]
        if claim.commands:
            lines += ["```", *(f"{command.run}" for command in claim.commands), "```", ""]
            names = ", ".join(f"`{name}`" for name in claim.files if name.endswith(".cu"))
            lines += [f"Kernel: {names} (`gemmsmith worklogs {claim.name} --save .` writes it).", ""]
        lines += [f"- {_sum(one)}" for one in claim.sums]
        lines += [""] * bool(claim.sums) + [f"Theirs: `{claim.theirs}`. {claim.lesson}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
