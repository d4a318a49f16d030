"""The special function unit against an H200: samples of every exponent, and checksums of whole sweeps.

tests/data/special_functions.npz has 16 operands for each sign and exponent with the recorded results, and CRC-32 sums
of results over whole octaves (2²³ operands each, of which every 61st is checked here).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_launch import Array

from gemmsmith.sim.arithmetic import approximations, halves, sfu

FILE = Path(__file__).parents[1] / "data" / "special_functions.npz"
FUNCTIONS = ("rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos", "tanh")


@cache
def recorded() -> dict[str, Array]:
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


@cache
def about() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(recorded()["about"].tobytes())
    return found


def function(name: str) -> Callable[[Array], Array]:
    return approximations.approximate32(name, ftz=name != "tanh")


def crc(values: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples_of_every_exponent(name: str) -> None:
    x = recorded()["x"].view(np.float32)
    assert x.size == 512 * 16
    with np.errstate(all="ignore"):
        found = function(name)(x).view(np.uint32)
    wrong = np.flatnonzero(found != recorded()[name])
    assert [(hex(x.view(np.uint32)[i]), hex(found[i]), hex(recorded()[name][i])) for i in wrong[:5]] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_checksums_of_whole_octaves(name: str) -> None:
    sweeps = [sweep for sweep in about()["sweeps"] if sweep["function"] == name]
    assert sweeps
    for sweep in sweeps:
        operands = (sweep["first"] + sweep["step"] * np.arange(sweep["count"])).astype(np.uint32)
        assert crc(function(name)(operands.view(np.float32)).view(np.uint32)) == sweep["crc"], sweep


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in ("ex2", "tanh") for k in ("f16", "bf16")])
def test_every_operand_of_the_halves(name: str, kind: str) -> None:
    (wanted,) = (entry["crc"] for entry in about()["all"] if entry["function"] == f"{name}.{kind}")
    operands = np.arange(1 << 16, dtype=np.uint16).view(np.float16 if kind == "f16" else ml_dtypes.bfloat16)
    compute = halves.exponential(kind) if name == "ex2" else halves.hyperbolic_tangent(kind)
    with np.errstate(all="ignore"):
        assert crc(np.asarray(compute(operands)).view(np.uint16)) == wanted


@pytest.mark.parametrize("name", ["rcp", "rsqrt"])
def test_every_upper_word_of_a_double(name: str) -> None:
    (entry,) = (entry for entry in about()["all"] if entry["function"] == f"{name}.f64")
    upper = np.arange(entry["first"], entry["first"] + entry["count"], dtype=np.uint64)
    compute = approximations.reciprocal64 if name == "rcp" else approximations.rsqrt64(ftz=True)
    found = compute((upper << np.uint64(32)).view(np.float64)).view(np.uint64)
    assert crc((found >> np.uint64(32)).astype(np.uint32)) == entry["crc"]
    assert not np.any(found & np.uint64(0xFFFFFFFF))


def test_a_wrong_coefficient_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: table.copy() for name, table in sfu._tables().items()}
    tables["ex2"][31, 2] += 2
    monkeypatch.setattr(sfu, "_tables", lambda: tables)
    with pytest.raises(AssertionError):
        test_checksums_of_whole_octaves("ex2")


def test_the_recording_names_its_origin() -> None:
    assert all(about()["origin"][key] for key in ("gpu", "driver", "date"))
    assert len(about()["sweeps"]) == 58
