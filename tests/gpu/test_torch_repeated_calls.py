"""Calls that were made before are found by the identity of a weight: whatever else changed must still be seen."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from torch_device import KIND, ON_GPU, WHERE, close, randn, reference_without_gpu, torch

import gemmsmith
from gemmsmith.call.cache import CACHE, HINTS, HINTS_OF_A_NAME
from gemmsmith.frameworks.torch import eager, fast, products

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
__all__ = ["reference_without_gpu"]
TIMES = 5  # two stand-ins at most, one that is kept, one that leaves a hint, one that finds it


def in_memory(address: int, shape: Any, stride: Any, kind: Any) -> Any:
    """A copy of the elements at an address of the CPU."""
    count = 1 + sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True))
    held = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    return torch.frombuffer(held, dtype=kind).as_strided(shape, stride).clone()


@pytest.fixture(autouse=True)
def calls_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, calls are kept and run as on one: torch multiplies what is in memory."""
    if ON_GPU:
        return

    def keep(key: Any, a: Any, b: Any, options: Any, bias: Any, result: Any) -> None:
        del a, b, options, bias
        if result.numel():
            is_linear = key[0] == "linear"
            shapes, strides, (kind, _) = key[is_linear:][:2], key[is_linear:][2:4], key[is_linear:][4:6]
            layouts = tuple(zip(shapes, strides, strict=True))
            CACHE.put(key, SimpleNamespace(shape=tuple(result.shape), dtype=result.dtype, is_linear=is_linear,
                                           kind=kind, layouts=layouts, armed={}))  # fmt: skip

    def run(call: Any, a: int, b: int, bias: int = 0) -> Any:
        assert bias == 0
        left, right = (in_memory(where, *layout, call.kind) for where, layout in zip((a, b), call.layouts, strict=True))
        found = (left @ (right.mT if call.is_linear else right)).to(call.dtype)
        assert call.shape == tuple(found.shape)
        return found

    monkeypatch.setattr(fast, "keep", keep)
    monkeypatch.setattr(fast, "run", run)
    monkeypatch.setattr(products, "_run", run)
    monkeypatch.setattr(eager, "DEFAULT", (None, "", True, WHERE))


def linear(x: Any, weight: Any) -> Any:
    return gemmsmith.torch.linear(x, weight.mT, device=WHERE)


def matmul(a: Any, b: Any) -> Any:
    return gemmsmith.matmul(a, b, device=WHERE)


def gemm(a: Any, b: Any) -> Any:
    """Of GPU tensors only; elsewhere matmul stands in, so that the test runs."""
    return gemmsmith.gemm(a, b, out_dtype=a.dtype) if ON_GPU else matmul(a, b)


FUNCTIONS = (matmul, linear, gemm)


@contextmanager
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@contextmanager
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def negated(value: Any) -> Any:
    return torch._neg_view(value.detach())


def shifted(value: Any) -> Any:
    """The same values at an address that is not aligned."""
    room = torch.empty(value.numel() + 1, dtype=value.dtype, device=value.device)
    return room[1:].view(value.shape).copy_(value.detach())


def column_major(value: Any) -> Any:
    return value.detach().mT.contiguous().mT


