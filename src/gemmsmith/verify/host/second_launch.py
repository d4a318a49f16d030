"""A second launch on what the first one left: counters and locks that nobody sets back."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.sim.lowering.shared_arrays import plain_name
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.verify.trials.trial import AGAIN, Trial


def second_launch(spec: KernelSpec, compiled: CompiledKernel, first: Trial) -> Trial | None:
    """The trial, where a launch leaves something for the next: arrays that host code clears once for several launches,
    variables of the module that it never sets."""
    kept = getattr(spec.geometry, "kept", None)
    if spec.is_rung or kept is None:
        return None
    try:
        variables = parse(compiled.ptx).entry(compiled.entry).variables
        left = kept([plain_name(each.name) for each in variables if each.space == "global"], first.problem)
    except GemmsmithError:
        return None
    if not left:
        return None
    why = f"the first launch was right; the second finds what it left in {' and '.join(left)}"
    return replace(first, label=AGAIN, hazards=False, launches=2, why=why)
