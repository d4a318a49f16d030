"""The first calls of a shape: a stand-in that adds in the same order, until the best kernel is compiled."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fake_torch import FakeGpu

from gemmsmith.call import first_call
from gemmsmith.call.binding import aligned_code
from gemmsmith.call.cache import CACHE
from gemmsmith.choose.choice import STAND_IN, Choice, choose
from gemmsmith.compile import compiler
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.render import render_for
from gemmsmith.errors import CompileError, UsageError
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.prologue.build import build_prologue

PLACES = Addresses(256, 512, 1024)
SHAPES = [(m, n, k) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (2304, 768), (768, 3072), (50257, 768),
                                 (28672, 8192))
          for m in (1, 64, 300, 512, 2048, 4000)]  # fmt: skip


@pytest.fixture(name="compiled")
def _compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What another process was asked to compile; nothing is in a cache."""
    asked: list[Any] = []
    monkeypatch.setattr(first_call, "is_compiled", lambda *_: False)
    monkeypatch.setattr(first_call, "_compile_beside", lambda *what: asked.append(what))
    CACHE.clear()
    return asked


def best(m: int, n: int, k: int, kind: DType = BF16, layout: str = "NT") -> tuple[Problem, Choice]:
    problem = Problem(m, n, k, kind, kind, trans_b=layout[1] == "T")
    return problem, choose(problem, "NVIDIA H200", PLACES[:3], sms=132, arch="sm_90")


def called(gpu: Any, choice: Choice, problem: Problem, capturing: bool = False) -> Choice:
    return first_call.runs_now(choice, problem, gpu, PLACES, True, lambda: capturing)


def slow_shape() -> tuple[Problem, Choice]:
    """One whose best kernel takes the compiler long."""
    return next((p, c) for p, c in (best(*shape) for shape in SHAPES) if c.spec.name != "wgmma_split_k")


def random_shapes(seed: int) -> list[tuple[int, int, int]]:
    dice = Random(seed)
    extents = (1, 8, 33, 64, 100, 256, 500, 784, 1000, 1024, 2000, 3000, 4096)
    return [(dice.choice(extents), dice.choice(extents), dice.choice(extents)) for _ in range(40)]


@pytest.mark.parametrize(("shapes", "kind", "layout"), [
    (SHAPES, BF16, "NT"), (random_shapes(7), BF16, "NN"), (SHAPES, FP32, "NN"), (random_shapes(7), FP32, "NT"),
], ids=["bf16-NT", "bf16-NN-random", "fp32-NN", "fp32-NT-random"])  # fmt: skip
def test_forty_shapes_compile_at_most_ten_kernels(shapes: list[tuple[int, int, int]], kind: DType, layout: str,
                                                  compiled: list[Any]) -> None:  # fmt: skip
    gpu: Any = FakeGpu()
    requests: set[object] = set()
    for shape in shapes:
        problem, choice = best(*shape, kind=kind, layout=layout)
        found = called(gpu, choice, problem)
        special, seen = aligned_code(found.spec, found.config, problem)
        requests.add(render_for(found.spec, special, seen, "sm_90"))
        requests |= {each.spec for each in build_prologue(found.spec, found.config, problem, PLACES).launches}
    assert not compiled
    vectors = {each for each in requests if getattr(each, "name", "") == "28_gemv.cu"}  # which nothing stands in for
    assert len(requests - vectors) <= 4
    assert len(requests) <= 10


def test_vectors_in_fp32_wait_for_the_compiler(compiled: list[Any]) -> None:
    """gemv takes it half a second; nothing stands in for it, so every call has the same bits."""
    gpu: Any = FakeGpu()
    for shape in ((1, 4096, 4096), (2, 14336, 4096), (4096, 3, 14336)):
        problem, choice = best(*shape, kind=FP32, layout="NN")
        assert choice.spec.name == "gemv"
        for _ in range(3):
            assert called(gpu, choice, problem) is choice
        assert called(gpu, choice, problem, capturing=True) is choice
    assert not compiled


