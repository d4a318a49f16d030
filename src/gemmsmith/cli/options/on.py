"""Where the tasks of a command run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UsageError

if TYPE_CHECKING:
    from gemmsmith.cluster.place import Place

ENVIRONMENT = "GEMMSMITH_ON"


@dataclass(frozen=True)
class OnOptions(OptionGroup):
    """This machine's cores, or a Ray cluster: docs/cluster.md."""

    panel: ClassVar[str] = "Where tasks run"

    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLACE",
            envvar=ENVIRONMENT,
            help="local:N (N processes), ray (the cluster of this machine), ray://host:10001, or here (this process).",
        ),
    ] = ""
    gpu_kind: Annotated[
        str,
        typer.Option("--gpu-kind", metavar="NAME", help="The kind of GPU, such as H200, on a cluster with several."),
    ] = ""
    task_limit: Annotated[
        float,
        typer.Option(
            "--task-limit", metavar="SECONDS", show_default="3600", help="End a task that takes longer than this."
        ),
    ] = 0.0
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many tasks there are and how long they should take.")
    ] = False
    restart: Annotated[
        bool, typer.Option("--restart", help="Do all tasks, also those that a stopped command has done.")
    ] = False

    def __post_init__(self) -> None:
        if self.on:
            _ = self.place
        if self.task_limit < 0 or math.isnan(self.task_limit):
            raise UsageError(f"--task-limit {self.task_limit:g} is not a number of seconds", "give more than 0")

    @property
    def place(self) -> Place:
        from gemmsmith.cluster.place import place_named

        return place_named(self.on)

    @property
    def named(self) -> bool:
        """Whether a place was named: results are then recorded, and sources sent there."""
        return self.on not in ("", "here")

    @property
    def asked(self) -> bool:
        """Whether tasks are wanted, rather than the usual way of the command."""
        return self.named or self.dry_run

    @property
    def on_cluster(self) -> bool:
        return self.on.startswith("ray")

    def limit(self, usual: float) -> float:
        return self.task_limit or usual


@dataclass(frozen=True)
class KernelsOnOptions(OnOptions):
    """The same for the kernels of several files or a folder."""

    jobs: Annotated[
        int,
        typer.Option("--jobs", min=0, help="Kernels checked at a time, where there are several. 0: one for each core."),
    ] = 0
