"""Split rungs by execution unit: CUDA-core and tensor-core rungs never share a linear scale or a ratio."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.gpus import GPU
from gemmsmith.report.report_model import ReportModel, Rung

CUDA_CORES, TENSOR_CORES = "CUDA cores", "tensor cores"
_SUFFIXES = {CUDA_CORES: "", TENSOR_CORES: "-tensor"}


def units_of(rung: Rung) -> str:
    return TENSOR_CORES if rung.tensor_cores else CUDA_CORES


@dataclass(frozen=True)
class Peak:
    """A GPU's data-sheet peak in one arithmetic."""

    arithmetic: str
    tflops: float


def peak_of(rung: Rung, gpu: GPU) -> Peak:
    """The peak of the rung's own arithmetic. CUDA cores multiply in fp32 for every input type."""
    arithmetic = rung.arithmetic or (rung.dtype if rung.tensor_cores else "fp32")
    return Peak(arithmetic, gpu.peak_tflops(arithmetic))


@dataclass(frozen=True)
class Panel:
    """The rungs of one execution unit, drawn on their own scale; ``alone`` if the report has no other panel."""

    units: str
    rungs: tuple[Rung, ...]
    alone: bool

    def key(self, name: str) -> str:
        """A chart's key: ``name``, with a suffix for tensor cores if there are two panels."""
        return name if self.alone else name + _SUFFIXES[self.units]

    def title(self, words: str) -> str:
        return words if self.alone else f"{self.units[:1].upper()}{self.units[1:]}: {words}"

    @property
    def on_units(self) -> str:
        """' on CUDA cores'; empty if there is only one panel."""
        return "" if self.alone else f" on {self.units}"

    def has_baseline(self, precision: str) -> bool:
        """Whether a baseline in this arithmetic belongs in this panel. With a single panel, every baseline does."""
        return self.alone or self.same_units(precision)

    def same_units(self, precision: str) -> bool:
        """Whether this arithmetic runs on the panel's units: fp32 on CUDA cores, TF32 and narrower on tensor cores."""
        return (precision == "fp32") == (self.units == CUDA_CORES)

    def peaks(self, gpu: GPU) -> tuple[Peak, ...]:
        """The peak of each arithmetic on this panel's units; unknown peaks are omitted."""
        found = dict.fromkeys(peak_of(rung, gpu) for rung in self.rungs)
        return tuple(peak for peak in found if peak.tflops > 0 and self.same_units(peak.arithmetic))


def panels_of(model: ReportModel) -> tuple[Panel, ...]:
    """CUDA cores first; a unit without rungs gets no panel."""
    kinds = [units for units in (CUDA_CORES, TENSOR_CORES) if any(units_of(r) == units for r in model.rungs)]
    return tuple(Panel(k, tuple(r for r in model.rungs if units_of(r) == k), len(kinds) == 1) for k in kinds)


def panel_of(rung: Rung, model: ReportModel) -> Panel:
    return next(panel for panel in panels_of(model) if panel.units == units_of(rung))
