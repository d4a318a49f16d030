"""cuBLASLt without a GPU: the call, the choice among its candidates, and what is freed."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from baseline_fakes import FakeDevice, FakeLt, Operands
from baseline_rig import PROBLEMS, SMALL, STREAM, check_products, use_lt

from gemmsmith.errors import UnsupportedError
from gemmsmith.problem import Problem
from gemmsmith.run.baselines import (
    baseline_named,
    lt_calls,
)
from gemmsmith.run.baselines.lt_calls import common_alignment


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_cublaslt_is_called_for_the_row_major_product(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, problem: Problem
) -> None:
    fake, operands = use_lt(monkeypatch, FakeLt(device)), Operands(device, problem)
    contender = baseline_named("cublaslt")
    check_products(operands, contender.prepare(problem, operands.sets, STREAM))
    assert fake.compute == 68
    assert contender.identity.precision == problem.dtype.name
    assert contender.identity.version == "cuBLASLt 13.1.0.3"
    assert contender.identity.config.endswith(f"best of 3 candidates, {problem.out_dtype} output")
    contender.close()
    assert not fake.objects, "every descriptor was destroyed"
    assert len(device.memory) == 6, "only the operands are left"


def test_the_fastest_candidate_is_used_and_broken_ones_are_skipped(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice
) -> None:
    fake = FakeLt(device, states=(0, 15, 0, 0, 0), broken=(102,))
    use_lt(monkeypatch, fake, {100: 3.0, 101: 0.1, 102: 0.2, 103: 1.0, 104: 2.0})
    operands = Operands(device, SMALL)
    contender = baseline_named("cublaslt")
    enqueue = contender.prepare(SMALL, operands.sets, STREAM)
    config = contender.identity.config
    assert config.startswith("algorithm 103, tile #1, stages #1, split-K 1, heuristic's no. 4, best of 4 candidates")
    fake.launched.clear()
    check_products(operands, enqueue)
    assert fake.launched == [103, 103]


@pytest.mark.parametrize(("states", "broken"), [((), ()), ((15, 15), ()), ((0, 0), (100, 101))])
def test_without_a_usable_candidate_everything_is_freed(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, states: tuple[int, ...], broken: tuple[int, ...]
) -> None:
    fake, operands = use_lt(monkeypatch, FakeLt(device, states, broken)), Operands(device, SMALL)
    before = set(device.memory)
    with pytest.raises(UnsupportedError, match="candidates computes 4x6x5 fp32"):
        baseline_named("cublaslt").prepare(SMALL, operands.sets, STREAM)
    assert not fake.objects
    assert set(device.memory) == before


def test_cublaslt_computes_in_tf32_and_says_so(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake = use_lt(monkeypatch, FakeLt(device))
    contender = baseline_named("cublaslt-tf32")
    contender.prepare(SMALL, Operands(device, SMALL).sets, STREAM)
    assert fake.compute == 77
    assert contender.identity.precision == "tf32"


def test_cublaslt_is_given_the_alignment_of_the_addresses(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_lt(monkeypatch, FakeLt(device)), Operands(device, SMALL)
    with device.current(), ExitStack() as held:
        shifted = [type(s)(s.a + 4, s.b + 16, s.c + 64) for s in operands.sets]
        lt_calls.LtProduct(device, SMALL, shifted, held, tf32=False).candidates()  # type: ignore[arg-type]
    workspace, first_is_b, second_is_a, c, d = (fake.preference[i] for i in (1, 5, 6, 7, 8))
    assert (workspace, first_is_b, second_is_a, c, d) == (64 * 2**20, 16, 4, 64, 64)


def test_common_alignment() -> None:
    assert common_alignment([4096, 8192]) == 256
    assert common_alignment([4096, 8192 + 32]) == 32
    assert common_alignment([4096 + 6]) == 2
    assert common_alignment([1]) == 1
