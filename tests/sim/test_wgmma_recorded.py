"""wgmma on the simulator, bit for bit as an H200 computed it: all types, layouts of operands, and N of many sizes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import wgmma_kernels as kernels
from tensor_core_recording import DATA
from wgmma_kernels import ARITHMETIC, LAYOUTS, Layout, Wgmma

from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

ARCH = "sm_90a"


@pytest.fixture(scope="module")
def recorded() -> dict[str, kernels.Array]:
    with np.load(DATA / "wgmma.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize("form", ARITHMETIC, ids=lambda form: form.name.removeprefix("wgmma.mma_async.sync.aligned."))
def test_arithmetic(form: Wgmma, recorded: dict[str, kernels.Array]) -> None:
    cases = kernels.thinned(form, kernels.arithmetic_cases(form, kernels.operands(form)))
    assert np.array_equal(kernels.run(SimDevice(ARCH), form, cases, ARCH), recorded[form.name])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.form.name)
def test_layouts(layout: Layout, recorded: dict[str, kernels.Array]) -> None:
    cases = kernels.thinned(layout.form, kernels.layout_cases(layout))
    assert np.array_equal(kernels.run(SimDevice(ARCH), layout.form, cases, ARCH), recorded[layout.name])


def test_a_late_product_is_the_same(recorded: dict[str, kernels.Array]) -> None:
    form = ARITHMETIC[0]
    cases = kernels.thinned(form, kernels.arithmetic_cases(form, kernels.operands(form)))
    device = SimDevice(ARCH, schedule=schedule_named("reversed"), hazards=True)
    assert np.array_equal(kernels.run(device, form, cases, ARCH), recorded[form.name])


def test_the_recording_says_where_it_comes_from(recorded: dict[str, kernels.Array]) -> None:
    assert "H200" in json.loads(recorded["metadata"].tobytes())["gpu"]
