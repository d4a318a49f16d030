"""What `gemmsmith history repair` found, saved and lost."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from gemmsmith.cli.render.output import item, say

if TYPE_CHECKING:
    from gemmsmith.store.repair import Repair

_MOST = 20  # lines of one kind


def print_repair(done: Repair) -> None:
    found = done.found
    whole = f"{len(found.runs):,} runs, {found.measurements:,} measurements"
    if done.written is None:
        say(f"{done.path} is intact: {whole}; every checksum matches. Nothing was written.")
        return
    say(f"{done.path} is damaged:")
    _listed(done.reasons)
    if found.lost:
        say("Lost:")
        _listed(found.lost)
    else:
        say("Nothing is lost.")
    if not found.proved:
        say("The file is from before checksums: its rows were taken as they are.")
    say(f"{done.written}: {whole} are intact. {done.path} was not changed.")
    say("To use the new file from now on:")
    old = done.path.with_name(f"{done.path.stem}.damaged{done.path.suffix}")
    for source, target in ((done.path, old), (done.written, done.path)):
        say(f"mv {shlex.quote(str(source))} {shlex.quote(str(target))}", indent="  ")


def _listed(lines: tuple[str, ...]) -> None:
    for line in lines[:_MOST]:
        item(f"  {line}")
    if len(lines) > _MOST:
        say(f"  and {len(lines) - _MOST} more; --json lists all")


def repair_json(done: Repair) -> dict[str, Any]:
    return {
        "database": str(done.path),
        "damage": list(done.reasons),
        "lost": list(done.found.lost),
        "checksums": done.found.proved,
        "runs": len(done.found.runs),
        "measurements": done.found.measurements,
        "written": None if done.written is None else str(done.written),
    }