def test_a_loaded_kernel_that_is_nearly_as_fast_is_used(compiled: list[Any]) -> None:
    gpu: Any = FakeGpu()
    problem, choice = best(4096, 4096, 4096)
    for _ in range(3):
        called(gpu, choice, problem)
    near = best(4096, 4096, 4096 + 64)[0]
    other = Choice(choice.spec, choice.config.with_(GROUP=1), "model")
    found = called(gpu, other, near)
    assert found.source == STAND_IN
    assert (found.spec, found.config) == (choice.spec, choice.config)
    assert len(compiled) == 1


def test_the_second_call_starts_the_compiler_and_the_third_waits(compiled: list[Any]) -> None:
    gpu: Any = FakeGpu()
    problem, choice = slow_shape()
    first = called(gpu, choice, problem)
    assert first.source == STAND_IN
    assert not compiled
    assert called(gpu, choice, problem) == first
    assert [what[0].name for what in compiled] == [choice.spec.name]
    assert called(gpu, choice, problem) is choice
    assert called(gpu, choice, problem) is choice
    assert len(compiled) == 1


def test_a_capture_gets_the_best(compiled: list[Any]) -> None:
    gpu: Any = FakeGpu()
    problem, choice = slow_shape()
    assert called(gpu, choice, problem, capturing=True) is choice
    assert not compiled


def test_what_is_in_a_cache_is_used_as_it_is(compiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_call, "is_compiled", lambda *_: True)
    gpu: Any = FakeGpu()
    for shape in SHAPES:
        problem, choice = best(*shape)
        assert called(gpu, choice, problem) is choice
    assert not compiled


def test_the_order_of_additions() -> None:
    split_k, cluster = rung_named("wgmma_split_k"), rung_named("wgmma_cluster")
    plain = first_call.summation(split_k.config({"SPLIT": 1, "DEPTH": 2}))
    assert plain == first_call.summation(cluster.config())
    divided = [split_k.config({"SPLIT": 2}), split_k.config({"SPLIT": 2, "DEPTH": 2}), split_k.config({"SPLIT": 4}),
               cluster.config({"SLICES": 2}), cluster.config().with_(CLUSTER_K=2)]  # fmt: skip
    assert len({plain, *map(first_call.summation, divided)}) == 1 + len(divided)


def test_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(first_call.ENVIRONMENT, raising=False)
    assert not first_call.waits()
    monkeypatch.setenv(first_call.ENVIRONMENT, "wait")
    assert first_call.waits()
    monkeypatch.setenv(first_call.ENVIRONMENT, "never")
    with pytest.raises(UsageError, match="GEMMSMITH_FIRST_CALL=never"):
        first_call.waits()


def test_another_process_compiles_the_same_code(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = CompileCache(tmp_path / "here"), CompileCache(tmp_path / "there")
    spec, problem = rung_named("naive"), Problem(8, 8, 8)
    monkeypatch.setattr(compiler, "default_cache", lambda: there)
    compiler.compile_elsewhere(spec, spec.config(), problem, "sm_90")
    assert compiler.is_compiled(spec, spec.config(), problem, "sm_90")
    found = compiler.compile_for(spec, spec.config(), problem, "sm_90")
    assert found.cached
    mine = compiler.compile_for(spec, spec.config(), problem, "sm_90", here)
    assert not mine.cached
    assert (found.cubin, found.ptx, found.key) == (mine.cubin, mine.ptx, mine.key)


def test_a_failure_beside_is_left_to_the_call_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fails(*what: Any) -> None:
        tried.append(what)
        raise CompileError("no")

    class Thread:
        def __init__(self, target: Any, **_: Any) -> None:
            self.start = target

    monkeypatch.setattr(first_call, "compile_elsewhere", fails)
    monkeypatch.setattr(first_call.threading, "Thread", Thread)
    spec = rung_named("naive")
    first_call._compile_beside(spec, spec.config(), Problem(8, 8, 8, FP16, FP16), "sm_90")
    assert len(tried) == 1
