"""Dataclasses as JSON: every bit comes back, and nothing but the declared types is made."""

from __future__ import annotations

import json
import math
import typing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.cluster.codec import CodecError, decode, encode
from gemmsmith.cluster.task import Node, Task, TaskResult
from gemmsmith.problem import BF16, FP64, Problem
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Machine, Run


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Everything:
    number: float
    many: tuple[tuple[str, float], ...]
    pair: tuple[int, str]
    either: int | str | None
    data: bytes
    array: NDArray[np.int32]
    kind: Colour
    names: dict[int, list[str]]
    path: Path
    problem: Problem | None


def sent(value: Any) -> Any:
    return json.loads(json.dumps(encode(value), allow_nan=False))


def test_every_bit_comes_back() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    problem = Problem(3, 4, 5, dtype=BF16, alpha=0.1, beta=-0.0)
    value = Everything(math.nan, (("a", -math.inf), ("b", 1 / 3)), (1, "x"), "text", b"\0\xff", array, Colour.RED,
                       {1: ["a"]}, Path("a/b"), problem)  # fmt: skip
    found = decode(Everything, sent(value))
    assert repr(found) == repr(value)
    assert (found.array == array).all()
    assert found.array.dtype == array.dtype
    assert math.copysign(1, found.problem.beta) == -1 if found.problem else False


def test_recorded_runs_and_types_without_a_name_on_the_command_line() -> None:
    for run in recorded_runs():
        assert repr(decode(Run, sent(run))) == repr(run)
    assert decode(Problem, sent(Problem(1, 1, 1, dtype=FP64, out_dtype=FP64))).dtype is FP64


def test_an_alias_of_newer_python_is_read_as_what_it_stands_for() -> None:
    class TypeAliasType:
        __value__ = tuple[int, ...]

    assert decode(typing.cast(Any, TypeAliasType()), [1, 2]) == (1, 2)


@pytest.mark.parametrize(
    ("kind", "data"),
    [(Problem, {"m": 1}), (Problem, {"m": "1", "n": 1, "k": 1}), (int, True), (Machine, {"nonsense": 1}),
     (tuple[int, int], [1]), (Colour, "blue"), (bytes, "no base64!"), (object, {}), (float, "1.0")],
)  # fmt: skip
def test_anything_else_is_refused(kind: Any, data: Any) -> None:
    with pytest.raises(CodecError):
        decode(kind, data)


def test_what_has_no_json_is_refused() -> None:
    with pytest.raises(CodecError, match="a function cannot be sent"):
        encode({"f": test_what_has_no_json_is_refused})


def test_a_digest_covers_what_determines_the_result() -> None:
    task = Task("verify", {"a": 1}, "label")
    assert task.digest == Task("verify", {"a": 1}, "another label", limit=3, context={"known": ["x"]}).digest
    others = [Task("check", {"a": 1}, ""), Task("verify", {"a": 2}, ""), Task("verify", {"a": 1}, "", sources="x"),
              Task("verify", {"a": 1}, "", gpu="H200")]  # fmt: skip
    assert len({task.digest, *(other.digest for other in others)}) == 5


def test_a_result_crosses_as_bytes() -> None:
    node = Node("n1", Machine("h", "s", "c", "p", gpu="NVIDIA H200", driver="580"), 1980.0)
    result = TaskResult("d", "done", {"x": [1, None]}, None, node, 0.25, "log", 2)
    assert TaskResult.from_bytes(result.to_bytes()) == result
