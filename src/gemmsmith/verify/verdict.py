"""The verdict on one launch: right or wrong, by how much, where, why, and how to reproduce it."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

import numpy as np

from gemmsmith.call.launch_plan import MAP_REFUSED
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.notebook_html import card, listing, paragraph, preformatted
from gemmsmith.problem import FP32, Problem
from gemmsmith.run.memory import Damage
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED
from gemmsmith.sim.races.hazards import Hazard
from gemmsmith.verify.faults.excerpt import excerpt
from gemmsmith.verify.faults.fault_report import FaultReport

_MOST = 3  # faults that a notebook shows
Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True)
class Verdict:
    """The result of verifying one launch. ``ok`` is computed from the other fields.

    rho, gate    the worst error ratio and the largest accepted one (see bounds.py); gate 0 means "equal"
    theory       the textbook bound on rho, for comparison
    where        the worst element (row, column), with its computed (``got``) and ``expected`` value
    unwritten    the number of outputs that the kernel never wrote
    mistrusted   no error was found, but over half of the output is unexpectedly zero
    reasons      what is wrong, or the device's error message if the launch failed
    damage       memory that changed but should not have
    repeat       a command line that reproduces this case
    faults       faults and races of the launch as their author reads them; the first ``told`` reasons say the same
    notes        what the launch did that is legal but worth knowing
    faulted      the launch ended with an error of the device, so that there is no result
    hazards      the races among the reasons
    nan_for_inf  every wrong output is NaN where an infinity is expected
    clamped      every wrong output is this or its negative where an infinity, a NaN or a larger number is expected
    """

    kernel: str
    config: str
    problem: Problem
    device: str
    mode: str
    fill: str
    seed: int
    rho: float
    gate: float
    theory: float
    where: tuple[int, int] | None
    got: float | None
    expected: float | None
    unwritten: int
    wrong: int
    total: int
    mistrusted: bool
    reasons: tuple[str, ...]
    damage: tuple[Damage, ...]
    repeat: str
    faults: tuple[FaultReport, ...] = ()
    told: int = 0
    notes: tuple[str, ...] = ()
    faulted: bool = False
    hazards: tuple[Hazard, ...] = ()
    nan_for_inf: bool = False
    clamped: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. A NaN ratio fails, since NaN <= gate is false."""
        return (
            not self.reasons and not self.damage and self.unwritten == 0 and self.wrong == 0 and self.rho <= self.gate
        )

    @property
    def trusted(self) -> bool:
        """Whether the result is right and plausible."""
        return self.ok and not self.mistrusted

    @property
    def head(self) -> str:
        """What was launched, and whether it is right."""
        state = "ok" if self.trusted else "MISTRUSTED" if self.ok else "WRONG"
        return f"{state}: {self.kernel} {self.problem} ({self.mode}, {self.fill}, seed {self.seed}) on {self.device}"

    def __str__(self) -> str:
        if self.trusted:
            return f"{self.head}, rho {self.rho:.2f} of {self.gate:g} (theory {self.theory:.0f})"
        lines = [self.head]
        for fault in self.faults:
            lines += [f"{fault.rule}: {fault.title}", *excerpt(fault)]
        return "\n  ".join([*lines, *self.other_lines(), f"repeat: {self.repeat}"])

    def _repr_html_(self) -> str:
        """Its form in a notebook."""
        if self.trusted:
            said = f"rho {self.rho:.2f} of {self.gate:g} (theory {self.theory:.0f})"
            return card(self.head, [paragraph(said, small=True), listing(self.notes)], good=True)
        texts = ["\n".join((f"{fault.rule}: {fault.title}", *excerpt(fault))) for fault in self.faults[:_MOST]]
        shown = [preformatted(text) for text in texts]
        more = [f"{len(self.faults) - _MOST} more faults"] if len(self.faults) > _MOST else []
        again = paragraph(f"repeat: {self.repeat}", small=True) if self.repeat else ""
        only_races = self.hazards and not (self.wrong or self.unwritten or self.damage)
        head = self.head.replace("WRONG:", "RACE:", 1) if only_races else self.head
        return card(head, [*shown, listing([*more, *self.other_lines()]), again], good=False)

    def other_lines(self) -> list[str]:
        """What is wrong besides faults, line by line."""
        lines = [*self.reasons[self.told :], *map(str, self.damage)]
        if self.mistrusted:
            lines.append("more than half of the output is zero, which is not expected")
        return lines

    def to_json(self) -> dict[str, Plain]:
        """The verdict as JSON types; NaN and infinities become the strings 'nan', 'inf' and '-inf'."""
        problem = self.problem
        shape: dict[str, Plain] = {
            "m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype.name, "layout": problem.layout,
            "alpha": _plain(problem.alpha), "beta": _plain(problem.beta),
            "lda": problem.lda, "ldb": problem.ldb, "ldc": problem.ldc, "out_dtype": problem.out_dtype.name,
            "batch": problem.batch, "bias": problem.bias, "activation": problem.activation,
        }  # fmt: skip
        damage: list[Plain] = [
            {"matrix": d.matrix, "region": d.region, "first": d.first, "count": d.count, "text": str(d)}
            for d in self.damage
        ]
        return {
            "ok": self.ok, "mistrusted": self.mistrusted, "kernel": self.kernel, "config": self.config,
            "problem": shape, "device": self.device, "mode": self.mode, "fill": self.fill, "seed": self.seed,
            "rho": _plain(self.rho), "gate": _plain(self.gate), "theory": _plain(self.theory),
            "where": list(self.where) if self.where is not None else None,
            "got": _plain(self.got), "expected": _plain(self.expected),
            "unwritten": self.unwritten, "wrong": self.wrong, "total": self.total,
            "reasons": list(self.reasons), "damage": damage, "repeat": self.repeat,
            "faults": [fault.to_json() for fault in self.faults], "told": self.told, "notes": list(self.notes),
        }  # fmt: skip


