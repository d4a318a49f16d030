"""torch.ops.gemmsmith: opcheck, gradients, vmap, autocast, compile, export, graphs. ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from torch_device import KIND, ON_GPU, WHERE, close, randn, reference_without_gpu, torch
from torch_graphs import capture

import gemmsmith

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]  # torch's own deprecations
__all__ = ["reference_without_gpu"]
OPTIONS = (None, "", True, WHERE)
ops = gemmsmith.torch.ops if torch else None


def arguments(name: str, dtype: Any = torch.float32, grad: bool = True) -> tuple[Any, ...]:
    """The operands of an operator, and what torch computes from the same."""
    a, b = randn(6, 5, dtype=dtype, grad=grad), randn(5, 7, dtype=dtype, grad=grad)
    return {
        "mm": (a, b),
        "bmm": (randn(3, 6, 5, dtype=dtype, grad=grad), randn(3, 5, 7, dtype=dtype, grad=grad)),
        "addmm": (randn(7, dtype=dtype, grad=grad), a, b, 1, 1),
        "addmm_full": (randn(6, 7, dtype=dtype, grad=grad), a, b, 0.5, 2),
        "linear": (randn(2, 4, 5, dtype=dtype, grad=grad), randn(7, 5, dtype=dtype, grad=grad),
                   randn(7, dtype=dtype, grad=grad)),
        "linear_plain": (a, randn(7, 5, dtype=dtype, grad=grad), None),
        "gemm": (a, b, randn(6, 7, grad=grad), 2.0, 0.5, randn(7, grad=grad), ""),
        "gemm_relu": (a, b, None, 1.0, 0.0, None, "relu"),
        "gemm_gelu": (a, b, None, 1.0, 0.0, randn(7, grad=grad), "gelu"),
        "gemm_silu": (a, b, randn(6, 7, grad=grad), 1.0, 1.0, None, "silu"),
    }[name]  # fmt: skip


CASES = ("mm", "bmm", "addmm", "addmm_full", "linear", "linear_plain", "gemm", "gemm_relu", "gemm_gelu", "gemm_silu")


def ours(case: str, given: tuple[Any, ...]) -> Any:
    options = (torch.float32, *OPTIONS[1:]) if case.startswith("gemm") else OPTIONS
    return getattr(ops, case.split("_", maxsplit=1)[0])(*given, *options)


def theirs(case: str, given: tuple[Any, ...]) -> Any:
    kind = case.split("_", maxsplit=1)[0]
    if kind == "addmm":
        return torch.addmm(*given[:3], beta=given[3], alpha=given[4])
    if kind == "linear":
        return torch.nn.functional.linear(*given)
    if kind == "gemm":
        a, b, c, alpha, beta, bias, activation = given
        z = alpha * (a @ b) + (beta * c if c is not None else 0) + (bias if bias is not None else 0)
        functions: Any = {"": lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu,
                          "silu": torch.nn.functional.silu}  # fmt: skip
        return functions[activation](z)
    return getattr(torch, kind)(*given)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_opcheck(case: str, grad: bool) -> None:
    options = (torch.float32, *OPTIONS[1:]) if case.startswith("gemm") else OPTIONS
    operator = getattr(ops, case.split("_", maxsplit=1)[0]).default
    torch.library.opcheck(operator, (*arguments(case, grad=grad), *options))


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str) -> None:
    given = arguments(case)
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    found, expected = ours(case, given), theirs(case, given)
    close(found, expected)
    weights = randn(*expected.shape, seed=9)
    for mine, other in zip(*(torch.autograd.grad(each, tensors, weights) for each in (found, expected)), strict=True):
        close(mine, other)


@pytest.mark.parametrize("case", ["mm", "bmm", "addmm_full", "linear", "gemm_gelu"])
def test_gradients_of_gradients(case: str) -> None:
    given = arguments(case)
    tensors = [each for each in given if isinstance(each, torch.Tensor)]

    def twice(function: Any) -> Any:
        first = torch.autograd.grad(function(case, given).square().sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), tensors)

    for mine, other in zip(twice(ours), twice(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("case", ["mm", "bmm", "addmm", "linear", "gemm"])
@pytest.mark.parametrize("which", range(7))
def test_vmap(case: str, which: int) -> None:
    """Over any subset of the first three operands."""
    given = arguments(case, grad=False)
    count = min(3, sum(isinstance(each, torch.Tensor) for each in given[:3]))
    chosen = [bool((which + 1) >> i & 1) for i in range(count)]
    if not any(chosen):
        return
    batched = tuple(torch.stack([x, 2 * x, x - 1], dim=1) if i < count and chosen[i] else x
                    for i, x in enumerate(given))  # fmt: skip
    dims = tuple(1 if i < count and chosen[i] else None for i in range(len(given)))
    close(torch.vmap(lambda *x: ours(case, x), dims)(*batched), torch.vmap(lambda *x: theirs(case, x), dims)(*batched))


def test_vmap_of_the_public_functions_and_per_sample_gradients() -> None:
    x, w = randn(4, 3, 5), randn(5, 7)
    close(torch.vmap(lambda q: gemmsmith.matmul(q, w, device=WHERE))(x), x @ w)
    weight, bias = randn(7, 5), randn(7)
    close(torch.vmap(lambda q: gemmsmith.torch.linear(q, weight, bias, device=WHERE))(x),
          torch.nn.functional.linear(x, weight, bias))  # fmt: skip

    def loss(function: Any) -> Any:
        return lambda p, q: function(q, p).square().sum()

    mine = torch.vmap(torch.func.grad(loss(lambda q, p: gemmsmith.matmul(q, p, device=WHERE))), (None, 0))(w, x)
    other = torch.vmap(torch.func.grad(loss(torch.matmul)), (None, 0))(w, x)
    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast(kind: Any) -> None:
    a, b, weight, bias = randn(6, 5, grad=True), randn(5, 7), randn(7, 5, grad=True), randn(7)
    with torch.autocast(KIND, kind):
        pairs = [(gemmsmith.matmul(a, b, device=WHERE), a @ b),
                 (gemmsmith.torch.linear(a, weight, bias, device=WHERE), torch.nn.functional.linear(a, weight, bias)),
                 (ops.addmm(bias, a, b, 1, 1, *OPTIONS), torch.addmm(bias, a, b))]  # fmt: skip
    for mine, other in pairs:
        assert mine.dtype is kind
        close(mine, other)
    grads = [torch.autograd.grad(pairs[1][i].float().sum(), (a, weight), retain_graph=True) for i in (0, 1)]
    for mine, other in zip(*grads, strict=True):
        assert mine.dtype is other.dtype
        close(mine, other, kind)
    close(gemmsmith.matmul(a, b, device=WHERE), a @ b)  # and not outside


BACKENDS = ("aot_eager", "inductor") if ON_GPU else ("eager", "aot_eager")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_compile_whole_graphs(backend: str, dynamic: bool) -> None:
    def function(x: Any, w: Any, weight: Any, bias: Any) -> Any:
        y = gemmsmith.matmul(x, w, device=WHERE)
        return gemmsmith.torch.linear(torch.relu(y), weight, bias, device=WHERE).sin() + gemmsmith.matmul(
            x, w, device=WHERE, out_dtype=torch.float32
        )

    def plain(x: Any, w: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.linear(torch.relu(x @ w), weight, bias).sin() + x @ w

    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (6, 9, 17):
        given = (randn(2, rows, 5, grad=True), randn(5, 8, grad=True), randn(8, 8, grad=True), randn(8, grad=True))
        close(compiled(*given), plain(*given))
        for mine, other in zip(torch.autograd.grad(compiled(*given).sum(), given),
                               torch.autograd.grad(plain(*given).sum(), given), strict=True):  # fmt: skip
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-3)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["matmul", "gemm"])
def test_compile_before_anything_else_was_called(name: str) -> None:
    """In a new process, where tracing is what imports our torch package."""
    options = f', device="{WHERE}"' if name == "matmul" else ""
    run = "f(a, b)" if ON_GPU else "torch._dynamo.export(lambda a, b: f(a, b), aten_graph=False)(a, b)"
    code = f"""
