"""Which units multiply: rungs on CUDA cores and rungs on tensor cores never share a linear scale or a ratio."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.gpus import GPU
from gemmsmith.report.report_model import Rung, Story

CUDA_CORES, TENSOR_CORES = "CUDA cores", "tensor cores"
_SUFFIXES = {CUDA_CORES: "", TENSOR_CORES: "-tensor"}


def units_of(rung: Rung) -> str:
    return TENSOR_CORES if rung.tensor_cores else CUDA_CORES


@dataclass(frozen=True)
class Peak:
    """The most that a GPU does in one arithmetic, by its data sheet."""

    arithmetic: str
    tflops: float


def peak_of(rung: Rung, gpu: GPU) -> Peak:
    """The peak of the rung's own arithmetic: CUDA cores multiply in fp32 whatever the inputs are."""
    arithmetic = rung.dtype if rung.tensor_cores else "fp32"
    return Peak(arithmetic, gpu.peak_tflops(arithmetic))


@dataclass(frozen=True)
class Panel:
    """The rungs of one kind of units, with their own scale; ``alone`` where the story has no others."""

    units: str
    rungs: tuple[Rung, ...]
    alone: bool

    def key(self, name: str) -> str:
        """A chart's key: the name itself where there is one panel, and for CUDA cores."""
        return name if self.alone else name + _SUFFIXES[self.units]

    def title(self, words: str) -> str:
        return words if self.alone else f"{self.units[:1].upper()}{self.units[1:]}: {words}"

    @property
    def on_units(self) -> str:
        """' on CUDA cores', where that needs to be said."""
        return "" if self.alone else f" on {self.units}"

    def has_baseline(self, precision: str) -> bool:
        """Whether a library in this arithmetic belongs here; all do where there is no other place for them."""
        return self.alone or self.same_units(precision)

    def same_units(self, precision: str) -> bool:
        """A library in fp32 is one of CUDA cores; TF32 and all narrower types are tensor cores'."""
        return (precision == "fp32") == (self.units == CUDA_CORES)

    def peaks(self, gpu: GPU) -> tuple[Peak, ...]:
        """The data sheet's peaks of these rungs' arithmetics; none where the GPU's is not known."""
        found = dict.fromkeys(peak_of(rung, gpu) for rung in self.rungs)
        return tuple(peak for peak in found if peak.tflops > 0)


def panels_of(story: Story) -> tuple[Panel, ...]:
    """CUDA cores first; only kinds that the story has rungs of."""
    kinds = [units for units in (CUDA_CORES, TENSOR_CORES) if any(units_of(r) == units for r in story.rungs)]
    return tuple(Panel(k, tuple(r for r in story.rungs if units_of(r) == k), len(kinds) == 1) for k in kinds)


def panel_of(rung: Rung, story: Story) -> Panel:
    return next(panel for panel in panels_of(story) if panel.units == units_of(rung))
