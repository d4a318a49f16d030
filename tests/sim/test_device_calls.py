"""Calls: a failing assertion is a fault, printed text is dropped, every other function must be inlined."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import MY_WORD, kernel, launch, words

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.render import CompileRequest
from gemmsmith.errors import SimulationError, UnknownInstructionError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

SOURCE = """
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void k(int* A, int n) {
    int written = 7;
    if (threadIdx.x == 3) written = printf("%d of %d", A[0], n);
    if (threadIdx.x + blockIdx.x == n) __assertfail("i != n", "mine.cu", 7, "k", 1);
    A[blockIdx.x * blockDim.x + threadIdx.x] = written;
}
"""


def run(n: int) -> list[int]:
    compiled = compile_request(CompileRequest("mine.cu", SOURCE, (), (), "sm_90", "k"), find_toolchain())
    device = SimDevice()
    address = device.allocate(4 * 64)
    loaded = device.load(compiled)
    device.launch(
        loaded, Launch(Geometry((2, 1, 1), (32, 1, 1)), (address.to_bytes(8, "little"), np.int32(n).tobytes()))
    )
    values: list[int] = device.read(address, 4 * 64).view(np.int32).tolist()
    return values


def test_printing_does_nothing_and_gives_zero() -> None:
    assert run(-1) == ([7] * 3 + [0] + [7] * 28) * 2


def test_a_failing_assertion_is_reported_with_its_text_and_place() -> None:
    with pytest.raises(SimulationError) as caught:
        run(32)
    assert caught.value.message == "assertion failed: i != n"
    assert "mine.cu:7: " in caught.value.hint
    assert "block (1,0,0), thread (31,0,0)" in caught.value.hint


def test_an_assertion_whose_text_cannot_be_read() -> None:
    body = """mov.u64 %d1, 0;
    { .param .b64 a; st.param.b64 [a], %d1; .param .b64 b; .param .b32 c;
    .param .b64 d; .param .b64 e; call.uni __assertfail, (a, b, c, d, e); }"""
    with pytest.raises(SimulationError) as caught:
        launch(body, words(1))
    assert caught.value.message == "assertion failed"


def test_parameters_of_equal_names_belong_to_their_calls() -> None:
    """Two call scopes: each parameter keeps every lane's own value."""
    body = (
        MY_WORD
        + """{ .param .b32 x; st.param.b32 [x+0], %t; ld.param.b32 %r1, [x+0]; }
    { .param .b32 x; st.param.b32 [x+0], 5; ld.param.b32 %r2, [x+0]; }
    add.u32 %r1, %r1, %r2; st.global.u32 [%d9], %r1;"""
    )
    assert launch(body, words(32))[0].tolist() == [t + 5 for t in range(32)]


@pytest.mark.parametrize(
    "call",
    [
        "{ .param .b32 x; st.param.b32 [x+0], %t; call.uni dot, (x); }",
        "{ .param .b32 y; call.uni (y), dot, (y); ld.param.b32 %r1, [y]; }",
        "{ .param .align 8 .b8 s[16]; st.param.b64 [s+8], %d1; call dot, (s); }",
        "{ .param .align 8 .b8 s[16]; st.param.v2.b32 [s], {%r1, %r2}; call dot, (s); }",
        "{ .param .b64 w; st.param.b32 [w], %t; call.uni dot, (w); }",
    ],
)
def test_an_unknown_function_is_named_with_what_helps(call: str) -> None:
    with pytest.raises(UnknownInstructionError, match=r"device function 'dot'.*k\.cu:1") as caught:
        SimDevice().load_ptx(kernel(call, 1), "k")
    assert "__forceinline__" in caught.value.hint
    assert "-D NDEBUG" in caught.value.hint


@pytest.mark.parametrize("register", ["%clock64", "%smid", "%globaltimer"])
def test_an_unknown_special_register_is_named(register: str) -> None:
    with pytest.raises(UnknownInstructionError, match=f"special register '{register}'"):
        SimDevice().load_ptx(kernel(f"mov.u64 %d1, {register};", 1), "k")
