"""The rungs of the ladder, as a table or as JSON."""

from __future__ import annotations

from gemmsmith.cli.render.output import print_json, print_table, say
from gemmsmith.ladder.registry import rungs


def print_rungs(as_json: bool) -> None:
    """Every rung, from the naive kernel up."""
    specs = rungs()
    if as_json:
        print_json({"rungs": [
            {
                "rung": s.rung, "name": s.name, "summary": s.summary, "teaches": s.teaches,
                "dtypes": [d.name for d in s.dtypes], "layouts": list(s.layouts), "min_arch": f"sm_{s.min_arch}",
                "parameters": [
                    {"name": p.name, "default": p.default, "legal": list(p.legal), "meaning": p.meaning}
                    for p in s.parameters
                ],
                "presets": [
                    {"name": p.name, "config": dict(p.config.values), "published": p.published} for p in s.presets
                ],
            }
            for s in specs
        ]})  # fmt: skip
        return
    rows = [(str(s.rung), s.name, " ".join(d.name for d in s.dtypes), s.summary) for s in specs]
    print_table((("", "right"), ("rung", "left"), ("inputs", "left"), ("what it does", "left")), rows)
    say("\ngemmsmith show RUNG explains one; gemmsmith run RUNG runs and verifies it.", "dim")
