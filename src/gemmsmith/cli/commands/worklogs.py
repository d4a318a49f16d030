"""gemmsmith worklogs: published ladders beside ours, and what they claim, run again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.render.worklog_text import claim_json, claims_json, print_claim, print_worklogs, worklogs_json
from gemmsmith.cli.worklog_evidence import Shown, run_evidence, save_kernels
from gemmsmith.errors import UsageError
from gemmsmith.learn.worklogs.claim import Claim, claim_named, claims
from gemmsmith.learn.worklogs.ladders import worklogs

_ALL = "all"


@dataclass(frozen=True)
class ClaimOptions(OptionGroup):
    """What to do with a claim's kernel."""

    panel: ClassVar[str] = "Claim"

    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write the claim's kernel there instead of running the commands."),
    ] = None


def command(
    claim: Annotated[
        str, typer.Argument(metavar="CLAIM", help="Run the commands that test one claim; all: every claim.")
    ] = "",
    *,
    options: ClaimOptions,
    output: OutputOptions,
) -> None:
    """Show published ladders beside ours, and run what they claim.

    Exits 1 if a command does not show what it should.
    """
    if not claim:
        if options.save is not None:
            raise UsageError("--save needs a claim", "gemmsmith worklogs lists them")
        if output.json:
            print_json({"worklogs": worklogs_json(worklogs()), "claims": claims_json(claims())})
        else:
            print_worklogs(worklogs(), claims())
        return
    chosen = claims() if claim == _ALL else (claim_named(claim),)
    if options.save is not None:
        _save(chosen, options.save, output.json)
        return
    results = [(one, _shown(one)) for one in chosen]
    if output.json:
        print_json({"claims": [claim_json(one, shown) for one, shown in results]})
    else:
        for number, (one, shown) in enumerate(results):
            say() if number else None
            print_claim(one, shown)
    if not all(each.ok for _, shown in results for each in shown) or not all(
        s.holds for one in chosen for s in one.sums
    ):
        raise typer.Exit(1)


def _shown(claim: Claim) -> list[Shown]:
    with progress() as bar:
        task = bar.add_task(claim.name, total=len(claim.commands))
        found = []
        for shown in run_evidence(claim):
            found.append(shown)
            bar.advance(task)
    return found


def _save(chosen: tuple[Claim, ...], folder: Path, as_json: bool) -> None:
    written = [path for claim in chosen for path in save_kernels(claim, folder, force=False)]
    if as_json:
        print_json({"written": [str(path) for path in dict.fromkeys(written)]})
        return
    for path in dict.fromkeys(written):
        say(f"wrote {path}")
    if not written:
        say("This claim is about arithmetic and has no kernel.")
