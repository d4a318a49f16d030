"""Predicted against measured time: a table of all rungs and sizes, others, and a picture of all points."""

from __future__ import annotations

import json
import math
from typing import Any

from timed_sources import is_stale

from doc_tables.records import load, table
from doc_tables.time_model_before import TODAY, fourth_points, points_before, points_today

_SIZES = (512, 1024, 2048, 4096, 8192)
_NAMES = {"ladder": "rungs on the H200", "shapes": "rungs at shapes they are made for, H200", "probes": "probes, H200",
          "outside": "kernels from outside, H200", "published": "published, other GPUs",
          "styles": "common styles, predicted first, H200",
          "public": "public repositories, predicted first, H200",
          "second": "public repositories, timed after the rules were made, H200",
          "third": "a third set of these, H200", "fourth": "a fourth set, H200",
          "fifth": "a fifth set, H200", "sixth": "a sixth set, H200",
          "seventh": "a seventh set, H200", "eighth": "an eighth set, H200",
          "ninth": "a ninth set, H200", "tenth": "a tenth set, H200"}  # fmt: skip
_COLOURS = {"ladder": "#2563eb", "shapes": "#7c3aed", "probes": "#6b7280", "outside": "#d97706", "published": "#059669",
            "styles": "#dc2626", "public": "#0891b2", "second": "#be185d", "third": "#000000",
            "fourth": "#92400e", "fifth": "#65a30d", "sixth": "#ea580c",
            "seventh": "#4338ca", "eighth": "#a16207", "ninth": "#0f766e", "tenth": "#9d174d"}  # fmt: skip


def _points(which: str) -> list[dict[str, Any]]:
    return [p for p in load("time_model.json")["points"] if p["set"] == which]


def summary_table() -> str:
    """How many points lie within 10, 15 and 20 %, without those that were fitted."""
    rows = []
    for name, found in load("time_model.json")["summary"].items():
        n = found["points"]
        if not n:
            continue
        shares = [f"{found[f'within_{limit}']} of {n} ({found[f'within_{limit}'] / n:.0%})" for limit in (10, 15, 20)]
        rows.append([_NAMES[name], *shares, f"{found['geometric_mean']:.2f}", str(found["fitted"]),
                     str(found.get("seen", 0))])  # fmt: skip
    columns = [
        "points",
        "within 10 %",
        "within 15 %",
        "within 20 %",
        "geometric mean of predicted / measured",
        "fitted, not counted",
        "seen earlier, not counted",
    ]
    return "\n".join(table(columns, "lrrrrrr", rows))


def ladder_table() -> str:
    """Predicted over measured time of every rung and size; points that were fitted are marked."""
    points = {(p["kernel"], p["size"]): p for p in _points("ladder")}
    rows = [
        [f"`{name}`", *(_cell(points.get((name, size))) for size in _SIZES)]
        for name in dict.fromkeys(n for n, _ in points)
    ]
    return "\n".join(table(["predicted / measured", *map(str, _SIZES)], "l" + "r" * len(_SIZES), rows))


def _cell(point: dict[str, Any] | None) -> str:
    if point is None:
        return ""
    if "ratio" not in point:
        return "none"
    text = f"{point['ratio']:.2f}{'°' if point['fitted'] else '*' if point.get('seen') else ''}"
    text += "†" if _timed_before(point) else ""
    return text if abs(point["ratio"] - 1) <= 0.2 else f"**{text}**"


def _timed_before(point: dict[str, Any]) -> bool:
    """Whether a point's time was measured with another source than its kernel has now, whatever the record says."""
    if point["set"] not in ("ladder", "shapes", "probes"):
        return False
    wanted = point["kernel"], point["shape"], point.get("defines", {})
    rows = [row for row in load("h200_cycles.json")["rows"]
            if (row["kernel"], [row["m"], row["n"], row["k"]], row.get("defines", {})) == wanted]  # fmt: skip
    return not rows or is_stale(rows[0])


def others_table() -> str:
    """The points of other sets, one row each."""
    rows = [[p["gpu"], f"`{p['kernel']}` {_which(p)}", _shape(p), f"{p['measured_us']:,.0f}",
             f"{p['predicted_us']:,.0f}" if "ratio" in p else "none", _cell(p), p.get("bound", p.get("error", ""))]
            for which in ("shapes", "probes", "outside", "published") for p in _points(which)]  # fmt: skip
    return "\n".join(
        table(
            ["GPU", "kernel", "M = N = K, or M × N × K", "measured, µs", "predicted, µs", "ratio", "bound by"],
            "llrrrrl",
            rows,
        )
    )


def _which(point: dict[str, Any]) -> str:
    return "" if point["set"] == "shapes" else str(point["preset"] or point["config"])


