"""matmul with torch tensors: torch's result types, shapes and exceptions, by the recorded table and by torch itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import record_conventions
from torch_device import KIND, ON_GPU, WHERE, close, randn, reference_without_gpu, torch

import gemmsmith

pytestmark = pytest.mark.gpu
__all__ = ["reference_without_gpu"]
TABLE = Path(__file__).parents[2] / "benchmarks" / "results" / "conventions_torch.json"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
COMPUTED = record_conventions.COMPUTED


RUNTIME_ERRORS = ("RuntimeError", "NotImplementedError", "TensorShapeError", "TensorTypeError")


def types(row: dict[str, Any]) -> set[str]:
    return {row["a"][0], row["b"][0]}


def test_torch_is_as_recorded() -> None:
    """On the CPU, which has all types; a GPU refuses products of integers, in an exception of its own."""
    wrong = [(row, found) for row in ROWS
             if (found := record_conventions.of_torch(row, "cpu")) != {k: row[k] for k in found}]  # fmt: skip
    assert wrong == []


def test_ours_is_torchs() -> None:
    """The same type and shape; an exception of torch's class, or a TypeError for types that are not computed."""
    wrong = []
    for row in ROWS:
        mine = record_conventions.of_torch(row, KIND, gemmsmith.matmul, device=WHERE)
        expected = {k: v for k, v in row.items() if k in ("dtype", "shape", "error")}
        if "error" in mine and "error" in expected and types(row) <= set(COMPUTED):
            mine = {"error": "RuntimeError" if mine["error"] in RUNTIME_ERRORS else mine["error"]}
            expected = {"error": "RuntimeError"} if expected["error"] in RUNTIME_ERRORS else expected
            if "out" in row and row["out"][0] not in COMPUTED and mine["error"] == "DTypeError":
                continue
        if not types(row) <= set(COMPUTED) and mine.get("error") == "DTypeError":
            continue
        if mine != expected:
            wrong.append((row, mine))
    assert wrong == []


def test_exceptions_are_torchs_own_classes() -> None:
    a, b = randn(6, 5), randn(5, 7)
    for x, y in ((a, a), (a, b.half()), (a[0, 0], b), (randn(2, 6, 5), randn(3, 5, 7))):
        with pytest.raises(RuntimeError):
            torch.matmul(x, y)
        with pytest.raises(RuntimeError):
            gemmsmith.matmul(x, y, device=WHERE)
    for kind in (torch.float64, torch.complex64, torch.int32):
        with pytest.raises(TypeError, match=r"use torch\.matmul"):
            gemmsmith.matmul(a.to(kind), b.to(kind), device=WHERE)


def test_a_tensor_on_the_cpu_names_the_simulator() -> None:
    with pytest.raises(TypeError, match='device="sim"'):
        gemmsmith.matmul(torch.ones(2, 3), torch.ones(3, 2))
    if ON_GPU:
        with pytest.raises(RuntimeError, match="simulator takes tensors of the CPU"):
            gemmsmith.matmul(randn(2, 3), randn(3, 2), device="sim")
        with pytest.raises(RuntimeError, match="b on the CPU"):
            gemmsmith.matmul(randn(2, 3), torch.ones(3, 2))


def test_the_simulator_computes_tensors_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for kind in (torch.float32, torch.bfloat16):
        a, b = torch.arange(15.0).reshape(3, 5).to(kind), torch.arange(10.0).reshape(2, 5).to(kind).T
        assert torch.equal(gemmsmith.matmul(a, b, device="sim"), a @ b)