def _plain(value: float | None) -> Plain:
    return value if value is None or math.isfinite(value) else str(value)


def is_misaligned(verdict: Verdict) -> bool:
    """Whether the launch ended at an access of several elements at once that does not start on a multiple of them."""
    return any("misaligned" in reason for reason in verdict.reasons)


def only_clamps(verdict: Verdict) -> bool:
    """Whether all that is wrong is infinities, NaN and larger numbers, which the kernel clamps to finite ones."""
    return verdict.clamped > 0 and not (verdict.unwritten or verdict.damage or verdict.hazards or verdict.faulted)


def is_hazard(verdict: Verdict) -> bool:
    """Whether threads hinder one another, whatever the extents are: a barrier that not all reach, a shuffle from
    a lane that takes no part, a race in shared memory. In global memory, threads without guards write into their
    neighbours' rows."""
    rules = {fault.rule for fault in verdict.faults}
    races = any(" race on " in reason and "race on global" not in reason for reason in verdict.reasons)
    return bool(rules & {"divergent-barrier", "warp"}) or races


def refuses_extent(verdict: Verdict) -> bool:
    """Whether the launch shows that an extent must be a multiple of something: by its alignment, an assert, or a tensor
    map that the driver does not encode."""
    told = (ASSERTION_FAILED, MAP_REFUSED)
    return is_misaligned(verdict) or any(words in reason for reason in verdict.reasons for words in told)


def repeat_command(
    spec: KernelSpec,
    config: Config,
    problem: Problem,
    fill: str,
    seed: int,
    offsets: tuple[int, int, int],
    mode: str,
    launch: tuple[str, ...] = (),
) -> str:
    """A command line that reproduces this case; defaults are left out.

    ``launch`` holds further options that neither spec nor problem contains: ``--grid`` of a user's file (a spec has it
    as a function), the device, the order of warps, and how C is filled.
    """
    words = ["gemmsmith", "run", spec.name if spec.is_rung else str(spec.source)]
    if not spec.is_rung:
        words += ["--entry", spec.entry, *(f"-D{name}={value}" for name, value in spec.extra_defines)]
        words += ["--signature", spec.declared_signature] if spec.declared_signature else []
    defaults = {p.name: p.default for p in spec.parameters}
    words += [f"-D{name}={value}" for name, value in config if defaults.get(name) != value]
    swapped = not spec.is_rung and spec.signature.column_major  # the user's own M and N
    m, n = (problem.n, problem.m) if swapped else (problem.m, problem.n)
    words += ["--m", str(m), "--n", str(n), "--k", str(problem.k), "--seed", str(seed)]
    for name, scalar, default in (("alpha", problem.alpha, 1.0), ("beta", problem.beta, 0.0)):
        if scalar != default or math.copysign(1.0, scalar) < 0:
            # The shortest text of the same fp32 number; '=' because it may start with a minus sign.
            words.append(f"--{name}={np.float32(scalar)!s}")
    tight = problem.with_()
    for name in ("lda", "ldb", "ldc"):
        if getattr(problem, name) != getattr(tight, name):
            own = {"lda": "ldb", "ldb": "lda"}.get(name, name) if swapped else name
            words += [f"--{own}", str(getattr(problem, name))]
    if problem.dtype != spec.dtypes[0]:
        words += ["--dtype", problem.dtype.name]
    if problem.out_dtype != FP32 and problem.out_dtype != spec.out_dtypes[0]:
        words += ["--out-dtype", problem.out_dtype.name]
    if problem.batch != 1:
        words += ["--batch", str(problem.batch)]
        shared = [name for name, copies in zip("ab", problem.copies, strict=False) if copies < problem.batch]
        words += [f"--share-{name}" for name in shared]
    words += ["--bias", problem.bias] if problem.bias else []
    words += ["--activation", problem.activation] if problem.activation else []
    if problem.layout != spec.layouts[0] or spec.is_rung:
        words += ["--trans-a"] * problem.trans_a + ["--trans-b"] * problem.trans_b
    if offsets != (0, 0, 0):
        words += ["--offsets", ",".join(map(str, offsets))]
    words += ["--fill", fill] if fill != "normal" else []
    words += ["--mode", mode] if mode != "float" else []
    return shlex.join([*words, *launch])
