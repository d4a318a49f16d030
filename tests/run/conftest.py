"""A fake GPU for the tests of the baselines."""

from __future__ import annotations

import pytest
from baseline_fakes import FakeDevice

from gemmsmith.run.baselines import (
    cublas,
    cublas_by_torch,
    cublas_by_wheel,
    cublaslt,
    triton_contender,
)


@pytest.fixture(name="device")
def _device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A fake GPU that holds every operand."""
    device = FakeDevice()
    for module in (cublas_by_torch, cublas_by_wheel, cublaslt, triton_contender):
        monkeypatch.setattr(module, "device_of", lambda _sets: device)
    return device


@pytest.fixture(name="no_torch")
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "usable_torch", lambda: None)
    monkeypatch.setattr(triton_contender, "usable_torch", lambda: None)
