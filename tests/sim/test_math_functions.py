"""CUDA's math functions, compiled by nvcc and run on an H200 and here: every result bit for bit.

tests/data/math_functions.npz has the PTX of one small kernel for each function, operands and the GPU's results. It
covers what compilers make of float, double, half and bfloat16 functions, with and without -use_fast_math.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import Array

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

FILE = Path(__file__).parents[1] / "data" / "math_functions.npz"
BYTES = {"float": 4, "double": 8, "__half": 2, "__nv_bfloat16": 2, "int": 4, "long long": 8}
PREFIXES = {"float": "f", "double": "d", "__half": "h", "__nv_bfloat16": "b", "int": "i", "long long": "l"}


@cache
def recorded() -> dict[str, Array]:
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


@cache
def entries(module: str) -> dict[str, str]:
    """The text of each kernel by name, with what stands before the first."""
    text = lzma.decompress(recorded()[f"{module}.ptx"].tobytes()).decode()
    head, *parts = text.split(".visible .entry ")
    return {part.split("(")[0].strip(): f"{head}.visible .entry {part}" for part in parts}


def simulate(module: str, name: str, kind: str, count: int, result: str) -> Array:
    device = SimDevice()
    operands = [recorded()[f"in/{kind}/{n}"] for n in range(count)]
    size = operands[0].size
    addresses = [device.allocate(size * BYTES[result]), *(device.allocate(a.nbytes) for a in operands)]
    for address, values in zip(addresses[1:], operands, strict=True):
        device.write(address, values.view(np.uint8))
    packed = (*(address.to_bytes(8, "little") for address in addresses), np.int32(size).tobytes())
    device.launch(device.load_ptx(entries(module)[name], name), Launch(Geometry((8, 1, 1), (32, 1, 1)), packed))
    return device.read(addresses[0], size * BYTES[result]).view(f"u{BYTES[result]}")


@pytest.mark.parametrize("kind", BYTES)
def test_functions_of(kind: str) -> None:
    wrong, compared = [], 0
    for name, operand, count, result in json.loads(recorded()["kernels"].tobytes()):
        for module in ("math", "math_fast"):
            if operand == kind and f"{module}/{name}" in recorded():
                found, wanted = simulate(module, name, operand, count, result), recorded()[f"{module}/{name}"]
                compared += 1
                wrong += [f"{module}/{name} of case {at}" for at in np.flatnonzero(found != wanted)[:1]]
    assert wrong == []
    assert compared >= {"float": 70, "double": 20, "__half": 25, "__nv_bfloat16": 25}.get(kind, 1)


def test_the_recording_names_its_origin() -> None:
    origin = json.loads(recorded()["about"].tobytes())
    assert all(origin[key] for key in ("gpu", "driver", "date", "compiler"))
    assert FILE.stat().st_size < 300_000


def test_one_wrong_function_would_be_found() -> None:
    found = simulate("math", "f1_tanhf", "float", 1, "float")
    assert np.array_equal(found, recorded()["math/f1_tanhf"])
    assert not np.array_equal(found, recorded()["math/f1_erff"])