def _shape(point: dict[str, Any]) -> str:
    extents = point.get("shape", [point["size"]] * 3)
    return str(extents[0]) if len(set(extents)) == 1 else " × ".join(map(str, extents))


def packaged() -> str:
    """What `climb` explains the ladder's steps from: the rungs' predictions at 4096³, one a line."""
    record = load("time_model.json")
    explained = [p for p in record["points"] if "why" in p]
    head = {"what": "predicted times of the ladder, with stall reasons and what-ifs", "origin": "predicted",
            "date": record["date"], "command": record["command"],
            "size": explained[0]["size"] if explained else 0}  # fmt: skip
    ncu = {name: {r: v for r, v in stalls.items() if v} for name, stalls in _profiled().items()}
    head["ncu"] = f"ncu on an H200, recorded {load('h200_stalls.json')['date']}"
    for p in explained:
        p["why"] |= {"ncu": ncu[p["kernel"]]} if p["kernel"] in ncu else {}
    rows = ",\n".join(f" {json.dumps(p['kernel'])}: {json.dumps(p['why'])}" for p in explained)
    return f'{json.dumps(head)[:-1]}, "rungs": {{\n{rows}\n}}}}\n'


def _profiled() -> dict[str, dict[str, float]]:
    """ncu's stalls of each rung, but for those whose kernels are others today (``former``)."""
    record = load("h200_stalls.json")
    return {name: launches[-1]["stalls"] for name, launches in record["rungs"].items()
            if launches and name not in record["former"]}  # fmt: skip


def error_ranges() -> str:
    """Measured over predicted time: what a further kernel lies within nine times in ten.

    Of kernels that are not ours, with today's rules; of wgmma, of which there are none, and of other GPUs, from the
    points of the record that steered nothing.
    """
    record = load("time_model.json")
    found: dict[str, list[float]] = {}
    for p in record["points"]:
        if "ratio" in p and p["set"] != "probes" and not (p["fitted"] or p.get("seen") or p.get("stale")):
            kind = p["kind"] if p["gpu"] == "H200" else "others"
            if kind in ("wgmma", "others"):
                found.setdefault(kind, []).append(p["measured_us"] / p["own_clock_us"])
    for p in (each for each in points_today() if each["set"] in ("public", "second")):  # the others test these ranges
        found.setdefault(p["kind"], []).append(p["measured_us"] / p["us"])
    lines = [
        "# Measured over predicted time, at the clock that the model finds, of nine further kernels in ten.",
        f"# Made by benchmarks/update_docs.py from time_model.json of {record['date']} and {TODAY}.",
    ]
    for kind in ("simt", "mma", "wgmma", "others"):
        low, high = nine_in_ten(found[kind])
        lines += [f"[{kind}]", f"range = [{low:.2f}, {high:.2f}]", f"points = {len(found[kind])}"]
    return "\n".join(lines) + "\n"


def nine_in_ten(ratios: list[float]) -> tuple[float, float]:
    """What one more point lies within nine times in ten, whatever the distribution; rounded outward.

    Of n points, the next lies between the i-th from below and the i-th from above with a chance of 1 − 2i / (n + 1).
    """
    i = max(1, math.floor((len(ratios) + 1) / 20))
    low, high = sorted(ratios)[i - 1], sorted(ratios)[-i]
    return math.floor(100 * low) / 100, math.ceil(100 * high) / 100


def picture() -> str:
    """All points: measured time across, predicted over measured time up; grey is within 20 %."""
    width, height, left, top, right, bottom = 760, 424, 60, 94, 20, 50
    before = [p for p in points_before() if p["set"] != "third"]  # whose first predictions are of rules not kept
    third = [p for p in points_today() if p["set"] == "third"]
    points = [p for p in [*load("time_model.json")["points"], *before, *third, *fourth_points()] if "ratio" in p]
    times = [math.log10(p["measured_us"]) for p in points]
    low, high = math.floor(min(times)), math.ceil(max(times))
    bottom_ratio, top_ratio = 0.5, 2.0

    def x(us: float) -> float:
        return left + (math.log10(us) - low) / (high - low) * (width - left - right)

    def y(ratio: float) -> float:
        share = math.log(min(top_ratio, max(bottom_ratio, ratio)) / bottom_ratio) / math.log(top_ratio / bottom_ratio)
        return height - bottom - share * (height - top - bottom)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="Predicted over measured time of all points">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<rect x="{left}" y="{y(1.2):.1f}" width="{width - left - right}" '
        f'height="{y(0.8) - y(1.2):.1f}" fill="#eeeeee"/>',
    ]
    for ratio in (0.5, 0.8, 1.0, 1.2, 2.0):
        parts.append(
            f'<line x1="{left}" x2="{width - right}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="#bbbbbb"/>'
            f'<text x="{left - 8}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>'
        )
    for power in range(low, high + 1):
        label = f"{10 ** (power % 3)} {['µs', 'ms', 's'][power // 3]}"
        parts.append(f'<text x="{x(10**power):.1f}" y="{height - bottom + 18}" text-anchor="middle">{label}</text>')
    for p in points:
        times_of = f"measured {p['measured_us']:.4g} µs, predicted {p['predicted_us']:.4g} µs"
        title = f"{p['gpu']}, {p['kernel']} {p['preset']}, {p['size']}: {times_of}"
        stroke = _COLOURS[p["set"]]
        fill = "none" if p["fitted"] else stroke
        parts.append(
            f'<circle cx="{x(p["measured_us"]):.1f}" cy="{y(p["ratio"]):.1f}" r="4" fill="{fill}" stroke="{stroke}">'
            f"<title>{title}</title></circle>"
        )
    at, line = left, 12
    for name, colour in _COLOURS.items():
        if at + 16 + 7 * len(_NAMES[name]) > width:
            at, line = left, line + 16
        parts.append(
            f'<circle cx="{at + 6}" cy="{line - 4}" r="4" fill="{colour}"/>'
            f'<text x="{at + 16}" y="{line}">{_NAMES[name]}</text>'
        )
        at += 30 + 6 * len(_NAMES[name])
    parts.append(
        f'<text x="{left}" y="{height - 10}">measured time; up: predicted / measured; grey: within 20 %; '
        "hollow: fitted; below 0.5 and above 2 drawn there</text></svg>"
    )
    return "\n".join(parts) + "\n"


