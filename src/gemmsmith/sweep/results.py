"""The results of a sweep: an outcome per point, and all of them with what a reader must know."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.store.results import Measurement
from gemmsmith.sweep.axes import Axis
from gemmsmith.sweep.experiments import Experiment
from gemmsmith.sweep.grid import Point
from gemmsmith.sweep.quantities import Quantity


@dataclass(frozen=True)
class Outcome:
    """The result of one point.

    state    'ok'; 'illegal': the configuration is refused; 'failed': it does not compile, fit or launch;
             'wrong': its result is
    limiter  the resource that limits occupancy
    """

    point: Point
    state: str
    reasons: tuple[str, ...] = ()
    measurement: Measurement | None = None
    limiter: str = ""

    def value(self, quantity: Quantity) -> float:
        """A quantity at this point; NaN where there is none, or where the result is wrong."""
        if self.measurement is None or self.state == "wrong":
            return math.nan
        return quantity.read(self.measurement)


@dataclass(frozen=True)
class Sweep:
    """A finished sweep. ``main`` names the quantity to look at first, ``note`` says how the numbers were obtained."""

    kernel: str
    fixed: str
    axes: tuple[Axis, ...]
    outcomes: tuple[Outcome, ...]
    origin: str
    device: str
    gpu: str
    main: str
    note: str
    baselines: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    experiment: Experiment | None = None

    @property
    def title(self) -> str:
        varied = ", ".join(axis.title for axis in self.axes)
        fixed = f" at {self.fixed}" if self.fixed else ""
        return f"{self.kernel}{fixed}: {varied}, {self.origin} ({self.device})"
