"""Claims of the worklogs, and the evidence on each: commands of ours, arithmetic, records."""

from __future__ import annotations

import ast
import json
import operator
import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.errors import UsageError
from gemmsmith.gpus import gpu_named
from gemmsmith.store.published import published

_NEAR = 0.005  # relative: figures are given with three or four digits
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
KERNELS = files("gemmsmith").joinpath("learn", "worklogs", "kernels")


@dataclass(frozen=True)
class Command:
    """A command of ours; ``shows`` are regular expressions that its output must have, ``lacks`` those that it must not.

    The output is compared with all white space as single blanks.
    """

    run: str
    why: str
    exit: int
    shows: tuple[str, ...]
    lacks: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return shlex.split(self.run)[1:]

    def missing(self, exit_code: int, output: str) -> str:
        """What the output lacks; empty if it shows what it should."""
        if exit_code != self.exit:
            return f"exit code {exit_code}, not {self.exit}"
        plain = " ".join(output.split())
        wrong = [f"no {text!r}" for text in self.shows if not re.search(text, plain)]
        wrong += [f"{text!r}, which should not be there" for text in self.lacks if re.search(text, plain)]
        return wrong[0] if wrong else ""

    def lines(self, output: str) -> list[str]:
        """The parts of the output that show it."""
        plain = " ".join(output.split())
        found = (re.search(text, plain) for text in self.shows)
        return [match[0] for match in found if match]


@dataclass(frozen=True)
class Sum:
    """Arithmetic on published figures, data sheets and records; ``words`` say what the result is, ``about`` how large.

    In both, {peak:GPU}, {published:WORKLOG/KERNEL/SIZE} and {h200:KEY/KEY/…} stand for figures.
    """

    text: str
    words: str
    about: float

    @property
    def filled(self) -> str:
        """The text with its figures."""
        return _filled(self.text)

    @property
    def meaning(self) -> str:
        return _filled(self.words)

    @property
    def sentence(self) -> str:
        """The arithmetic and its result; of a single figure, the figure."""
        shown = f"{self.value:,.4g}"
        text = self.filled
        return f"{shown} {self.meaning}" if re.fullmatch(r"[\d.]+", text) else f"{text} = {shown} {self.meaning}"

    @property
    def origins(self) -> tuple[str, ...]:
        """Where the figures come from: 'data sheet', 'published', 'recorded'; empty where the worklog gives all."""
        known = {"peak": "data sheet", "published": "published", "h200": "recorded"}
        return tuple(dict.fromkeys(known[kind] for kind in re.findall(r"\{(\w+):", self.text)))

    @property
    def value(self) -> float:
        return _evaluated(ast.parse(self.filled, mode="eval").body)

    @property
    def holds(self) -> bool:
        return abs(self.value - self.about) <= _NEAR * abs(self.about)


@dataclass(frozen=True)
class Claim:
    """``says`` is what the worklog says, ``found`` what holds, ``theirs`` the command for the author's own kernel."""

    name: str
    worklog: str
    title: str
    says: str
    found: str
    lesson: str
    files: tuple[str, ...]
    theirs: str
    commands: tuple[Command, ...]
    sums: tuple[Sum, ...]


@cache
def h200_record() -> dict[str, Any]:
    """What was measured on an H200 for the claims; benchmarks/update_docs.py writes it."""
    text = files("gemmsmith").joinpath("learn", "worklogs", "data", "h200.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def h200_origin() -> str:
    """Where, when and by what the figures of an H200 were recorded."""
    made = h200_record()
    return f"{made['gpu']}, driver {made['driver']}, {made['compiler']}, {made['date'][:10]}, by {made['command']}"


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file."""
    text = files("gemmsmith").joinpath("learn", "worklogs", "claims.toml").read_text(encoding="utf-8")
    return tuple(_claim(data) for data in tomllib.loads(text)["claim"])


def claim_named(name: str) -> Claim:
    wanted = name.lower().replace("_", "-")
    for claim in claims():
        if claim.name == wanted:
            return claim
    known = ", ".join(claim.name for claim in claims())
    raise UsageError(f"there is no claim called {name[:40]!r}", f"the claims: {known}")


def _claim(data: dict[str, object]) -> Claim:
    text = {name: str(data[name]) for name in ("name", "worklog", "title", "says", "found", "lesson", "theirs")}
    given = data["evidence"]
    assert isinstance(given, list)
    commands = tuple(Command(one["run"], one["why"], one["exit"], tuple(one["shows"]), tuple(one.get("lacks", ())))
                     for one in given if "run" in one)  # fmt: skip
    sums = tuple(Sum(one["sum"], one["is"], one["about"]) for one in given if "sum" in one)
    names = data.get("files", [])
    assert isinstance(names, list)
    return Claim(**text, files=tuple(names), commands=commands, sums=sums)


def _filled(text: str) -> str:
    return re.sub(r"\{(\w+):([^}]+)\}", lambda found: _figure(found[1], found[2]), text)


def _figure(kind: str, words: str) -> str:
    """A peak of a data sheet in TFLOPS; a published figure: worklog/kernel/size; one recorded on an H200: its keys."""
    if kind == "peak":
        return f"{gpu_named(words).required_peak('fp32'):g}"
    if kind == "h200":
        found_there: Any = h200_record()
        for key in words.split("/"):
            found_there = found_there[key]
        return f"{found_there:.10g}"
    source, kernel, size = words.split("/")
    found = next(p for p in published() if (p.source, p.kernel, str(p.size)) == (source, kernel, size))
    return f"{found.tflops:g}"


def _evaluated(node: ast.expr) -> float:
    """Numbers and + - * / ** only."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError(ast.unparse(node))
