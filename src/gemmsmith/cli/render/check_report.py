"""The result of gemmsmith check: statuses, restrictions, and the verdict in one line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gemmsmith.call.launch_plan import MAP_REFUSED
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.cure.suggestion import Suggestion
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.races.hazards import EXITED
from gemmsmith.trace.kernel_names import as_written
from gemmsmith.userfile.kernels.scratch import is_never_set
from gemmsmith.userfile.kernels.span_parameters import without_accessor
from gemmsmith.verify.code.instruction_start import START
from gemmsmith.verify.code.long_indices import means_beyond
from gemmsmith.verify.host.launched_products import leaves_out, one_value_scalars
from gemmsmith.verify.leniency import tests_beta
from gemmsmith.verify.meaning.settled import Settled
from gemmsmith.verify.meaning.settled_text import formula
from gemmsmith.verify.oracles.arithmetic import precision_limit
from gemmsmith.verify.oracles.certificate import Certificate
from gemmsmith.verify.oracles.promises import takes_any
from gemmsmith.verify.trials.multiples import ANY, Multiples
from gemmsmith.verify.trials.trial import (
    CLEARED,
    DISTINCT,
    EITHER_UNREAD,
    LARGE,
    NO_K,
    ODD,
    RAGGED,
    UNREAD,
    VECTORS,
    Trial,
    matrices_of,
)
from gemmsmith.verify.verdict import Verdict, is_hazard, is_misaligned, only_clamps

_COUNT = re.compile(r"\b([\d,]+) of\b")  # threads
_VECTORS = re.compile(
    r"\b(?:ld|st)\.(?:global|volatile|relaxed|weak)[\w.:]*\.(?:v2|v4|b64|b128|u64|f64)\b|cp\.async|wmma\.|tex\."
)
_SUBTRACTS = re.compile(rf"{START}(?:sub(?:\.\w+)*\.(?:f16|bf16|f16x2|bf16x2|f32|f64)|"
                        r"neg(?:\.\w+)*\.f(?:16|32|64))\b", re.M)  # fmt: skip
LIMIT = "limit"  # of a failure that restricts the kernel, and does not make it wrong


@dataclass
class Report:
    """The result of a check; ``verdicts`` grows as trials are run.

    skipped  trials that could not be run, with the reason
    strict   what is a warning otherwise is a failure: see the option
    settled  what the kernel was found to compute
    word     the kernel as on the command line, and ``options`` what was said about it there
    hints    causes of a failure other than the kernel
    only     the one trial that was asked for; empty for all
    """

    spec: KernelSpec
    compiled: CompiledKernel
    base: Problem
    launch: dict[str, Any]
    trials: list[Trial]
    skipped: list[tuple[str, str]]
    strict: bool
    settled: Settled
    word: str
    options: list[str] = field(default_factory=list)
    verdicts: list[tuple[Trial, Verdict]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    only: str = ""
    verbose: bool = False  # faults are shown with their PTX
    square: bool = False  # only shapes with M = N are right
    ragged: Trial | None = None  # the trial of a ragged shape, also if it has no launch
    multiples: Multiples = ANY  # that M, N and K must have
    budget: float = 0.0  # seconds; 0: no trials that fit the kernel
    seconds: float = 0.0
    more: int = 0  # trials of verify --full beyond those that were planned
    unreached: tuple[str, ...] = ()  # places where one way alone is taken at every size that was looked at
    certificate: Certificate | None = None
    causes: tuple[Suggestion, ...] = ()  # each confirmed by a changed copy
    host: list[str] = field(default_factory=list)  # conditions of host code that rule trials out
    others_take: Callable[[Problem], bool] | None = None  # what host code launches other instances for, all right
    remedies: tuple[Suggestion, ...] = ()  # of limits that ``advice`` and ``remarks`` name, each tried in a copy

    @property
    def ok(self) -> bool:
        if self.strict and (self.settled.padded or self.settled.cubes or precision_limit(self.spec)):
            return False
        return all(
            v.trusted or self._is_for_others(t) or (not self.strict and self.only_warns(t, v)) for t, v in self.verdicts
        )

    def only_warns(self, trial: Trial, verdict: Verdict) -> bool:
        """Whether a failure restricts the kernel, and does not make it wrong."""
        if (
            self._subtracts_infinities(verdict)
            or only_clamps(verdict)
            or leaves_out(self.spec, self.base, trial.problem)
        ):
            return True
        if trial.label.startswith(LARGE):  # int indices are usual; who writes 64-bit ones means to go beyond 2³¹
            return not means_beyond(self.spec, trial.problem, trial.label)
        if trial.label == NO_K:  # a fault at the first k-tile, which is always loaded; or a kernel for whole k-tiles
            return verdict.faulted or self.multiples.k > 1 or _only_races(verdict)
        if trial.label == ODD and not (_VECTORS.search(self.compiled.ptx) or is_misaligned(verdict)):
            return False
        if trial.label in (ODD, RAGGED, VECTORS):  # without guards, threads write into their neighbours' rows
            return not is_hazard(verdict)
        squares = trial.label == DISTINCT and self.square and not is_hazard(verdict)
        return self._reads_c(trial) or (squares and not self._takes_any_rectangle)

    @property
    def _takes_any_rectangle(self) -> bool:
        """Whether comments say that M and N may be anything: then M = N alone is not enough."""
        signature, facts = self.spec.signature, getattr(self.spec.geometry, "facts", None)
        names = {axis: signature.named(axis) for axis in "MNK" if signature.has(axis)}
        kernel = getattr(facts, "kernel", None)
        if kernel is None or len(names) < len("MNK"):
            return False
        return {names["M"], names["N"]} <= takes_any(self.spec.code, kernel, list(names.values()))

    def _reads_c(self, trial: Trial) -> bool:
        """Whether reading C when beta = 0 is a habit: who spares C with one alpha, or asks whether beta is 0, means to
        spare it always."""
        spared = tests_beta(self.spec) or any(
            verdict.trusted for each, verdict in self.verdicts if each.label in EITHER_UNREAD
        )
        return trial.label in EITHER_UNREAD and not spared

    def _is_for_others(self, trial: Trial) -> bool:
        """Whether host code launches another instance for a trial's product, which is right."""
        takes = self.others_take
        return takes is not None and takes(trial.problem) and bool(leaves_out(self.spec, self.base, trial.problem))

    def _subtracts_infinities(self, verdict: Verdict) -> bool:
        """Whether infinities became NaN in a kernel that subtracts, as compensated sums and split operands do: such
        arithmetic is for finite numbers, and NaN tells that it was not given them."""
        alone = verdict.nan_for_inf and not (verdict.unwritten or verdict.damage or verdict.hazards or verdict.faulted)
        return alone and _SUBTRACTS.search(self.compiled.ptx) is not None

    def ruled_out(self, trial: Trial) -> bool:
        """Whether host code leaves out a trial's product by a condition, which the verdict then names."""
        found = leaves_out(self.spec, self.base, trial.problem)
        self.host = list(dict.fromkeys((*self.host, *([str(found)] if found else []))))
        return found is not None

    @property
    def failed(self) -> list[tuple[Trial, Verdict]]:
        """Trials that failed, but for what is only remarked on."""
        return [(t, v) for t, v in self.verdicts if not v.trusted and not self.is_remark(t, v)]

    def is_remark(self, trial: Trial, verdict: Verdict) -> bool:
        """Whether a failure neither makes the kernel wrong nor changes its status."""
        if self._reads_c(trial) or self._subtracts_infinities(verdict) or only_clamps(verdict):
            return True
        if self._is_for_others(trial):
            return True
        if trial.label not in (DISTINCT, RAGGED, ODD) and leaves_out(self.spec, self.base, trial.problem):
            return True
        return (trial.label == NO_K or trial.label.startswith(LARGE)) and self.only_warns(trial, verdict)

    @property
    def remarks(self) -> list[str]:
        """Limits of a kernel that is right: very large matrices, K = 0, few digits."""
        large = [t.label for t, v in self.verdicts if t.label.startswith(LARGE) and not v.trusted]
        found = []
        if large and any(self.is_remark(t, v) for t, v in self.verdicts if t.label in large):
            found.append(f"its 32-bit indices overflow beyond 2³¹ elements in {matrices_of(large)}{self._advised()}")
        empty = next((v for t, v in self.verdicts if t.label == NO_K and not v.trusted and self.is_remark(t, v)), None)
        if empty is not None and any(MAP_REFUSED in why for why in empty.reasons):
            found.append("with K = 0 there is no tensor map to encode: its host code must not launch it")
        elif empty is not None:
            found.append("with K = 0 it faults: it loads the first k-tile before it looks at K" if empty.faulted
                         else "with K = 0 there is a race, and with no other K" if _only_races(empty)
                         else "with K = 0 its result is wrong: C must become beta * C")  # fmt: skip
        if any(self._subtracts_infinities(verdict) for _, verdict in self.verdicts):
            found.append("an infinity in A, B or C gives NaN: it subtracts partial sums or parts of the operands, "
                         "which works for finite numbers only")  # fmt: skip
        if limits := [verdict.clamped for _, verdict in self.verdicts if only_clamps(verdict)]:
            found.append(f"it clamps its results to ±{limits[0]:.9g}: infinities and NaN do not come through")
        return found + [limit for limit in (precision_limit(self.spec),) if limit]

    def _advised(self) -> str:
        """What to do about indices that overflow: the change that was tried, else in general."""
        remedy = next((each for each in self.remedies if each.kind == "overflow"), None)
        return f". {remedy.advice}" if remedy is not None else ": compute them in size_t"

    @property
    def status(self) -> str:
        """right, column_major, square_only, whole_tiles, aligned_rows, racy (but right here) or wrong."""
        counted = [(trial, verdict) for trial, verdict in self.failed if not self.only_warns(trial, verdict)]
        if counted:
            return "racy" if all(_only_races(verdict) for _, verdict in counted) else "wrong"
        labels = [trial.label for trial, _ in self.failed] + [RAGGED] * bool(self.settled.padded)
        labels += [DISTINCT] * bool(self.settled.cubes)
        restricted = {DISTINCT: "square_only", RAGGED: "whole_tiles", ODD: "aligned_rows"}
        if RAGGED in labels and self._needs_vectors:
            restricted[RAGGED] = "aligned_rows"
        return next((status for label, status in restricted.items() if label in labels),
                    "column_major" if self.is_column_major else "right")  # fmt: skip

    @property
    def _needs_vectors(self) -> bool:
        """Whether rows must start on multiples of 16 bytes, and nothing else."""
        vector = max(1, 16 // self.base.dtype.itemsize)
        m, rows = self.multiples.m, (self.multiples.n, self.multiples.k)
        ragged = next((v for t, v in self.verdicts if t.label == RAGGED), None)
        some = ragged is not None and _refuses_rows(ragged) and sorted(rows) == [1, vector]  # those of one matrix
        return vector > 1 and m == 1 and (rows == (vector, vector) or some)

    @property
    def is_column_major(self) -> bool:
        return not self.spec.is_rung and self.spec.signature.column_major

    @property
    def entry(self) -> str:
        """The kernel's name as its author wrote it, with its template arguments."""
        return as_written(self.compiled.entry)

    @property
    def advice(self) -> list[Verdict]:
        """Failures that do not count: reading C when beta = 0."""
        return [v for t, v in self.verdicts if t.label == UNREAD and self._reads_c(t) and not self.strict]

    @property
    def launch_notes(self) -> list[str]:
        """What the launches did that is legal but worth knowing, each once; of notes that differ in a number of threads
        alone, the one with most."""
        found: dict[str, str] = {}
        for note in (*self._unset_output(), *(n for _, verdict in self.verdicts for n in verdict.notes)):
            alike = _COUNT.sub("N of", note, count=1) if EXITED in note else note
            if alike not in found or _first_count(note) > _first_count(found[alike]):
                found[alike] = note
        return list(found.values())

    def _unset_output(self) -> list[str]:
        """That host code never sets the C which the kernel adds to."""
        signature = self.spec.signature
        site = getattr(getattr(self.spec.geometry, "site", None), "site", None)
        place = next((i for i, arg in enumerate(signature.arguments) if arg.role == signature.output), -1)
        if not signature.accumulates or signature.has("D") or site is None or not 0 <= place < len(site.arguments):
            return []
        c, text = signature.arguments[place].name, site.arguments[place]
        if not is_never_set(text, site.frame) or any(trial.label == CLEARED for trial, _ in self.verdicts):
            return []
        cure = "make it with torch::zeros" if "data" in text else f"call cudaMemset({text}, 0, …) before the launch"
        return [f"{self.entry} adds to {c}, and the host code that launches it at {site.shown()} never sets "
                f"`{without_accessor(text)}`: {cure}"]  # fmt: skip

    @property
    def left(self) -> list[str]:
        """Trials that came after the failure, or after the budget was used up."""
        run = {trial.label for trial, _ in self.verdicts}
        return [trial.label for trial in self.trials if trial.label not in run]

    def layout_word(self) -> str:
        words = self.settled.words
        return words[words.index("--layout") + 1] if "--layout" in words else "col"

    def own(self, problem: Problem) -> str:
        """A problem as text, with the user's own M, N, lda and ldb."""
        text = str(problem)
        if not self.is_column_major:
            return text
        text = text.replace(f"{problem.m}x{problem.n}x{problem.k}", f"{problem.n}x{problem.m}x{problem.k}", 1)
        text = re.sub(r" [NT]{2}\b", "", text)
        return re.sub(r"\bld([ab])=", lambda m: f"ld{'b' if m[1] == 'a' else 'a'}=", text)

    def shape_of(self, problem: Problem) -> str:
        """'64x128x192', in the user's own M, N and K; of a batch, that of each product."""
        return self.own(problem).removeprefix(f"{problem.batch} of ").split()[0]

    def mark(self, trial: Trial, verdict: Verdict) -> str:
        """One word for a failed trial, wherever it is shown."""
        if not self.strict and self.only_warns(trial, verdict):
            return LIMIT
        return "RACE" if _only_races(verdict) else "WRONG"

    def restricted(self) -> str:
        """For what alone the kernel is right, and what happens elsewhere; empty if it is right for all or wrong."""
        found = self.restrictions()
        return f"right for {' and '.join(found)} only{self._elsewhere()}" if found else ""

    def conclusion(self) -> str:
        """The verdict in one line, and for which products host code launches the kernel, where that was respected."""
        limits = [f"{each.what} = {each.value} ({each.place})" for each in one_value_scalars(self.spec)] + self.host
        return self._verdict() + (f"; as its host code launches it: {', '.join(limits)}" if limits else "")

    def _verdict(self) -> str:
        computed = formula(self.settled.reading)
        if restricted := self.restricted():
            if computed:
                restricted = restricted.replace("right for ", f"right, as {computed}, for ", 1)
            strict = "" if self.strict else " (--strict makes this a failure)"
            return f"{self.entry} is {restricted}{strict}"
        if self.status in ("racy", "wrong"):
            trial, verdict = next(((t, v) for t, v in self.failed if not self.only_warns(t, v)), self.failed[0])
            where = f"{trial.label} ({self.own(trial.problem)})"
            if self.status == "racy":
                return f"{self.entry} races: {where}; the result was right in this run"
            what = "races, and is wrong" if _races(verdict) else "is wrong"
            alone = self.settled.only if not _races(verdict) else ""  # a race may be right anywhere, by luck
            unless = f"; it is right only when {alone}" if alone else ""
            return f"{self.entry} {what}: {where}{unless}"
        if not self.ok:
            why = self.remarks[0] if self.remarks else "it reads C when beta = 0"
            return f"{self.entry} is right, but --strict forbids this: {why}"
        kind = f", as {computed}" if computed else ""
        kind += " (column-major)" if self.status == "column_major" else ""
        if self.only:
            return f"{self.entry} passed the trial {self.only!r}{kind}; no other was run"
        passed = sum(verdict.trusted for _, verdict in self.verdicts)
        others = len(self.verdicts) - passed
        limits = f", {others} failed beyond its limits" if others else ""
        return f"{self.entry} is right{kind}: {passed} trials passed{limits}"

    def restrictions(self) -> list[str]:
        """For what alone the kernel is right; empty if it is right for all or wrong."""
        if self.status in ("right", "column_major", "racy", "wrong"):
            return []
        aligned = "rows that start on multiples of 16 bytes"
        equal = "M = N = K" if self.settled.cubes else "M = N"
        words = {DISTINCT: equal, RAGGED: aligned if self._needs_vectors else "whole tiles", ODD: aligned}
        labels = [trial.label for trial, _ in self.failed] + [DISTINCT] * bool(self.settled.cubes)
        if self.settled.padded:
            return ["operands that are padded with zeros, as its host code allocates them,"]
        return list(dict.fromkeys(text for label, text in words.items() if label in labels))

    def _elsewhere(self) -> str:
        """Which multiples are whole tiles, and what happens elsewhere."""
        verdict = next((v for t, v in self.failed if t.label == RAGGED), None)
        if verdict is None or self.status != "whole_tiles":
            return ""
        multiples = f": multiples of {self.own_multiples()}" if str(self.multiples) else ""
        if any("out-of-bounds" in reason for reason in verdict.reasons):
            return f"{multiples}; elsewhere it accesses memory outside its matrices"
        misaligned = any("misaligned" in reason for reason in verdict.reasons)
        beyond = next((v for t, v in self.failed if t.label == VECTORS), None)
        if misaligned and beyond is not None:
            outside = any("out-of-bounds" in reason for reason in beyond.reasons)
            what = "accesses memory outside its matrices" if outside else "gives a wrong result"
            return f"{multiples}; elsewhere it {what}, or its vector accesses are misaligned"
        return multiples + ("; elsewhere its vector accesses are misaligned" if misaligned else
                            "; elsewhere its result is wrong")  # fmt: skip

    def own_multiples(self) -> Multiples:
        """In the user's own M and N."""
        found = self.multiples
        return replace(found, m=found.n, n=found.m) if self.is_column_major else found

    def next_command(self) -> str:
        """What to try after a kernel that is right; empty otherwise."""
        if not self.ok or any(arg.table for arg in self.spec.signature.arguments):
            return ""
        words = ["gemmsmith", "explain", self.word]
        return shlex.join([*words, *self.options, *self.settled.words])


def _refuses_rows(verdict: Verdict) -> bool:
    """Whether rows that start anywhere end the launch: by a misaligned access or by a tensor map's strides."""
    return is_misaligned(verdict) or any(MAP_REFUSED in reason for reason in verdict.reasons)


def _first_count(note: str) -> int:
    match = _COUNT.search(note)
    return int(match[1].replace(",", "")) if match is not None else 0


def _only_races(verdict: Verdict) -> bool:
    """Whether nothing but the order of accesses is wrong: the result is right in the order of this run."""
    return _races(verdict) and not (verdict.wrong or verdict.unwritten or verdict.damage)


def _races(verdict: Verdict) -> bool:
    return bool(verdict.hazards) or any(" race on " in reason for reason in verdict.reasons)
