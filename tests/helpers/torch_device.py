"""Where tests of torch run: on the GPU; without one, on the CPU, where a reference computes what kernels would.

CI has no torch. ``pytest -m gpu tests/gpu`` runs these tests, on a GPU or not; the kernels themselves need one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ON_GPU = torch.cuda.is_available()
KIND = "cuda" if ON_GPU else "cpu"
WHERE = "" if ON_GPU else "sim"  # the argument device= of our functions


def reference(a: Any, b: Any, c: Any = None, *, alpha: float = 1, beta: float = 0, bias: Any = None,
              activation: str = "", out_dtype: Any = "", out: Any = None, **_options: Any) -> Any:  # fmt: skip
    """``gemm`` of NumPy arrays, in float64."""
    from gemmsmith.problem import dtype_named
    from gemmsmith.run.tensors import dtype_name

    wide = alpha * (np.asarray(a, np.float64) @ np.asarray(b, np.float64))
    if beta:
        wide = wide + beta * np.asarray(c, np.float64)
    if bias is not None:
        wide = wide + np.asarray(bias, np.float64)
    if activation:
        functions = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
        wide = functions[activation](torch.from_numpy(wide)).numpy()
    kind = dtype_named(dtype_name(out_dtype) or "fp32").numpy
    result = wide.astype(np.int64).astype(kind) if kind.kind == "i" else wide.astype(kind)
    if out is not None:
        out[...] = result
        return out
    return result


@pytest.fixture(autouse=True)
def reference_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be imported by test modules: the reference in place of kernels where there is no GPU."""
    if not ON_GPU:
        import gemmsmith.frameworks.torch.launch

        monkeypatch.setattr(gemmsmith.frameworks.torch.launch, "plain_gemm", reference)


def randn(*shape: int, dtype: Any = torch.float32, grad: bool = False, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    made = torch.randn(*shape, generator=generator).to(dtype).to(KIND)
    return made.requires_grad_() if grad else made


def close(found: Any, expected: Any, dtype: Any = None) -> None:
    """Equal within the rounding of the type."""
    kind = dtype or expected.dtype
    tolerance = {torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 6e-2}.get(kind, 0)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * 4)
