"""A kernel is parsed and lowered once for all devices that share their loads, with variables of its module or not."""

from __future__ import annotations

import numpy as np
import pytest
from done_once import _load_ptx

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.render import CompileRequest
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import Loads, SimDevice
from gemmsmith.sim.ptx.reader import mentioned

UNUSED = 'constexpr int WIDTH = 7;\nextern "C" __global__ void k(int* out) { out[threadIdx.x] = WIDTH; }\n'
USED = '__device__ int last = 5;\nextern "C" __global__ void k(int* out) { out[threadIdx.x] = last; last += 1; }\n'


@pytest.fixture(autouse=True)
def without_the_cache_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimDevice, "load_ptx", _load_ptx)


def loaded(source: str, loads: Loads) -> tuple[object, list[int]]:
    compiled = compile_request(CompileRequest("mine.cu", source, (), (), "sm_90", "k"), find_toolchain())
    device = SimDevice()
    device.loads = loads
    kernel = device.load(compiled)
    out = device.allocate(4)
    device.launch(kernel, Launch(Geometry((1, 1, 1), (1, 1, 1)), (out.to_bytes(8, "little"),)))
    return kernel, device.read(out, 4).view(np.int32).tolist()


def test_a_constant_that_no_code_names_does_not_matter() -> None:
    loads: Loads = {}
    first, second = loaded(UNUSED, loads), loaded(UNUSED, loads)
    assert first[0] is second[0]
    assert first[1] == second[1] == [7]


def test_a_variable_starts_anew_on_each_device() -> None:
    loads: Loads = {}
    first, second = loaded(USED, loads), loaded(USED, loads)
    assert first[0] is second[0]  # variables are at the same addresses, whatever else a device has allocated
    assert first[1] == second[1] == [5]


def test_a_second_copy_of_a_variable_on_one_device_needs_code_of_its_own() -> None:
    compiled = compile_request(CompileRequest("mine.cu", USED, (), (), "sm_90", "k"), find_toolchain())
    device = SimDevice()
    device.loads = {}
    seen = []
    for kernel in [device.load(compiled), device.load(compiled)] * 2:
        out = device.allocate(4)
        device.launch(kernel, Launch(Geometry((1, 1, 1), (1, 1, 1)), (out.to_bytes(8, "little"),)))
        seen += device.read(out, 4).view(np.int32).tolist()
    assert seen == [5, 5, 6, 6]


def test_the_host_can_read_a_constant_after_each_load() -> None:
    compiled = compile_request(CompileRequest("mine.cu", UNUSED, (), (), "sm_90", "k"), find_toolchain())
    loads: Loads = {}
    for _ in range(2):
        device = SimDevice()
        device.loads = loads
        kernel = device.load(compiled)
        address, size = device.symbol(kernel, "WIDTH")
        assert device.read(address, size).view(np.int32).tolist() == [7]


def test_comments_mention_nothing() -> None:
    text = ".global .b32 a;\n// a\n.global .b64 b = generic(c);\n.global .b32 c;"
    assert not mentioned(text, ["a"])
    assert mentioned(text, ["a", "c"])