def steps_text() -> str:
    """Every rung against the one that climb compares it with, at 4096³: how often direction and size are right."""
    from gemmsmith.ladder.registry import rungs
    from gemmsmith.report.collect import rung_before

    points = {p["kernel"]: p for p in _points("ladder") if p["size"] == 4096 and "ratio" in p}
    names = [spec.name for spec in rungs()]
    rows, right, near, nearer = [], 0, 0, 0
    for at, name in enumerate(names[1:], 1):
        before = rung_before(name, names[:at])
        if name not in points or before not in points:
            continue
        one, other = points[before], points[name]
        measured, found = (one[key] / other[key] for key in ("measured_us", "predicted_us"))
        good = _direction(measured) == _direction(found)
        off = abs(found / measured - 1)
        right, near, nearer = right + good, near + (off <= 0.25), nearer + (off <= 0.15)
        rows.append([f"`{name}`", f"`{before}`", f"{measured:.2f}", f"{found:.2f}", "" if good else "wrong"])
    said = (f"The direction is right for {right} of {len(rows)} (2 % counts as no change), the size within 15 % for "
            f"{nearer} and within 25 % for {near}. All of these points were fitted.")  # fmt: skip
    heads = ["rung", "times as fast as", "measured", "predicted", "direction"]
    return "\n".join([said, "", *table(heads, "llrrl", rows), "", *_made_for()])


def _made_for() -> list[str]:
    """Split-K and stream-K against the rung that their file names, at shapes that they are made for."""
    points = {(p["kernel"], tuple(p["shape"])): p for p in _points("shapes") if "ratio" in p and not p["fitted"]}
    rows = []
    for name, before in (("wgmma_split_k", "wgmma_specialized"), ("wgmma_stream_k", "wgmma_cluster")):
        for (kernel, shape), other in points.items():
            one = points.get((before, shape))
            if kernel == name and one is not None:
                measured, found = (one[key] / other[key] for key in ("measured_us", "predicted_us"))
                rows.append([f"`{name}`", f"`{before}`", " × ".join(map(str, shape)), f"{measured:.2f}", f"{found:.2f}",
                             "" if _direction(measured) == _direction(found) else "wrong"])  # fmt: skip
    heads = ["rung", "times as fast as", "M × N × K", "measured", "predicted", "direction"]
    return ["At shapes that they are made for:", "", *table(heads, "lllrrl", rows)] if rows else []


def _direction(ratio: float) -> int:
    return 0 if abs(ratio - 1) <= 0.02 else 1 if ratio > 1 else -1


def stalls_table() -> str:
    """What warps wait for at 4096³: the three longest reasons of ncu, and the model's cycles for the same."""
    model = {p["kernel"]: p["why"]["reasons"] for p in _points("ladder") if "why" in p}
    rows = []
    for name, seen in _profiled().items():
        if name not in model:
            continue
        first = sorted((r for r in seen if r != "selected"), key=lambda r: -seen[r])[:3]
        rows.append([f"`{name}`", ", ".join(f"{r.replace('_', ' ')} {seen[r]:.2g}" for r in first),
                     ", ".join(f"{model[name].get(r, 0.0):.2g}" for r in first)])  # fmt: skip
    return "\n".join(table(["rung", "ncu, cycles for each instruction", "the model's, same reasons"], "lll", rows))
