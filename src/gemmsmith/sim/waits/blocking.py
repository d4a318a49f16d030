"""What an instruction's detail must have if the instruction waits for something of its own (``Wait.EVENT``)."""

from __future__ import annotations

from typing import Any, Protocol

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.ptx.types import Array


class Blocking(Protocol):
    """Lanes that reach the instruction arrive once, and execute it when they are ready.

    ``polls``: lanes that are not ready may execute it too, and find out. They do when nothing else can run.
    """

    @property
    def polls(self) -> bool: ...

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        """These lanes reach the instruction."""

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        """Which of these lanes can go on."""

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        """Why this lane waits, for the message that it waits for ever."""
