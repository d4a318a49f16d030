"""The ladder in chapters: rungs that share a level of the machine, by what their configurations have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmsmith.report.drawings.shape import values_of
from gemmsmith.report.report_model import Rung


@dataclass(frozen=True)
class Chapter:
    """Rungs of one kind in ladder order; ``words`` say what they have in common."""

    key: str
    title: str
    words: str
    rungs: tuple[Rung, ...]


_CHAPTERS = (
    (
        "threads", "Threads and memory",
        "One output per thread, or a few. What counts is which bytes a warp asks for, and how often the same bytes are "
        "fetched.",
    ),
    (
        "registers", "Register tiles",
        "A thread computes many outputs and keeps its operands in registers, so that one load serves many "
        "multiplications.",
    ),
    (
        "warps", "Warps and pipelines",
        "A level between block and thread, and copies that run while the arithmetic does.",
    ),
    (
        "tensor", "Tensor cores",
        "One instruction of a whole warp multiplies small matrices. The work is to feed it: fragments, swizzled shared "
        "memory, pipelines.",
    ),
    (
        "wgmma", "Hopper: TMA and wgmma",
        "Copies of whole tiles that no thread computes addresses for, products that read shared memory themselves, and "
        "blocks that work together.",
    ),
    (
        "split", "fp32 on tensor cores",
        "fp32 numbers as sums of 16-bit terms: several products of tensor cores give the accuracy of fp32, faster than "
        "CUDA cores do.",
    ),
    ("yours", "Your kernels", "Kernels from your own files, measured as the rungs are."),
)  # fmt: skip


def chapters_of(rungs: Sequence[Rung]) -> tuple[Chapter, ...]:
    """Every rung once, in chapters that are not empty."""
    kinds = [(key, title, words, tuple(r for r in rungs if chapter_key(r) == key)) for key, title, words in _CHAPTERS]
    return tuple(Chapter(*kind) for kind in kinds if kind[3])


def chapter_key(rung: Rung) -> str:
    if rung.number == 0:
        return "yours"
    if rung.arithmetic:
        return "split"
    if rung.tensor_cores:
        return "wgmma" if rung.wgmma else "tensor"
    given = values_of(rung.config)
    if "WM" in given or given.get("STAGES", 1) > 1:
        return "warps"
    return "registers" if "TM" in given or "SIDE" in given else "threads"
