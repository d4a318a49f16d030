"""A mutant is a rung with a deliberate error, and a statement of how that error must be detected.

A mutant is a textual edit of a rung's source or of a header. An edit states how often its text occurs: if a later
change of the kernel removes the text, the edit fails instead of silently doing nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ptx_only import compile_to_ptx, copy_kernel, find_file

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import DTYPES, Problem
from gemmsmith.prologue.split_fp16 import split_fp16_prologue
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

ARCH = "sm_90"

# Detectors, and the words that a verdict's reason contains when one has found something.
DETECTORS = {
    "race": " race on shared address",
    "ended block": "access-of-ended-block of shared memory",
    "uninitialised shared": "uninitialised shared read",
    "uninitialised local": "uninitialised local read",
    "out-of-bounds": "out-of-bounds ",
    "misaligned": "misaligned ",
    "divergent barrier": "divergent barrier",
    "forbidden read": "forbidden global ",
    "launch before": "before-griddepcontrol-wait of global memory",
    "damage": "overwritten",
    "changed input": "an input was changed",
    "unwritten": "were never written",
    "wrong result": " outputs wrong",
}


@dataclass(frozen=True)
class Edit:
    """Replaces ``old`` by ``new`` in one file. ``old`` must occur ``times`` times; ``only`` selects one of them.

    ``file`` is the name of the rung's source or of a header, without its folder.
    """

    file: str
    old: str
    new: str
    times: int = 1
    only: int | None = None

    def apply(self, text: str) -> str:
        found = text.count(self.old)
        if found != self.times:
            raise AssertionError(f"{self.file}: {self.old!r} occurs {found} times, not {self.times}: update the mutant")
        if self.only is None:
            return text.replace(self.old, self.new)
        parts = text.split(self.old)
        head, tail = self.old.join(parts[: self.only + 1]), self.old.join(parts[self.only + 1 :])
        return head + self.new + tail


@dataclass(frozen=True)
class Trial:
    """One launch: the problem, the data, how the result is checked, and the order of warps."""

    shape: tuple[int, int, int]
    alpha: float = 1.0
    beta: float = 0.0
    padding: tuple[int, int, int] = (0, 0, 0)
    offsets: tuple[int, int, int] = (0, 0, 0)
    mode: str = "float"
    fill: str | None = None
    schedule: str = "lockstep"
    dtype: str = ""  # the rung's first, if empty
    out_dtype: str = "fp32"
    layout: str = "NN"
    batch: int = 1
    bias: str = ""
    activation: str = ""

    def problem(self, spec: KernelSpec) -> Problem:
        tight = Problem(
            *self.shape, DTYPES[self.dtype] if self.dtype else spec.dtypes[0], DTYPES[self.out_dtype], self.alpha,
            self.beta, trans_a=self.layout[0] == "T", trans_b=self.layout[1] == "T", batch=self.batch, bias=self.bias,
            activation=self.activation,
        )  # fmt: skip
        lda, ldb, ldc = (ld + more for ld, more in zip((tight.lda, tight.ldb, tight.ldc), self.padding, strict=True))
        return tight.with_(lda=lda, ldb=ldb, ldc=ldc)

    def __str__(self) -> str:
        text = "x".join(map(str, self.shape))
        text += f" alpha={self.alpha:g}" if self.alpha != 1 else ""
        text += f" beta={self.beta:g}" if self.beta != 0 else ""
        text += f" padding={self.padding}" if any(self.padding) else ""
        text += f" offsets={self.offsets}" if any(self.offsets) else ""
        text += f" {self.mode}" if self.mode != "float" else ""
        text += f" {self.fill}" if self.fill else ""
        for word, plain in ((self.dtype, ""), (self.out_dtype, "fp32"), (self.layout, "NN"), (self.bias, ""),
                            (self.activation, "")):  # fmt: skip
            text += f" {word}" if word != plain else ""
        text += f" batch={self.batch}" if self.batch != 1 else ""
        return text + (f" {self.schedule}" if self.schedule != "lockstep" else "")


@dataclass(frozen=True)
class Mutant:
    """An error, where it is made, and what must detect it.

    words      what the verdict says besides the detector's own words
    lines      (file, text) pairs: the verdict names the file and the line that contains the text
    sanitizer  the compute-sanitizer tool that could detect it on a GPU, in matrices allocated without guards
    """

    name: str
    rung: str
    what: str
    edits: tuple[Edit, ...]
    trial: Trial
    detector: str
    words: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    sanitizer: str = ""
    config: dict[str, int] = field(default_factory=dict)
    launch: Callable[[Geometry], Geometry] | None = None

    @property
    def original(self) -> KernelSpec:
        spec = rung_named(self.rung)
        if spec.arithmetic != "fp16x3":
            return spec
        other = rung_named("fp32_tensor_bf16x6")  # the fallback, which must be cheap to simulate as well
        return replace(spec, prologue=split_fp16_prologue(other, other.small_config()))

    @property
    def chosen(self) -> Config:
        return self.original.config({**dict(self.original.small), **self.config})

    def write(self, folder: Path) -> KernelSpec:
        """The mutated rung: a copy of its source and of all headers in ``folder``, edited."""
        spec = copy_kernel(self.original, folder)
        for edit in self.edits:
            path = find_file(folder, edit.file)
            path.write_text(edit.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
        if self.launch is None:
            return spec
        change, geometry = self.launch, spec.geometry
        return replace(spec, geometry=lambda problem, config: change(geometry(problem, config)))

    def missing(self, said: str, folder: Path) -> list[str]:
        """The expected words, files and lines that ``said`` does not contain, for the mutant in ``folder``."""
        words = [w for w in (DETECTORS[self.detector], *self.words) if w not in said]
        places = [(file, _lines(find_file(folder, file), text)) for file, text in self.lines]
        return words + [f"{file}:{lines[0]}" for file, lines in places if not any(
            re.search(re.escape(f"{file}:{line}") + r"(?!\d)", said) for line in lines)]  # fmt: skip


def _lines(path: Path, text: str) -> range:
    """The lines of the statement that has ``text`` in the first: NVRTC 13.0 names the last, later ones the first."""
    written = path.read_text(encoding="utf-8").splitlines()
    found = [n for n, line in enumerate(written, 1) if text in line]
    assert len(found) == 1, f"{path.name}: {text!r} is on lines {found}, not on one: update the mutant"
    last = next(n for n in range(found[0], len(written) + 1) if re.search(r"[;{}]\s*(//.*)?$", written[n - 1]))
    return range(found[0], last + 1)


def judge(spec: KernelSpec, config: Config, trial: Trial) -> Verdict:
    """The verdict on one launch, with the race detector on; compiled to PTX only, which is what the simulator runs."""
    device = SimDevice(ARCH, schedule_named(trial.schedule), hazards=True)
    return verify_launch(device, spec, config, trial.problem(spec), compile_fn=compile_to_ptx, fill=trial.fill,
                         offsets=trial.offsets, mode=trial.mode)  # fmt: skip


def words_of(verdict: Verdict) -> str:
    """All reasons and damage that a verdict reports."""
    return "\n".join([*verdict.reasons, *map(str, verdict.damage)])
