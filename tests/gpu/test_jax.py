"""gemmsmith with JAX: conventions, jit, grad, vmap. On a GPU through jax-tvm-ffi; without one on the CPU, where a
reference computes what the simulator would."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import record_conventions

import gemmsmith

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch's tests share the GPU
jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
ON_GPU = jax.default_backend() == "gpu"
WHERE = "" if ON_GPU else "sim"
TABLE = Path(__file__).parents[2] / "benchmarks" / "results" / "conventions_jax.json"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]


@pytest.fixture(autouse=True)
def _reference_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if not ON_GPU:
        import gemmsmith.frameworks.jax.calls

        def reference(a: Any, b: Any, *, out_dtype: Any, **_options: Any) -> Any:
            return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(out_dtype)

        monkeypatch.setattr(gemmsmith.frameworks.jax.calls, "plain_gemm", reference)


def tracing() -> bool:
    from gemmsmith.frameworks.jax.calls import _registered

    return not ON_GPU or _registered()


needs_tracing = pytest.mark.skipif(ON_GPU and not tracing(), reason="jax-tvm-ffi is not installed")


def randn(*shape: int, dtype: Any = "float32", seed: int = 0) -> Any:
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def matmul(a: Any, b: Any, **named: Any) -> Any:
    return gemmsmith.matmul(a, b, device=WHERE, **named)


def exact(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")


def close(found: Any, expected: Any) -> None:
    tolerance = {"float32": 2e-5, "float16": 5e-3, "bfloat16": 4e-2}.get(found.dtype.name, 0)
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected, np.float64), rtol=tolerance,
                               atol=tolerance * 4)  # fmt: skip


def test_jax_is_as_recorded_and_ours_is_jaxs() -> None:
    wrong = []
    for row in ROWS:
        live = record_conventions.of_jax(row)
        if live != {k: row[k] for k in live}:
            wrong.append((row, "live", live))
        mine = record_conventions.of_jax(row, matmul)
        if "error" in live and "error" in mine:
            kind = {"DepthError": "TypeError", "ProblemError": "ValueError", "DTypeError": "TypeError"}
            mine = {"error": kind.get(mine["error"], mine["error"])}
        if not {row["a"][0], row["b"][0]} <= set(record_conventions.COMPUTED):
            if mine != {"error": "DTypeError"} and mine != {"error": "TypeError"}:
                wrong.append((row, "mine", mine))
        elif mine != live:
            wrong.append((row, "mine", mine))
    assert wrong == []


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_values(kind: str) -> None:
    for a, b in ((randn(6, 5, dtype=kind), randn(5, 7, dtype=kind, seed=1)),
                 (randn(2, 1, 6, 5, dtype=kind), randn(3, 5, 7, dtype=kind, seed=1)),
                 (randn(130, 64, dtype=kind), randn(64, 72, dtype=kind, seed=1))):  # fmt: skip
        found = matmul(a, b)
        assert isinstance(found, jax.Array)
        assert found.dtype == a.dtype
        close(found, exact(a, b))
    assert matmul(a, b, out_dtype=jnp.float32).dtype == jnp.float32


@needs_tracing
def test_jit_grad_and_vmap() -> None:
    a, b = randn(6, 5), randn(5, 7, seed=1)
    close(jax.jit(lambda x, y: matmul(x, y) + 1)(a, b), exact(a, b) + 1)
    weights = randn(6, 7, seed=2)
    for mine, other in zip(*(jax.jit(jax.grad(lambda x, y, f=f: (f(x, y) * weights).sum(), (0, 1)))(a, b)
                             for f in (matmul, exact)), strict=True):  # fmt: skip
        close(mine, other)
    x = randn(4, 6, 5, seed=3)
    close(jax.jit(jax.vmap(matmul, (0, None)))(x, b), exact(x, b))
    close(jax.vmap(matmul, (None, 1), 1)(a, randn(5, 3, 7)), jax.vmap(exact, (None, 1), 1)(a, randn(5, 3, 7)))
    per_sample = jax.vmap(jax.grad(lambda w, q: (matmul(q, w) ** 2).sum()), (None, 0))(b, x)
    np.testing.assert_allclose(per_sample, jax.vmap(jax.grad(lambda w, q: (exact(q, w) ** 2).sum()), (None, 0))(b, x),
                               rtol=1e-4, atol=1e-3)  # fmt: skip
    batch = randn(2, 3, 6, 5), randn(3, 5, 7)
    for mine, other in zip(*(jax.grad(lambda p, q, f=f: jnp.sin(f(p, q)).sum(), (0, 1))(*batch)
                             for f in (matmul, exact)), strict=True):  # fmt: skip
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


@needs_tracing
def test_forward_mode_and_second_derivatives() -> None:
    x, w = randn(6, 5), randn(5, 4, seed=1)

    def both(of: Any) -> None:
        close(of(matmul), of(exact))

    both(lambda op: jax.jvp(lambda a, b: op(a, b), (x, w), (x + 1, w - 1))[1])
    both(lambda op: jax.hessian(lambda b: jnp.tanh(op(x, b)).sum())(w))
    both(lambda op: jax.jit(jax.linearize(lambda b: op(x, b), w)[1])(w + 2))
    both(lambda op: jax.vmap(lambda a: op(a, w))(randn(3, 6, 5, seed=2)))
    both(lambda op: jax.vmap(op, in_axes=(1, 2), out_axes=1)(randn(6, 3, 5, seed=2), randn(5, 4, 3, seed=3)))
    both(lambda op: jax.vmap(jax.vmap(op, (None, 0)), (0, None))(randn(2, 6, 5, seed=2), randn(3, 5, 4, seed=3)))
    both(lambda op: jax.jit(jax.vmap(jax.grad(lambda a, b: op(a, b).sum(), argnums=1), (0, None)))(
        randn(3, 6, 5, seed=2), w))  # fmt: skip


def test_what_is_refused() -> None:
    a, b = randn(6, 5), randn(5, 7)
    with pytest.raises(TypeError, match=r"jax\.numpy\.matmul"):
        matmul(a.astype(jnp.complex64), b)
    with pytest.raises(gemmsmith.GemmsmithError, match="cannot be written"):
        matmul(a, b, out=a)
    for other in ([[1.0]] * 5, None, "text"):
        with pytest.raises(TypeError):
            matmul(a, other)
    if not ON_GPU:
        with pytest.raises(TypeError, match='device="sim"'):
            gemmsmith.matmul(a, b)
        with pytest.raises(TypeError, match='device="sim"'):
            jax.jit(gemmsmith.matmul)(a, b)


@needs_tracing
@pytest.mark.parametrize(
    ("named", "kind", "text"),
    [
        ({"out_dtype": "float16"}, TypeError, "fp32 inputs give fp32, not fp16"),
        ({"out_dtype": np.float64}, TypeError, "no type of results"),
        ({"precision": "high"}, gemmsmith.GemmsmithError, "unknown precision 'high'"),
        ({"precision": jax.lax.Precision.HIGHEST}, gemmsmith.GemmsmithError, "unknown precision"),
        ({"deterministic": 1}, gemmsmith.GemmsmithError, "neither True nor False"),
    ],
)
def test_wrong_options_raise_outside_of_xla(named: dict[str, Any], kind: type[Exception], text: str) -> None:
    """An exception inside of XLA would be a JaxRuntimeError with a traceback for a message."""
    a, b = randn(6, 5), randn(5, 7)
    for function in (matmul, jax.jit(lambda x, y, **_: matmul(x, y, **named))):
        with pytest.raises(kind, match=text):
            function(a, b, **(named if function is matmul else {}))


def test_precision_that_operands_cannot_have() -> None:
    a = randn(6, 6, dtype="bfloat16")
    with pytest.raises(TypeError, match="is for fp32 operands, and these are bf16"):
        matmul(a, a, precision="tf32")
