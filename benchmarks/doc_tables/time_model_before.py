"""Kernels whose times were predicted before any of them was measured: in common styles, and of public repositories."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from doc_tables.records import RESULTS, load, table

_SETS = {"styles": ("outside_predicted.json", "h200_outside.json"),
         "public": ("public_predicted.json", "h200_public.json"),
         "second": ("public_second_predicted.json", "h200_public_second.json"),
         "third": ("public_third_predicted.json", "h200_public_third.json"),
         "fifth": ("public_fifth_predicted.json", "h200_public_fifth.json"),
         "sixth": ("public_sixth_predicted.json", "h200_public_sixth.json"),
         "seventh": ("public_seventh_predicted.json", "h200_public_seventh.json"),
         "eighth": ("public_eighth_predicted.json", "h200_public_eighth.json"),
         "ninth": ("public_ninth_predicted.json", "h200_public_ninth.json"),
         "tenth": ("public_tenth_predicted.json", "h200_public_tenth.json")}  # fmt: skip
TODAY = "public_today.json"  # what the model says now
_LONG = 44  # letters of a file name


def points_before(which: str = "") -> list[dict[str, Any]]:
    """A point for each prediction that was timed afterwards, as the record of the time model has them."""
    found = []
    for name, (predicted, measured) in _SETS.items():
        if which in ("", name) and (RESULTS / measured).exists():
            times = {(row["kernel"], row["k"]): row for row in load(measured)["rows"] if "us" in row}
            for row in load(predicted)["rows"]:
                one = times.get((row["kernel"], row["size"]))
                if one is not None:
                    found.append(row | {"set": name, "gpu": "H200", "preset": "", "fitted": False,
                                        "measured_us": one["us"], "measured_mhz": one["mhz"], "predicted_us": row["us"],
                                        "ratio": row["us"] / one["us"]})  # fmt: skip
    return found


def points_today() -> list[dict[str, Any]]:
    """The public kernels with what the model says now."""
    found = []
    for name in _SETS:
        times = {(row["kernel"], row["k"]): row["us"] for row in load(_SETS[name][1])["rows"] if "us" in row}
        for row in load(TODAY)["rows"]:
            us = times.get((row["kernel"], row["size"]))
            if us is not None:
                found.append(row | {"set": name, "gpu": "H200", "preset": "", "fitted": False, "measured_us": us,
                                    "predicted_us": row["us"], "ratio": row["us"] / us})  # fmt: skip
    return found


def fourth_points() -> list[dict[str, Any]]:
    """The fourth set with what the model says now: before it was timed, it was predicted by rules that are not kept."""
    times = {(row["kernel"], row["k"]): row["us"] for row in load("h200_public_fourth.json")["rows"] if "us" in row}
    found = []
    for row in load("public_fourth_today.json")["rows"]:
        us = times[row["kernel"], row["size"]]
        found.append(row | {"set": "fourth", "gpu": "H200", "preset": "", "fitted": False, "measured_us": us,
                            "predicted_us": row["us"], "ratio": row["us"] / us})  # fmt: skip
    return found


def before_table() -> str:
    """Kernels in common styles."""
    return _told("styles")


def public_table() -> str:
    """Kernels of public repositories."""
    return _told("public")


def second_table() -> str:
    """Kernels of other public repositories, timed after the rules."""
    return _told("second")


def third_table() -> str:
    """Kernels of a third set of repositories, which no rule was chosen with."""
    return _told("third")


def fifth_table() -> str:
    """Kernels of a fifth set of repositories, predicted by the rules that are kept."""
    return _told("fifth")


def sixth_table() -> str:
    """Kernels of a sixth set of repositories, from 512 to 8192."""
    return _told("sixth")


def seventh_table() -> str:
    """Kernels of a seventh set of repositories, at sizes that are no powers of two."""
    return _told("seventh")


def eighth_table() -> str:
    """Kernels of an eighth set of repositories."""
    return _told("eighth")


def ninth_table() -> str:
    """Kernels of a ninth set of repositories."""
    return _told("ninth")


def tenth_table() -> str:
    """Kernels of a tenth set of repositories."""
    return _told("tenth")


def fourth_table() -> str:
    """Kernels of a fourth set of repositories, by rules that were tried before they were timed, and as of today."""
    predicted = load("public_fourth_predicted.json")
    times = {(row["kernel"], row["k"]): row["us"] for row in load("h200_public_fourth.json")["rows"] if "us" in row}
    now = [row | {"inside": row["low_us"] <= times[row["kernel"], row["size"]] <= row["high_us"]}
           for row in load("public_fourth_today.json")["rows"]]  # fmt: skip
    today = {(row["kernel"], row["size"]): row["us"] for row in now}
    rules, rows = [*predicted["rules"], "today"], []
    ratios: dict[str, list[float]] = {rule: [] for rule in rules}
    for row in predicted["rows"]:
        point = row["kernel"], row["size"]
        row["today"] = today[point]
        found = [row[rule] / times[point] for rule in rules]
        for rule, ratio in zip(rules, found, strict=True):
            ratios[rule].append(ratio)
        rows.append([_shown(row["kernel"]), str(row["size"]), f"{times[point]:,.1f}", *(f"{r:.2f}" for r in found)])
    text = []
    for rule, each in ratios.items():
        near = _near(each)
        name = "Today, after timing" if rule == "today" else f"Before timing, rules {rule}"
        text.append(f"{name}: within 10 %: {near[0]} of {len(rows)}, within 15 %: {near[1]}, within 20 %: {near[2]}.")
    text.append(f"Inside their range today: {sum(row['inside'] for row in now)}.")
    heads = ["kernel", "M = N = K", "measured, µs", *(f"ratio, {rule}" for rule in rules)]
    return "\n".join([" ".join(text), "", *table(heads, "lrr" + "r" * len(rules), rows)])


def public_stalls_table() -> str:
    """Where warps wait in public kernels: ncu's longest reasons, and what the model's have in common with them."""
    rows = []
    for row in load("h200_public_stalls.json")["rows"]:
        three = list(row["cycles"].items())[:3]
        seen = ", ".join(f"{name.replace('_', ' ')} {cycles:.2g}" for name, (cycles, _) in three)
        rows.append([_shown(row["kernel"]), seen,
                     ", ".join(f"{model:.2g}" for _, (_, model) in three), f"{row['common_reasons']:.0%}",
                     f"{row['common_lines']:.0%}"])  # fmt: skip
    heads = ["kernel at 2048", "ncu, cycles for each instruction", "the model's, same reasons", "in common, by reason",
             "in common, by line"]  # fmt: skip
    return "\n".join(table(heads, "lllrr", rows))


def _told(which: str) -> str:
    points = points_before(which)
    if not points:
        return "Not timed yet."
    now = {(p["kernel"], p["size"]): p["us"] / p["measured_us"] for p in points_today() if p["set"] == which}
    rows = []
    for p in points:
        inside = p["low_us"] <= p["measured_us"] <= p["high_us"]
        times = [f"{p['measured_us']:,.1f}", f"{p['predicted_us']:,.1f}", f"{p['ratio']:.2f}"]
        rows.append([_shown(p["kernel"]), str(p["size"]), *times, "" if inside else "outside",
                     f"{p['measured_mhz']:.0f} and {p['mhz']:.0f}"])  # fmt: skip
        ratio = now.get((p["kernel"], p["size"]))  # not of what is timed in another way today
        rows[-1] += [f"{ratio:.2f}" if ratio else ""] if now else []
    within = _near([p["ratio"] for p in points])
    columns = ["kernel", "M = N = K", "measured, µs", "predicted, µs", "ratio", "its range",
               "MHz, measured and predicted"]  # fmt: skip
    text = f"Within 10 %: {within[0]} of {len(points)}, within 15 %: {within[1]}, within 20 %: {within[2]}."
    text += f" Inside their range: {sum(p['low_us'] <= p['measured_us'] <= p['high_us'] for p in points)}."
    if now:
        text += " With today's rules: {}, {} and {} of {}.".format(*_near(list(now.values())), len(now))
        columns.append("ratio today")
    return "\n".join([text, "", *table(columns, "lrrrrlrr"[: len(columns)], rows)])


def _near(ratios: list[float]) -> list[int]:
    return [sum(abs(ratio - 1) <= limit / 100 for ratio in ratios) for limit in (10, 15, 20)]


def _shown(title: str) -> str:
    """A file alone, or its repository and its name, which may be long."""
    if "/" not in title:
        return f"`{title}`"
    owner, name, *rest = PurePosixPath(title).parts
    file = rest[-1] if len(rest[-1]) <= _LONG else f"{rest[-1][: _LONG // 2]}…{rest[-1][-_LONG // 2 :]}"
    return f"{owner}/{name} `{file}`"
