"""The first call of a shape: a loaded kernel in place of the compiler, with the same order of additions."""

from __future__ import annotations

from typing import Any

import pytest
from fake_torch import FakeGpu

from gemmsmith.call import reuse
from gemmsmith.call.cache import CACHE
from gemmsmith.choose.choice import Choice, choose
from gemmsmith.errors import UsageError
from gemmsmith.kernel.spec import Addresses
from gemmsmith.problem import BF16, Problem

PLACES = Addresses(256, 512, 1024)
SHAPES = [(m, n, k) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (2304, 768), (768, 3072), (50257, 768))
          for m in (1, 64, 300, 512, 2048, 4000)]  # fmt: skip


@pytest.fixture(name="gpu")
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(reuse, "is_compiled", lambda *_: False)
    CACHE.clear()
    return FakeGpu()


def best(m: int, n: int, k: int) -> tuple[Problem, Choice]:
    problem = Problem(m, n, k, BF16, BF16, trans_b=True)
    return problem, choose(problem, "NVIDIA H200", PLACES[:3], sms=132, arch="sm_90")


def test_forty_shapes_need_about_ten_kernels(gpu: Any) -> None:
    for shape in SHAPES:
        problem, choice = best(*shape)
        found = reuse.settled(choice, problem, gpu, PLACES, True)
        assert reuse.summation(found.spec, found.config) == reuse.summation(choice.spec, choice.config)
        again = reuse.settled(choice, problem, gpu, PLACES, True)
        assert (again.spec, again.config) == (found.spec, found.config)
    assert reuse._loaded(gpu).compiled <= 11


def test_what_is_in_a_cache_is_used_as_it_is(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "is_compiled", lambda *_: True)
    for shape in SHAPES:
        problem, choice = best(*shape)
        assert reuse.settled(choice, problem, gpu, PLACES, True) is choice
    assert reuse._loaded(gpu).compiled == 0


def test_waiting_is_the_default_and_other_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reuse.ENVIRONMENT, raising=False)
    assert not reuse.wanted()
    monkeypatch.setenv(reuse.ENVIRONMENT, "reuse")
    assert reuse.wanted()
    monkeypatch.setenv(reuse.ENVIRONMENT, "never")
    with pytest.raises(UsageError, match="GEMMSMITH_FIRST_CALL=never"):
        reuse.wanted()