import torch, gemmsmith
def f(a, b): return gemmsmith.{name}(a, b{options}) * 2
a, b = torch.randn(64, 64, device="{KIND}"), torch.randn(64, 64, device="{KIND}")
if {ON_GPU}:
    f = torch.compile(f, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(f(a, b), 2 * (a @ b), rtol=1e-4, atol=1e-3)
else:
    graphs = []
    def backend(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return lambda *x: (torch.zeros(64, 64),)
    torch.compile(f, backend=backend, fullgraph=True)(a, b)
    assert any("gemmsmith" in target for target in graphs[0]), graphs
"""
    del run
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_export_with_a_dynamic_batch() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(randn(7, 5))

        def forward(self, x: Any) -> Any:
            return gemmsmith.torch.linear(x, self.weight, device=WHERE) + 1

    model, rows = Model(), torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(model, (randn(6, 5),), dynamic_shapes={"x": {0: rows}})
    assert "gemmsmith.linear" in str(exported.graph)
    for count in (6, 11):
        x = randn(count, 5)
        close(exported.module()(x), torch.nn.functional.linear(x, model.weight) + 1)


def test_meta_and_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    a, b = torch.empty(6, 5, device="meta"), torch.empty(5, 7, device="meta")
    assert gemmsmith.matmul(a, b).shape == (6, 7)
    with FakeTensorMode():
        x, y = (
            torch.empty(2, 6, 5, device=KIND, dtype=torch.bfloat16),
            torch.empty(5, 7, device=KIND, dtype=torch.bfloat16),
        )
        z = gemmsmith.matmul(x, y, device=WHERE)
        assert (tuple(z.shape), z.dtype, z.device.type) == ((2, 6, 7), torch.bfloat16, KIND)


def test_a_dispatch_mode_sees_the_operator() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Listen(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    a, b = randn(6, 5), randn(5, 7)
    with Listen():
        gemmsmith.matmul(a, b, device=WHERE)
    assert "gemmsmith.mm.default" in seen


def test_forward_mode() -> None:
    from torch.autograd import forward_ad

    a, b, weight, bias = randn(6, 5), randn(5, 7), randn(7, 5), randn(7)
    with forward_ad.dual_level():
        dual, other = forward_ad.make_dual(a, randn(6, 5, seed=3)), forward_ad.make_dual(b, randn(5, 7, seed=4))
        pairs = [(gemmsmith.matmul(dual, other, device=WHERE), dual @ other),
                 (gemmsmith.matmul(a, other, device=WHERE), a @ other),
                 (gemmsmith.torch.linear(dual, weight, bias, device=WHERE),
                  torch.nn.functional.linear(dual, weight, bias))]  # fmt: skip
        for mine, expected in pairs:
            close(forward_ad.unpack_dual(mine).tangent, forward_ad.unpack_dual(expected).tangent)
    mine, expected = (torch.func.jacfwd(lambda x, f=f: f(x, b))(a)
                      for f in (lambda x, y: gemmsmith.matmul(x, y, device=WHERE), torch.matmul))  # fmt: skip
    close(mine, expected)


@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU")
class TestOnGpu:
    @pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
    def test_reduce_overhead_uses_graphs(self, kind: Any) -> None:
        w, weight, bias = (randn(*shape, dtype=kind) for shape in ((256, 512), (384, 512), (384,)))

        def function(x: Any) -> Any:
            return gemmsmith.torch.linear(torch.relu(gemmsmith.matmul(x, w)), weight, bias)

        compiled = torch.compile(function, mode="reduce-overhead", fullgraph=True)
        for seed in range(5):
            x = randn(128, 256, dtype=kind, seed=seed)
            expected = torch.nn.functional.linear(torch.relu(x @ w), weight, bias)
            scale = float(expected.abs().max())
            assert float((compiled(x).float() - expected.float()).abs().max()) < scale * (
                1e-5 if kind is torch.float32 else 2e-2
            )
        torch._dynamo.reset()

    @pytest.mark.parametrize("size", [256, 257])
    def test_capture_of_eager_calls(self, size: int) -> None:
        a, b = randn(size, size, dtype=torch.bfloat16), randn(size, size, dtype=torch.bfloat16)
        gemmsmith.matmul(a, b)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with capture(graph):
            out = gemmsmith.matmul(gemmsmith.matmul(a, b), b)
        for seed in range(3):
            a.copy_(randn(size, size, dtype=torch.bfloat16, seed=seed))
            graph.replay()
            assert torch.equal(out, gemmsmith.matmul(gemmsmith.matmul(a, b), b))

    def test_streams(self) -> None:
        a, b = randn(512, 512, dtype=torch.bfloat16), randn(512, 512, dtype=torch.bfloat16)
        expected = gemmsmith.matmul(a, b)
        stream, gate = torch.cuda.Stream(), torch.cuda.Event()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            out = gemmsmith.matmul(a, b)
            gate.record()
            assert not gate.query(), "the launch waited, or ran on another stream"
        torch.cuda.synchronize()
        assert torch.equal(out, expected)

    def test_threads_share_no_arguments(self) -> None:
        from threading import Thread

        sets = [(randn(256, 128, dtype=torch.bfloat16, seed=i), randn(128, 64, dtype=torch.bfloat16, seed=i))
                for i in range(4)]  # fmt: skip
        expected = [gemmsmith.matmul(a, b) for a, b in sets]
        torch.cuda.synchronize()
        wrong: list[int] = []

        def work(which: int) -> None:
            a, b = sets[which]
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                results = [gemmsmith.matmul(a, b) for _ in range(300)]
            stream.synchronize()
            if not all(torch.equal(each, expected[which]) for each in results):
                wrong.append(which)

        threads = [Thread(target=work, args=(i,)) for i in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert wrong == []

    def test_new_addresses_at_every_call(self) -> None:
        """The addresses are written over those of the call before, in tensor maps too."""
        kept = []
        for i in range(40):
            a, b = randn(96, 64, dtype=torch.bfloat16, seed=i), randn(64, 128, dtype=torch.bfloat16, seed=i)
            kept.append((a, b, gemmsmith.matmul(a, b)))
        for a, b, found in kept:
            close(found, a @ b)
