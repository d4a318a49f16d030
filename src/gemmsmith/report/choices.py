"""The tuned choice on the page: what ``gemmsmith.matmul`` chose, next to the rungs' default configurations."""

from __future__ import annotations

from gemmsmith.report.arithmetic import Panel, panels_of
from gemmsmith.report.charts.frame import Table
from gemmsmith.report.charts.words import NBSP, size_of
from gemmsmith.report.report_model import ReportModel
from gemmsmith.report.speeds import Speeds, headline, short_gpu_name
from gemmsmith.store.tuned_choice import TunedChoice


def choices_of(model: ReportModel, speeds: Speeds) -> tuple[TunedChoice, ...]:
    """The choices at the report's size for its rungs' input types, if a rung was timed on the same GPU."""
    dtypes = {rung.dtype for rung in model.rungs}
    gpus = {fast.gpu for rung in model.rungs if (fast := headline(rung, model, speeds)) is not None
            and fast.origin != "predicted"}  # fmt: skip
    size = size_of(model.problem.m, model.problem.n, model.problem.k)
    return tuple(
        choice for choice in model.choice.choices
        if size_of(choice.problem.m, choice.problem.n, choice.problem.k) == size
        and choice.problem.dtype.name in dtypes and short_gpu_name(choice.gpu) in gpus
    )  # fmt: skip


def choices_in(panel: Panel, model: ReportModel, speeds: Speeds) -> tuple[TunedChoice, ...]:
    """The choices that run on a panel's execution unit; those on tensor cores need tensor-core rungs beside them."""
    tensor = panel.rungs[0].tensor_cores
    return tuple(choice for choice in choices_of(model, speeds) if choice.tensor_cores == tensor)


def choice_note(choices: tuple[TunedChoice, ...]) -> str:
    """Why the bars of the choice must not be compared with the other bars; '' without a choice."""
    if not choices:
        return ""
    cublas = ", ".join(dict.fromkeys(f"{c.cublas_tflops:.0f} TFLOPS with {c.problem.dtype.name}" for c in choices))
    longest = max(c.sample_seconds for c in choices)
    return (
        "gemmsmith.matmul chooses kernel and configuration by shape; the rungs run their default configuration. It was "
        f"timed in other runs, with samples of up to {longest:g} s, and with outputs of the input type; cuBLAS reached "
        f"{cublas} there. So compare its share of cuBLAS, not its bar."
    )


def group_table(model: ReportModel, speeds: Speeds) -> Table | None:
    """Speed over cuBLAS by group of shapes, as in the README; None if the record is not of a GPU on this page."""
    if not choices_of(model, speeds):
        return None
    columns = ("inputs and shapes", "number of shapes", "mean speed, cuBLAS = 1", "lowest", "highest")
    rows = tuple((g.shapes, str(g.cases), f"{g.mean:.2f}", f"{g.lowest:.2f}", f"{g.highest:.2f}")
                 for g in model.choice.groups)  # fmt: skip
    return Table(columns, rows)


def choice_rows(model: ReportModel, speeds: Speeds) -> tuple[tuple[str, str, str], ...]:
    """(name, TFLOPS, share of cuBLAS) per choice, for the table of ``climb``."""
    found = [choice for panel in panels_of(model) for choice in choices_in(panel, model, speeds)]
    return tuple((c.name.removeprefix("gemmsmith."), f"{c.tflops:.3g}", f"{c.of_cublas:.1%}") for c in found)


def share_of_cublas(ratio: float) -> str:
    """With one decimal, so that 99.6 % does not read as 100 %."""
    return f"{ratio * 100:.1f}{NBSP}%"
