"""Which trials check runs, and how much it tells about a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, TypeVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UnknownTrialError
from gemmsmith.verify.trials.trial import BATCH, ODD, ORDERS


class Labelled(Protocol):
    """A trial of a product, or of a launch."""

    @property
    def label(self) -> str: ...


T = TypeVar("T", bound=Labelled)
# Former names, which saved commands may have.
_FORMER = {"warps starved": ORDERS["starved"], "rows that start on no multiple of 16 bytes": ODD,
           "other depths": "other K", "other remainders": "other remainders modulo the tile",
           "many rows or columns": "many tiles along M or N"}  # fmt: skip


@dataclass(frozen=True)
class TrialOptions(OptionGroup):
    """One trial alone, as ``repeat:`` asks for it; the PTX of a fault."""

    panel: ClassVar[str] = "Verification"

    trial: Annotated[
        str, typer.Option("--trial", metavar="NAME", help="Run one trial alone: its name as check prints it.")
    ] = ""
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the PTX instructions of a fault as well.")] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "trial", _FORMER.get(self.trial, self.trial))

    def chosen(
        self, trials: Sequence[T], skipped: Sequence[tuple[str, str]] = (), beyond: Sequence[str] = ()
    ) -> list[T]:
        """The trials to run: all, or those with the name that was given. What is judged ``beyond`` the trials follows
        the first of them, and a batch: a kernel that was mended may have that in its place."""
        if not self.trial:
            return list(trials)
        if self.trial in beyond:
            return [trial for i, trial in enumerate(trials) if i == 0 or trial.label == BATCH]
        found = [trial for trial in trials if trial.label == self.trial]
        if not found:
            reason = next((f": it is skipped, {why}" for label, why in skipped if label == self.trial), "")
            names = "; ".join(dict.fromkeys(trial.label for trial in trials))
            raise UnknownTrialError(
                f"check has no trial {self.trial!r} for this kernel{reason}", f"its trials: {names}"
            )
        return found
