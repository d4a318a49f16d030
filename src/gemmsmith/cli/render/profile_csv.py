"""A profile as CSV: by metric, or by source line."""

from __future__ import annotations

import csv
import io
import math

from gemmsmith.explain.metrics import BY_NAME, METRICS
from gemmsmith.explain.profile import Profile, plain


def metrics_csv(profile: Profile) -> str:
    """kernel, metric, title, value, unit, origin, relative_error: one row per metric; absent ones have no value."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("kernel", "metric", "title", "value", "unit", "origin", "relative_error"))
    errors = dict(profile.errors)
    for metric in METRICS:
        value = profile.value(metric.name)
        error = plain(errors.get(metric.name, 0.0))
        known = not math.isnan(value)
        doubt = f"{error:.6g}" if known and error is not None else ""
        rows.writerow((profile.kernel, metric.name, metric.title, _number(value) if known else "", metric.unit,
                       profile.origin if known else "absent", doubt))  # fmt: skip
    return text.getvalue()


def lines_csv(profile: Profile) -> str:
    """file, line, executed, every metric that a line has, samples and stall if measured, then the text."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    have = dict.fromkeys(name for line in profile.lines for name, _ in line.metrics)
    # Metrics that ncu has for lines but not for launches come last.
    names = [*(m.name for m in METRICS if m.name in have), *(name for name in have if name not in BY_NAME)]
    sampled = any(line.samples is not None for line in profile.lines)
    rows.writerow(("file", "line", "executed", *names, *(("samples", "top_stall") if sampled else ()), "text"))
    for line in profile.lines:
        values = dict(line.metrics)
        waited = (line.samples, line.top_stall) if sampled else ()
        rows.writerow((line.file, line.number, line.executed, *(values.get(name, 0) for name in names), *waited,
                       line.text))  # fmt: skip
    return text.getvalue()


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"
