"""Occupancy equals NVIDIA's cuda_occupancy.h: recorded cases, and live ones if there is a C++ compiler."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import MissingDeviceError
from gemmsmith.explain.occupancy import occupancy
from gemmsmith.gpus import architectures, gpu_named

HERE = Path(__file__).parents[1]
RECORDER = HERE.parent / "benchmarks" / "record_occupancy.py"
NO_LIMIT = 2**31 - 1
GROUPS = 30  # for each GPU
FLAGS = {"warps": 1, "registers": 2, "shared memory": 4, "block slots": 8, "barriers": 16}  # cudaOccLimitingFactor
COLUMNS = {"warps": "by_warps", "block slots": "by_slots", "registers": "by_registers", "shared memory": "by_smem",
           "barriers": "by_barriers"}  # fmt: skip
CORRECTED = {"B300": 13030}  # the CUDA version of the first header that has the barriers of this GPU's SMs

with gzip.open(HERE / "data" / "occupancy.csv.gz", "rt", encoding="utf-8", newline="") as _file:
    RECORDED = list(csv.DictReader(_file))


def disagreements(row: dict[str, str]) -> Iterator[str]:
    """The differences between our result and the header's."""
    numbers = {name: int(row[name]) for name in ("threads", "registers", "static_smem", "dynamic_smem", "barriers")}
    ours = occupancy(gpu_named(row["gpu"]), **numbers)
    if ours.blocks_per_sm != int(row["blocks"]):
        yield f"{numbers}: {ours.blocks_per_sm} blocks, the header says {row['blocks']}; {ours.why}"
    limits = {limit.resource: limit.blocks for limit in ours.limits}
    for resource, column in COLUMNS.items():
        limit = limits.get(resource)
        if (NO_LIMIT if limit is None else limit) != int(row[column]):
            yield f"{numbers}: {resource} allow {limit}, the header says {row[column]}"
    factors = sum(FLAGS[name] for name in ours.limiters)
    # The header leaves flags standing that it set before barriers lowered the count; then only the last one holds.
    if ours.limiters == ("barriers",):
        agreed = bool(int(row["factors"]) & FLAGS["barriers"])
    else:
        agreed = factors == int(row["factors"])
    if not agreed:
        yield f"{numbers}: limited by {ours.limiters}, the header's factors are {row['factors']}"


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("name", sorted({row["gpu"] for row in RECORDED}))
def test_recorded_cases(name: str, group: int) -> None:
    rows = [row for row in RECORDED if row["gpu"] == name][group::GROUPS]
    assert len(rows) >= 30
    assert [text for row in rows for text in disagreements(row)] == []


def test_the_recording_is_large_and_varied() -> None:
    """Large enough that a wrong rule cannot pass by chance."""
    assert len(RECORDED) >= 10_000
    recorded = {row["gpu"] for row in RECORDED}
    assert {gpu_named(name).arch for name in recorded} == {arch.arch for arch in architectures()}
    for name in recorded:
        rows = [row for row in RECORDED if row["gpu"] == name]
        assert len({row["blocks"] for row in rows}) >= 12
        for flag in (1, 2, 4, 8):
            assert sum(int(row["factors"]) == flag for row in rows) >= 3, f"{name}: limited by {flag} alone"
        assert sum(row["blocks"] == "0" for row in rows) >= 50
    assert sum(int(row["factors"]) & 16 > 0 for row in RECORDED) >= 50, "barriers limit"


@pytest.mark.parametrize("column", ["blocks", *COLUMNS.values(), "factors"])
def test_a_wrong_recording_is_detected(column: str) -> None:
    """The comparison itself can fail: each column matters."""
    row = next(row for row in RECORDED if row["gpu"] == "H200" and row["barriers"] == "1" and int(row["blocks"]) > 1)
    assert not list(disagreements(row))
    assert list(disagreements(row | {column: str(int(row[column]) + 1)}))


def _recorder() -> ModuleType:
    if not RECORDER.is_file():
        pytest.skip("benchmarks/ is not part of this installation")
    spec = importlib.util.spec_from_file_location("record_occupancy", RECORDER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_live_against_the_header(tmp_path: Path) -> None:
    recorder = _recorder()
    cxx = recorder.compiler()
    if cxx is None:
        pytest.skip("no C++ compiler")
    try:
        include = find_toolchain().include
    except MissingDeviceError as error:
        pytest.skip(error.message)
    if not (include / "cuda_occupancy.h").is_file():
        pytest.skip("no cuda_occupancy.h")
    version = int(find_toolchain().headers.partition("-")[0])
    gpus = [gpu for gpu in recorder.DEVICES if version >= CORRECTED.get(gpu, 0)]
    seed = time.time_ns()
    rng = random.Random(seed)
    kernels = [recorder.random_kernel(rng, gpu) for gpu in gpus for _ in range(500)]
    answers = recorder.ask(recorder.build(tmp_path, include, cxx), kernels)
    wrong = []
    for kernel, answer in zip(kernels, answers, strict=True):
        values = [str(value) for value in kernel + answer]
        wrong += disagreements(dict(zip(recorder.INPUTS + recorder.ANSWERS, values, strict=True)))
    assert wrong == [], f"seed {seed}"