OTHERS: dict[str, Callable[[Any], Any]] = {
    "the same": lambda x: x, "negated": negated, "detached": lambda x: x.detach(), "shifted": shifted,
    "column-major": column_major, "fewer rows": lambda x: x.detach()[:9],
    "a batch": lambda x: x.detach().expand(3, *x.shape),
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("other", OTHERS)
def test_another_first_operand(function: Any, other: str) -> None:
    if function is gemm and other == "a batch":
        pytest.skip("gemm takes no such broadcast")
    x, weight = randn(32, 24, grad=True), randn(24, 16, grad=True)
    for _ in range(TIMES):
        close(function(x, weight), x @ weight)
    given = OTHERS[other](x)
    for _ in range(TIMES):
        mine, theirs = function(given, weight), given @ weight
        close(mine, theirs)
        assert mine.requires_grad == theirs.requires_grad


@pytest.mark.parametrize("function", FUNCTIONS)
def test_modes_around_a_call_that_was_made_before(function: Any) -> None:
    x, weight = randn(32, 24, grad=True), torch.nn.Parameter(randn(24, 16))
    around: tuple[Any, ...] = (nullcontext, without_gradients, inference, lambda: torch.autocast(KIND, torch.bfloat16))
    for _ in range(TIMES):
        for mode in around:
            with mode():
                mine = function(x, weight)
                theirs = x @ weight if function is not gemm else (x @ weight).to(mine.dtype)
            assert (mine.dtype, mine.requires_grad, mine.is_inference()) == (
                theirs.dtype, theirs.requires_grad, theirs.is_inference())  # fmt: skip
            torch.testing.assert_close(mine.float(), theirs.float(), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("function", [matmul, linear])
def test_autocast_converts_what_the_operands_hold_now(function: Any) -> None:
    x, weight = randn(32, 24, grad=True), torch.nn.Parameter(randn(24, 16))
    for round_ in range(TIMES):
        for kind in (torch.bfloat16, torch.float16):
            for gradients in (True, False):
                with torch.set_grad_enabled(gradients), torch.autocast(KIND, kind):
                    mine, theirs = function(x, weight), torch.matmul(x, weight)
                assert (mine.dtype, mine.requires_grad) == (kind, gradients)
                torch.testing.assert_close(mine.float(), theirs.float(), rtol=3e-2, atol=3e-2)
        with torch.no_grad():
            weight.add_(1.0) if round_ % 2 else weight.data.mul_(0.5)


@pytest.mark.parametrize("function", [matmul, linear])
def test_autocast_finds_a_call_by_its_hint(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = randn(32, 24), torch.nn.Parameter(randn(24, 16))
    transposed = weight.mT  # hints go by identity, and a view that each call makes anew may be another object

    def call() -> Any:
        return matmul(x, weight) if function is matmul else gemmsmith.torch.linear(x, transposed, device=WHERE)

    with torch.no_grad(), torch.autocast(KIND, torch.bfloat16):
        first = [call() for _ in range(TIMES)][-1]
        if ON_GPU:  # memory of the CPU is aligned in many ways, and each has a hint of its own
            monkeypatch.setattr(fast, "product_key", None)
            monkeypatch.setattr(fast, "linear_key", None)
        assert torch.equal(call(), first)
    assert any(isinstance(name, tuple) and name[0] is torch.bfloat16 for name in CACHE._hints)


@pytest.mark.parametrize("function", [matmul, linear])
def test_transforms_around_a_call_that_was_made_before(function: Any) -> None:
    x, weight = randn(6, 5), randn(5, 7)
    for _ in range(TIMES):
        function(x, weight)

    def loss(product: Any) -> Any:
        return lambda w: product(x, w).tanh().pow(2).sum()

    plain = torch.matmul
    close(torch.func.grad(loss(function))(weight), torch.func.grad(loss(plain))(weight))
    close(torch.func.hessian(loss(function))(weight), torch.func.hessian(loss(plain))(weight))
    mine, theirs = (torch.func.jvp(lambda w, f=f: f(x, w), (weight,), (weight,)) for f in (function, plain))
    close(mine[1], theirs[1])
    close(torch.func.functionalize(function)(x, weight), x @ weight)
    rows = torch.vmap(function, (0, None))(x[:, None], weight)
    close(rows[:, 0], x @ weight)


def test_gradients_of_a_call_that_was_made_before() -> None:
    for function in FUNCTIONS:
        grads = []
        x, weight = randn(32, 24, grad=True), randn(24, 16, grad=True)
        for product in (function, torch.matmul):
            for _ in range(TIMES):
                x.grad = weight.grad = None
                y = product(x, weight)
                by_x, by_weight = torch.autograd.grad((y / 8).tanh().sum(), (x, weight), create_graph=True)
                (by_x.sum() + by_weight.sin().sum()).backward()
            grads.append((by_x.detach(), by_weight.detach(), x.grad, weight.grad))
        for mine, theirs in zip(*grads, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3)


def test_saved_operands_are_watched() -> None:
    """As torch does: changed in place, freed, and passed through hooks."""
    x, weight, seen = randn(32, 24, grad=True), randn(24, 16), []
    for _ in range(TIMES):
        y = matmul(x, weight)
    weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda v: (seen.append(v.shape), v)[1], lambda v: v):
        y = matmul(x, weight)
    assert set(seen) == {(32, 24), (24, 16)}
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_hints_are_few_and_hold_no_tensor() -> None:
    import gc
    import weakref

    x, kept = randn(32, 24), []
    for _ in range(40):
        weight = randn(24, 16)
        for _ in range(TIMES):
            matmul(x, weight)
        kept.append(weakref.ref(weight))
    hints = CACHE._hints
    assert hints
    assert len(hints) <= HINTS
    assert all(len(each) <= HINTS_OF_A_NAME for each in hints.values())
    del weight
    gc.collect()
    assert not any(each() is not None for each in kept)


def test_flops_are_counted() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    x, weight, bias = randn(4, 6, 24, grad=True), randn(16, 24, grad=True), randn(16, grad=True)
    counted = []
    for function in (lambda *given: gemmsmith.torch.linear(*given, device=WHERE), torch.nn.functional.linear):
        with FlopCounterMode(display=False) as counter:
            function(x, weight, bias).sum().backward()
        counted.append(counter.get_total_flops())
    assert counted[0] == counted[1] == 3 * 2 * 24 * 24 * 16
