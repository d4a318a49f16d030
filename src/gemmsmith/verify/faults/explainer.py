"""From the simulator's facts to reports in the source's own words.

The simulator gives addresses, threads and positions (``sim.faults.Fault``, ``sim.hazards.Hazard``). Reports have names:
the expression of the source, the element of the array, the iteration of the loop. What is not certain is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gemmsmith.sim.faults import Fault
from gemmsmith.sim.races.hazards import Hazard
from gemmsmith.verify.faults.access_report import FaultReporter
from gemmsmith.verify.faults.element_names import Operand
from gemmsmith.verify.faults.fault_report import FaultReport
from gemmsmith.verify.faults.kernel_source import SourceOfKernel
from gemmsmith.verify.faults.race_report import RaceReporter


@dataclass(frozen=True)
class Explainer:
    """Makes reports for one kernel, with the arrays that it was launched with."""

    source: SourceOfKernel
    operands: tuple[Operand, ...] = ()

    def races(self, hazards: tuple[Hazard, ...]) -> list[FaultReport]:
        """One report: the first race in full, the others by their lines."""
        return RaceReporter(self.source, self.operands).races(hazards)

    def fault(self, fault: Fault) -> FaultReport:
        """The report of a thread that a GPU would stop, or that waits for ever."""
        return FaultReporter(self.source, self.operands).fault(fault)


def explained(explain: Callable[[], list[FaultReport]]) -> list[FaultReport]:
    """The reports, or none: a source that cannot be made sense of must not hide the fault that was found."""
    try:
        return explain()
    except Exception:  # any text may come here
        return []