VIEWS: dict[str, Any] = {
    "transposed": lambda: (randn(5, 6).T, randn(7, 5).T),
    "every second": lambda: (randn(12, 10)[::2, ::2], randn(10, 7)[::2]),
    "expanded": lambda: (randn(1, 5).expand(6, 5), randn(5, 1).expand(5, 7)),
    "offset": lambda: (randn(7, 6)[1:, 1:], randn(6, 8)[1:, 1:]),
    "one element": lambda: (randn(1, 1), randn(1, 1)),
    "permuted batch": lambda: (randn(6, 3, 5).permute(1, 0, 2), randn(7, 5, 3).permute(2, 1, 0)),
    "expanded batch": lambda: (randn(1, 6, 5).expand(3, 6, 5), randn(3, 5, 7)),
    "rank 4": lambda: (randn(2, 1, 6, 5), randn(3, 5, 7)),
    "rank 4, permuted": lambda: (randn(2, 6, 3, 5).transpose(1, 2), randn(2, 7, 3, 5).permute(0, 2, 3, 1)),
    "rank 3 by a matrix": lambda: (randn(2, 6, 5).transpose(0, 1), randn(5, 7)),
    "a matrix by rank 3": lambda: (randn(6, 5), randn(3, 5, 7)),
    "vectors": lambda: (randn(5), randn(5)),
    "a vector by rank 3": lambda: (randn(5), randn(3, 5, 7)),
    "rank 4 by a vector": lambda: (randn(2, 3, 6, 5), randn(10)[::2]),
    "empty rows": lambda: (randn(0, 5), randn(5, 7)),
    "empty depth": lambda: (randn(6, 0), randn(0, 7)),
    "empty batch": lambda: (randn(0, 6, 5), randn(5, 7)),
}  # fmt: skip


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", VIEWS)
def test_any_strides_and_gradients(how: str, kind: Any) -> None:
    a, b = (each.to(kind).detach().requires_grad_() for each in VIEWS[how]())
    a0, b0 = VIEWS[how]()
    if kind is torch.float32:
        a, b = a0.detach().requires_grad_(), b0.detach().requires_grad_()
    found, expected = gemmsmith.matmul(a, b, device=WHERE), a @ b
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    close(found, expected)
    for mine, other in zip(*(torch.autograd.grad(each.sum(), (a, b)) for each in (found, expected)), strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        close(mine, other)


@pytest.mark.parametrize(("kind", "wide"), [(torch.bfloat16, torch.float32), (torch.float16, torch.float32),
                                            (torch.int8, torch.int32), (torch.int8, torch.float32)])  # fmt: skip
def test_wider_results_on_request(kind: Any, wide: Any) -> None:
    a, b = (randn(*shape).mul(4).to(kind) for shape in ((6, 5), (5, 7)))
    for name in (wide, {torch.float32: "fp32", torch.int32: "int32"}[wide]):
        found = gemmsmith.matmul(a, b, out_dtype=name, device=WHERE)
        assert found.dtype is wide
        close(found.double(), a.double() @ b.double(), torch.float32)


def test_int8_wraps_around() -> None:
    a = torch.full((4, 16), 100, dtype=torch.int8, device=KIND)
    assert torch.equal(gemmsmith.matmul(a, a.T, device=WHERE).cpu(), a.cpu() @ a.cpu().T)


@pytest.mark.parametrize("grad", [False, True])
def test_parameters(grad: bool) -> None:
    x, weight = randn(6, 5), torch.nn.Parameter(randn(5, 7))
    with torch.set_grad_enabled(grad):
        found = gemmsmith.matmul(x, weight, device=WHERE)
    assert found.requires_grad is grad
    assert type(found) is torch.Tensor
    close(found, x @ weight)


def test_out() -> None:
    a, b = randn(6, 5), randn(5, 7)
    out = torch.empty(6, 7, device=KIND)
    assert gemmsmith.matmul(a, b, out=out, device=WHERE) is out
    close(out, a @ b)
    columns = torch.empty(7, 6, device=KIND).T
    close(gemmsmith.matmul(a, b, out=columns, device=WHERE), a @ b)
    square = randn(5, 5)
    expected = square @ square
    close(gemmsmith.matmul(square, square, out=square, device=WHERE), expected)
    with pytest.warns(UserWarning, match="resized"):
        assert gemmsmith.matmul(a, b, out=randn(2, 2), device=WHERE).shape == (6, 7)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        gemmsmith.matmul(a.requires_grad_(), b, out=out, device=WHERE)


def test_other_subclasses_are_refused() -> None:
    class Mine(torch.Tensor):
        pass

    with pytest.raises(TypeError, match=r"Mine, a subclass of torch\.Tensor"):
        gemmsmith.matmul(randn(6, 5).as_subclass(Mine), randn(5, 7), device=WHERE)
    with pytest.raises(TypeError, match="not a tensor"):
        gemmsmith.matmul(randn(6, 5), [[1.0]], device=WHERE)


@pytest.mark.filterwarnings("ignore")
def test_nested_tensors_are_refused_and_forwarded() -> None:
    """Their layout may be torch.strided, but they have neither sizes nor strides."""
    rows = [randn(6, 5), randn(3, 5)]
    nested = torch.nested.nested_tensor(rows)
    for function in (gemmsmith.matmul, gemmsmith.torch.linear):
        with pytest.raises(TypeError, match="nested tensor"):
            function(nested, randn(5, 5), device=WHERE)
    weight = randn(7, 5)
    with gemmsmith.torch.use(device=WHERE) as used:
        found = torch.nn.functional.linear(nested, weight)
    for part, row in zip(found.unbind(), rows, strict=True):
        close(part, torch.nn.functional.linear(row, weight))
    assert [(each.ours, each.why) for each in used.report().routes] == [(False, "a nested tensor")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [gemmsmith.matmul, gemmsmith.gemm, gemmsmith.torch.linear])
def test_nested_tensors_after_plain_ones_are_refused(function: Any) -> None:
    """What was computed before with the same second operand is looked up first, by guards that nested tensors abort."""
    rows, weight = [randn(6, 5), randn(3, 5)], randn(5, 5)
    for _ in range(3):
        function(rows[0], weight)
    with pytest.raises(TypeError, match="nested tensor"):
        function(torch.nested.nested_tensor(rows), weight)


def test_out_of_another_type() -> None:
    a, b = randn(6, 5), randn(5, 7)
    for kind in (torch.float64, torch.float16, torch.int64):
        with pytest.raises(RuntimeError, match=f"out is {kind}, and the result torch.float32"):
            gemmsmith.matmul(a, b, out=torch.empty(6, 7, device=KIND, dtype=kind), device=WHERE)
    for other in (np.empty((6, 7), np.float32), [1.0], 3):
        with pytest.raises(TypeError, match="not a tensor"):
            gemmsmith.matmul(a, b, out=other, device=WHERE)


def test_gemm_records_gradients() -> None:
    a, b, c, bias = randn(6, 5, grad=True), randn(5, 7, grad=True), randn(6, 7, grad=True), randn(7, grad=True)
    if not ON_GPU:
        return  # gemm takes tensors of the CPU in no way; the operator is tested with the others
    found = gemmsmith.gemm(a, b, c, alpha=2, beta=0.5, bias=bias, activation="gelu")
    expected = torch.nn.functional.gelu(2 * (a @ b) + 0.5 * c + bias)
    close(found, expected)
    for mine, other in zip(*(torch.autograd.grad(each.sum(), (a, b, c, bias)) for each in (found, expected)),
                           strict=True):  # fmt: skip
        close(mine, other)
    with pytest.raises(TypeError, match="kernel="):
        gemmsmith.gemm(a, b, kernel="naive")
    with torch.no_grad():
        assert not gemmsmith.gemm(a, b, kernel="naive").requires_grad


def test_gradients_in_batches() -> None:
    x, weight = randn(3, 4, grad=True), randn(4, 5, grad=True)
    seeds = randn(2, 3, 5)
    found, expected = (torch.autograd.grad(each, (x, weight), seeds, is_grads_batched=True)
                       for each in (gemmsmith.matmul(x, weight, device=WHERE), x @ weight))  # fmt: skip
    for mine, theirs in zip(found, expected, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("shape", [(1,), (3, 6), (1, 6)])
def test_a_bias_that_is_broadcast(shape: tuple[int, ...]) -> None:
    x, weight, bias = randn(3, 8), randn(6, 8), randn(*shape)
    close(gemmsmith.torch.linear(x, weight, bias, device=WHERE), torch.nn.functional.linear(x, weight, bias))


def test_use_as_a_decorator_and_by_name() -> None:
    used = gemmsmith.torch.use(device=WHERE)
    a, b = randn(3, 4), randn(4, 5)
    close(used(lambda: torch.matmul(input=a, other=b))(), a @ b)
    used(lambda: torch.einsum("ij,jk->ik", a, b))()
    assert [(each.name, each.ours) for each in used.report().routes] == [("matmul", True), ("einsum", False)]
