"""The quantities that a goal may name: counters of one simulated launch, and what the time model makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gemmsmith.explain.bottleneck import conflicts_of
from gemmsmith.explain.findings import Case
from gemmsmith.explain.profile import CONFLICTS, FFMA, FLIGHT, REQUESTS, Profile

FMUL = FFMA.replace("ffma", "fmul")


@dataclass(frozen=True)
class Quantity:
    """A number of a launch. ``meaning`` says it to somebody who has never read a profile; ``form`` formats it.

    origin  'simulated' where the simulator counts it, 'compiler', or 'predicted' by the time model
    """

    name: str
    title: str
    meaning: str
    value: Callable[[Case], float]
    form: str = "{:,.0f}"
    origin: str = "simulated"

    def shown(self, value: float) -> str:
        return self.form.format(value)


def _over(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _stores(profile: Profile) -> float:
    return profile.value(CONFLICTS["st"]) + profile.value(CONFLICTS["ldgsts"])


def _smem(profile: Profile) -> float:
    return float(profile.resources.static_smem + profile.geometry.smem)


def _warps(case: Case) -> float:
    return case.profile.geometry.blocks * -(-case.profile.geometry.threads // 32)


_ALL = (
    Quantity("sectors_per_load", "sectors per global load",
             "32-byte pieces of memory that one load of a warp moves; 4 hold 32 floats that lie side by side",
             lambda c: _over(c.profile.sectors("ld"), c.profile.requests("ld")), "{:.2f}"),
    Quantity("sectors_per_store", "sectors per global store",
             "32-byte pieces of memory that one store of a warp moves",
             lambda c: _over(c.profile.sectors("st"), c.profile.requests("st")), "{:.2f}"),
    Quantity("global_loads", "global loads", "loads from global memory that warps execute, in the whole launch",
             lambda c: c.profile.requests("ld")),
    Quantity("bank_conflicts", "bank conflicts",
             "extra turns of shared memory because threads of a warp need different words of one bank",
             lambda c: conflicts_of(c.profile)),
    Quantity("store_conflicts", "bank conflicts of stores", "the same, of stores and copies to shared memory",
             lambda c: _stores(c.profile)),
    Quantity("shared_bytes", "shared memory per block, bytes", "what the arrays in shared memory take",
             lambda c: _smem(c.profile), origin="compiler"),
    Quantity("shared_per_fma", "shared-memory turns per multiply-add",
             "how often a warp keeps shared memory busy for each multiply-add it executes",
             lambda c: _over(c.work.wavefronts, c.work.fma), "{:.2f}"),
    Quantity("barriers", "barriers per warp", "how often each warp executes __syncthreads()",
             lambda c: _over(c.profile.barriers, _warps(c)), "{:.2f}"),
    Quantity("async_copies", "asynchronous copies", "copies to shared memory that warps start, in the whole launch",
             lambda c: c.profile.value(REQUESTS["ldgsts"])),
    Quantity("flight", "steps that a copy is in flight",
             "of the simulator, between the start of a copy and the wait for it: what the copy overlaps with",
             lambda c: _over(c.profile.value(FLIGHT), c.profile.value(REQUESTS["ldgsts"])), "{:.1f}"),
    Quantity("blocks", "blocks", "blocks of the launch; an H200 can run hundreds at a time",
             lambda c: float(c.profile.geometry.blocks)),
    Quantity("work", "multiply-adds over M*N*K", "more than 1 means that something is computed twice",
             lambda c: _over(multiply_adds(c.profile), c.profile.problem.flops / 2), "{:.2f}"),
    Quantity("occupancy", "occupancy, %", "warps that an SM holds at a time, of the most that it can hold",
             lambda c: 100 * c.occupancy.fraction, "{:.0f}", "predicted"),
    Quantity("spilled", "spilled registers, bytes", "what did not fit into registers and goes to memory instead",
             lambda c: float(c.profile.resources.spill_loads + c.profile.resources.spill_stores), origin="compiler"),
    Quantity("share_of_peak", "predicted speed, % of fp32 peak", "by the time model of gemmsmith explain; not measured",
             lambda c: 100 * c.estimate.tflops / c.gpu.required_peak("fp32"), "{:.0f}", "predicted"),
)  # fmt: skip
QUANTITIES = {quantity.name: quantity for quantity in _ALL}


def multiply_adds(profile: Profile) -> float:
    """Multiplications that threads executed, alone or with an addition."""
    return profile.value(FFMA) + profile.value(FMUL)
