"""A check of a few seconds before a kernel's speed is spoken of: one shape of whole tiles, its result and its races.

``explain`` and ``compare`` predict how fast a kernel is. A kernel that is wrong or that races is not praised, and one
that was not checked is called so. ``gemmsmith check`` tests far more.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from gemmsmith.call.binding import CompileFn, aligned_code
from gemmsmith.call.launch import Launch
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import layout_named
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.faults.fault_report import FaultReport
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.launch_check import check_launch
from gemmsmith.verify.meaning.product_evidence import doubt
from gemmsmith.verify.meaning.settle import settle
from gemmsmith.verify.oracles.arithmetic import as_compiled
from gemmsmith.verify.trials.check_shapes import check_shapes, sampled_blocks
from gemmsmith.verify.verdict import Verdict

RIGHT, WRONG, RACY, UNCHECKED = "right", "wrong", "racy", "not checked"
BUDGET = 8.0  # seconds of simulation; then the kernel is called not checked
_ENDLESS = "did not end"
_UNTIL = "gemmsmith check shows where; until it is mended, its time means nothing."


@dataclass(frozen=True)
class QuickCheck:
    """``state`` is right, wrong, racy or not checked; ``said`` is why, or what was tried."""

    state: str
    said: str

    @property
    def ok(self) -> bool:
        return self.state == RIGHT

    def sentence(self, name: str) -> str:
        """What a reader must know before any prediction."""
        match self.state:
            case "right":
                return f"{name} was checked on {self.said} alone: right, and no race. gemmsmith check tests more."
            case "wrong":
                return f"{name} is WRONG: {self.said} {_UNTIL}"
            case "racy":
                return f"{name} RACES: {self.said} {_UNTIL}"
        return f"{name} was NOT CHECKED: {self.said} Whether it is right is not known: gemmsmith check tells."


def quick_check(
    spec: KernelSpec, config: Config, compile_fn: CompileFn, arch: str, layout: str = "", budget: float = BUDGET
) -> QuickCheck:
    """Run a user's kernel once on whole tiles, and compare its result; look for races."""
    end = time.thread_time() + budget
    try:
        return _checked(spec, config, compile_fn, arch, layout, end)
    except GemmsmithError as error:
        return QuickCheck(UNCHECKED, _first(error.message))


def quick_launch_check(launch: Launch, arch: str, cache: CompileCache | None = None) -> QuickCheck:
    """The same for a launch of any kernel: its given data in one order of warps."""
    try:
        found = check_launch(launch, "sim", arch=arch, timeout=BUDGET, cache=cache, most=1)
    except GemmsmithError as error:
        return QuickCheck(UNCHECKED, _first(error.message))
    (outcome,) = found.outcomes
    if outcome.hazards:
        return QuickCheck(RACY, _first_fault(outcome.faults) or _first(str(outcome.hazards[0])))
    if outcome.reasons and _ENDLESS in outcome.reasons[0]:
        return QuickCheck(UNCHECKED, f"it took the simulator longer than {BUDGET:g} s.")
    if outcome.reasons:
        return QuickCheck(WRONG, _first(outcome.reasons[0]))
    if not found.compared:
        return QuickCheck(UNCHECKED, "it does not race, but no --expect says what its result should be.")
    return QuickCheck(RIGHT, "the given data")


def _checked(spec: KernelSpec, config: Config, compile_fn: CompileFn, arch: str, layout: str, end: float) -> QuickCheck:
    shapes = check_shapes(spec, config)
    blocks = sampled_blocks(spec, config, shapes.base)
    compiled = compile_fn(spec, *aligned_code(spec, config, spec.problem(*shapes.base)), arch)
    spec = as_compiled(spec, compiled.ptx)

    def device(hazards: bool = False) -> SimDevice:
        return SimDevice(arch, hazards=hazards, timeout=max(0.1, end - time.thread_time()))

    def same(*_: object) -> CompiledKernel:
        return compiled

    probes = [shape for shape in shapes.probes if not spec.signature.fixed or shape == shapes.base]
    wanted = layout_named(layout) if layout else None
    settled = settle(device, spec, config, probes or [shapes.base], compiled, wanted, blocks)
    problem = settled.spec.problem(*(settled.shape or shapes.base))
    verdict = verify_launch(device(hazards=True), settled.spec, config, problem, compile_fn=same, fill="normal",
                            mode="float", c="zero" if settled.spec.signature.accumulates else "set",
                            blocks=blocks)  # fmt: skip
    if verdict.trusted:
        return QuickCheck(RIGHT, str(problem))
    return _failed(verdict, doubt(settled.spec, compiled.ptx, verdict) if settled.reading is None else "")


def _failed(verdict: Verdict, why_no_product: str) -> QuickCheck:
    reasons = [*verdict.reasons, *map(str, verdict.damage)]
    said = _first(reasons[0]) if reasons else f"{verdict.wrong:,} of {verdict.total:,} outputs of {verdict.problem}."
    told = _first_fault(verdict.faults) or said
    if why_no_product:
        return QuickCheck(UNCHECKED, _first(f"it may be no matrix product ({why_no_product})"))
    if _ENDLESS in said:
        return QuickCheck(UNCHECKED, _first(f"{verdict.problem} took the simulator longer than {BUDGET:g} s"))
    if "race" in said and not verdict.wrong and not verdict.unwritten:
        return QuickCheck(RACY, told)
    return QuickCheck(WRONG, told)


def _first_fault(faults: tuple[FaultReport, ...]) -> str:
    """The first fault by the source's own names, with its line; empty where there is none."""
    for fault in faults:
        line = next((f" ({mark.file.rpartition('/')[2]}:{mark.line})" for mark in fault.marks), "")
        return _first(f"{fault.title}{line}")
    return ""


def _first(text: str) -> str:
    """The first line as a sentence."""
    line = re.sub(r"^\w+Error: ", "", text.splitlines()[0].rstrip()) if text else ""
    return line if line.endswith((".", "!", "?")) else f"{line}."
