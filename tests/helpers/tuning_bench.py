"""A fake GPU with candidates of known times, for the tests of tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_bench import FakeContender, FakeGpu
from fake_hopper import CLUSTER, H200

from gemmsmith.bench.limits import Limits
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.table import Entry
from gemmsmith.choose.tuning_file import History, TuningFile
from gemmsmith.problem import BF16, Problem
from gemmsmith.run.contender import Contender
from gemmsmith.tune.plan import Tuned, TuningPlan, Workshop
from gemmsmith.tune.tuning import tune

PROBLEM = Problem(64, 48, 32, BF16)
OTHER = PROBLEM.with_(m=40)


def _candidate(width: int) -> Candidate:
    return Candidate(CLUSTER, CLUSTER.config({"BM": 64, "CONSUMERS": 1, "BN": width}), 1e-3 * width)


def _candidates(count: int) -> list[Candidate]:
    return [_candidate(8 * i) for i in range(1, count + 1)]


@dataclass
class Bench:
    """A fake GPU with candidates by tile width: BN=8·i takes i ms unless ``facts`` says otherwise."""

    path: Path
    gpu: FakeGpu = field(default_factory=FakeGpu)
    count: int = 10
    near: dict[int, list[int]] = field(default_factory=dict)
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    uncompilable: dict[int, str] = field(default_factory=dict)
    unready: set[int] = field(default_factory=set)
    baseline: bool = True
    used: int = 0  # the tile width that calls use now; 0 where that is not known
    version: str = "1"
    entered: list[int] = field(default_factory=list)
    compiled: list[int] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)
    contenders: list[FakeContender] = field(default_factory=list)

    @property
    def file(self) -> TuningFile:
        return TuningFile(self.path)

    @property
    def history(self) -> History:
        return self.file.history(H200)

    def run(self, *problems: Problem, limits: Limits | None = None, **plan: Any) -> list[Tuned]:
        self.entered, self.compiled = [], []
        shop = Workshop(H200, self.gpu.rig(limits), self._ranked, self._near, self._digest, self._begin,
                        self._compile, self._contender, self._baseline,
                        lambda _, candidate: candidate.config["BN"] not in self.unready,
                        lambda _: _candidate(self.used) if self.used else None)  # fmt: skip
        return list(tune(problems or (PROBLEM,), shop, self.file, TuningPlan(**plan)))

    def _ranked(self, _problem: Problem) -> Sequence[Candidate]:
        return _candidates(self.count)

    def _near(self, _problem: Problem, best: Candidate) -> Sequence[Candidate]:
        return [_candidate(width) for width in self.near.get(best.config["BN"], [])]

    def _digest(self, candidate: Candidate, problem: Problem) -> str:
        return f"{candidate.config} {problem.dtype} {self.version}"

    def _begin(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        self.begun.append((problem.m, len(candidates)))

    def _compile(self, _problem: Problem, candidates: Sequence[Candidate]) -> Mapping[tuple[str, str], str]:
        self.compiled += [c.config["BN"] for c in candidates]
        return {c.name: self.uncompilable[c.config["BN"]] for c in candidates if c.config["BN"] in self.uncompilable}

    def _contender(self, candidate: Candidate) -> Contender:
        width = candidate.config["BN"]
        self.entered.append(width)
        facts = {"seconds": width / 8 * 1e-3, "precision": "bf16", **self.facts.get(width, {})}
        if before := facts.pop("before", None):
            before()
        self.contenders.append(self.gpu.contender(f"BN={width}", **facts))
        return self.contenders[-1]

    def _baseline(self) -> FakeContender | None:
        return self.gpu.contender("cublas", 2e-3, kind="baseline", precision="bf16") if self.baseline else None


def width(entry: Entry | None) -> int:
    assert entry is not None
    return dict(entry.config)["BN"]


def killed() -> None:
    raise SystemExit  # ends the process without a chance to store anything, as far as the file can tell


def zero(c: Any, _launch: int) -> None:
    c[...] = 0
