"""Triton's kernel without a GPU: its launches, the choice among its tiles, and what is freed."""

from __future__ import annotations

from typing import Any

import pytest
from baseline_fakes import FakeDevice, FakeTriton, Operands
from baseline_rig import PROBLEMS, SMALL, STREAM, check_products, use_triton

from gemmsmith.errors import UnsupportedError
from gemmsmith.problem import DTYPES, Problem
from gemmsmith.run.baselines import (
    triton_contender,
)
from gemmsmith.run.baselines.triton_contender import TILES, Tile, TritonGemm

TRIO = (Tile(128, 128, 32, 8, 3), Tile(64, 64, 32, 4, 3), Tile(2, 3, 5, 4, 2))


def time_by_tile(monkeypatch: pytest.MonkeyPatch, fake: FakeTriton, times: dict[int, float]) -> None:
    monkeypatch.setattr(triton_contender, "seconds", lambda *_: times[fake.launches[-1]["BM"]])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_triton_is_launched_for_the_product(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, problem: Problem
) -> None:
    fake, operands = use_triton(monkeypatch, device), Operands(device, problem)
    time_by_tile(monkeypatch, fake, {128: 3.0, 64: 1.0, 2: 2.0})
    contender = TritonGemm(TRIO)
    check_products(operands, contender.prepare(problem, operands.sets, STREAM))
    identity = contender.identity
    config = "BM=64 BN=64 BK=32 warps=4 stages=3 group=8, best of 3 tiles"
    assert identity.config == f"{config}, {problem.out_dtype} output"
    assert (identity.precision, identity.version) == (problem.dtype.name, "triton 3.6.0, torch 2.11.0")
    assert len(identity.digest) == 64
    assert len(device.memory) == 6, "only the operands are left"


def test_every_set_is_run_before_triton_is_timed(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_triton(monkeypatch, device), Operands(device, SMALL, count=4)
    shifted = [type(s)(s.a, s.b, s.c + 4 * i) for i, s in enumerate(operands.sets)]
    seen: list[list[int]] = []

    def seconds(*_: Any) -> float:
        seen.append([launch["c"] % 256 for launch in fake.launches])
        return 1.0

    monkeypatch.setattr(triton_contender, "seconds", seconds)
    TritonGemm(TRIO[:1]).prepare(SMALL, shifted, STREAM)
    assert seen == [[s.c % 256 for s in shifted]]


def test_triton_tiles_that_do_not_fit_are_skipped(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_triton(monkeypatch, device, too_large=(128, 64)), Operands(device, SMALL)
    time_by_tile(monkeypatch, fake, {2: 1.0})
    contender = TritonGemm(TRIO)
    contender.prepare(SMALL, operands.sets, STREAM)
    assert contender.identity.config.startswith("BM=2 ")
    with pytest.raises(UnsupportedError, match="none of 2 Triton tiles fits fake GPU"):
        TritonGemm(TRIO[:2]).prepare(SMALL, operands.sets, STREAM)


def test_triton_masks_only_where_tiles_do_not_divide(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake = use_triton(monkeypatch, device)
    monkeypatch.setattr(triton_contender, "seconds", lambda *_: 1.0)
    even = Problem(4, 6, 10)
    for problem in (even, even.with_(m=5), even.with_(n=7), even.with_(k=11)):
        TritonGemm(TRIO[2:]).prepare(problem, Operands(device, problem).sets, STREAM)
        assert fake.launches[-1]["EVEN"] == (problem == even)


def test_triton_with_alpha_0_reads_nothing(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, problem = use_triton(monkeypatch, device), SMALL.with_(alpha=0.0)
    monkeypatch.setattr(triton_contender, "seconds", lambda *_: 1.0)
    operands = Operands(device, problem)
    check_products(operands, TritonGemm(TRIO).prepare(problem, operands.sets, STREAM))
    assert {launch["k"] for launch in fake.launches} == {0}


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_tiles_are_legal_for_triton(dtype: str) -> None:
    assert len(set(TILES[dtype])) == len(TILES[dtype])
    itemsize = DTYPES[dtype].itemsize
    for tile in TILES[dtype]:
        assert all(extent >= 16 and extent & (extent - 1) == 0 for extent in (tile.bm, tile.bn, tile.bk))
        assert (tile.bm + tile.bn) * tile.bk * itemsize * tile.stages <= 227 * 1024, "sm_90's shared memory of a block"
        assert tile.bm * tile.bn // (32 * tile.warps) <= 128, "accumulators of a thread"
