"""Occupancy as a table by GPU, as a curve over one resource, and as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gemmsmith.cli.render.output import bytes_text, columns, item, print_table, say
from gemmsmith.explain.occupancy import Occupancy, Step, Waves
from gemmsmith.gpus import GPU

_NOTE = "predicted from the limits of the hardware, as NVIDIA's occupancy calculator does; not measured"
_WIDE, _BAR, _SHORT_BAR = 90, 30, 12  # from this many columns on, a bar is this long; on less, so short


@dataclass(frozen=True)
class Row:
    """One GPU's answer; no waves where the grid is not known or the block does not fit."""

    gpu: GPU
    occupancy: Occupancy
    waves: Waves | None

    @property
    def smem(self) -> int:
        return self.occupancy.static_smem + self.occupancy.dynamic_smem


def occupancy_json(title: str, rows: list[Row], skipped: list[str], resource: str, runs: list[Step]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kernel": title, "origin": "predicted", "note": _NOTE, "skipped": skipped,
        "gpus": [
            {
                **dataclasses.asdict(row.occupancy), "arch": f"sm_{row.gpu.arch}",
                "reserved_smem": row.gpu.reserved_smem_per_block, "sms": row.gpu.sms,
                "waves": dataclasses.asdict(row.waves) if row.waves else None,
            }
            for row in rows
        ],
    }  # fmt: skip
    if resource:
        facts["curve"] = {
            "resource": resource, "gpu": rows[0].occupancy.gpu,
            "steps": [
                {
                    "first": run.first, "last": run.last, "blocks_per_sm": run.occupancy.blocks_per_sm,
                    "warps_per_sm": run.occupancy.warps_per_sm, "fraction": run.occupancy.fraction,
                    "limiters": list(run.occupancy.limiters),
                }
                for run in runs
            ],
        }  # fmt: skip
    return facts


def print_occupancy(title: str, rows: list[Row], skipped: list[str], resource: str, runs: list[Step]) -> None:
    heads = [("GPU", "bar"), ("regs", "right"), ("shared", "right"), ("blocks", "right"), ("warps", "right"),
               ("occu-\npancy", "right"), ("limited by", "left")]  # fmt: skip
    with_waves = any(row.waves for row in rows)
    if with_waves:
        heads += [("waves", "right"), ("tail", "right"), ("imbal-\nance", "right")]
    print_table(heads, map(_cells, rows), title)
    say()
    if len(rows) == 1:
        _print_limits(rows[0].occupancy)
    for why in dict.fromkeys(row.occupancy.why for row in rows):
        names = ", ".join(row.occupancy.gpu for row in rows if row.occupancy.why == why)
        item(f"{names}: {why}", lead=names)
    for sentence in skipped:
        item(f"skipped {sentence}", "dim")
    if resource:
        say()
        _print_curve(rows[0], resource, runs)
    say(f"\nBlocks and warps that an SM holds at once, {_NOTE}.", "dim")
    if with_waves:
        say("Tail: how full the last wave is. Imbalance: blocks on the busiest SM over the average.", "dim")


def _print_limits(found: Occupancy) -> None:
    rows = []
    for limit in found.limits:
        mark = "[bold]◀ limits[/bold]" if limit.resource in found.limiters else ""
        rows.append((limit.resource, "any" if limit.blocks is None else str(limit.blocks), mark))
    print_table((("resource", "left"), ("blocks it allows", "right"), ("", "left")), rows)
    say()


def _cells(row: Row) -> list[str]:
    found, gpu = row.occupancy, row.gpu
    cells = [gpu.name, str(found.registers), bytes_text(row.smem),
             str(found.blocks_per_sm), f"{found.warps_per_sm}/{gpu.warps_per_sm}", _percent(found.fraction),
             ", ".join(found.limiters) if found.fits else "[red]does not fit[/red]"]  # fmt: skip
    if some := row.waves:
        count = f"{some.waves:.2f}" if some.waves < 1000 else f"{some.waves:,.0f}"
        cells += [count, _percent(some.tail_utilisation), f"{some.imbalance:.2f}"]
    return cells


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}%"


def _print_curve(row: Row, resource: str, runs: list[Step]) -> None:
    """One line per step; the kernel's own is marked."""
    found = row.occupancy
    unit = {"registers": "registers per thread", "threads": "threads per block", "smem": "shared memory, B per block"}
    here = {"registers": found.registers, "threads": found.threads, "smem": row.smem}
    length = _BAR if columns() >= _WIDE else _SHORT_BAR
    lines = []
    for run in runs:
        span = f"{run.first:,}" if run.first == run.last else f"{run.first:,} to {run.last:,}"
        now = run.occupancy
        lines.append((
            span, str(now.blocks_per_sm), str(now.warps_per_sm), _percent(now.fraction),
            "█" * round(length * now.fraction) or "·", ", ".join(now.limiters) if now.fits else "does not fit",
            "[bold]◀ here[/bold]" if run.first <= here[resource] <= run.last else "",
        ))  # fmt: skip
    heads = ((unit[resource], "right"), ("blocks", "right"), ("warps", "right"), ("", "right"), ("occupancy", "bar"),
             ("limited by", "left"), ("", "bar"))  # fmt: skip
    print_table(heads, lines, f"{found.gpu}: occupancy against {resource}, one line per step")
