"""One rung of the ladder, for ``climb`` and ``report``."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.cli.compiler import Compiler
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.collect import CollectedRung, count_rung, verify_rung
from gemmsmith.sim.device import SimDevice


def collect_rung(name: str, size: int, arch: str, simulated: int, compiler: Compiler) -> CollectedRung:
    """One rung: counted, and verified on the simulator up to ``simulated``³ (0: not verified)."""
    step, spec = count_rung(name, size, arch, compiler), rung_named(name)
    if not simulated or not spec.simulated:
        return step
    return replace(step, verdicts=verify_rung(SimDevice(arch), spec, simulated, compiler))
