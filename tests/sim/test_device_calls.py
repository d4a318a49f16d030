"""Calls: functions that were not inlined, recursion, pointers to functions, printf, assertions; others are refused."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_launch import run
from ptx_launch import MY_WORD, SCHEDULES, kernel, launch, scheduled, words

from gemmsmith.errors import SimulationError, UnknownInstructionError
from gemmsmith.sim.device import SimDevice

ASSERTS = """
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
extern "C" __global__ void k(int* A, int n) {
    if (threadIdx.x + blockIdx.x == n) __assertfail("i != n", "src/mine.cu", 7, "k", 1);
    A[blockIdx.x * blockDim.x + threadIdx.x] = 7;
}
"""
PRINTS = r"""
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void k(int* A) {
    int t = threadIdx.x;
    char name[4] = {(char)('a' + t), 0};
    const char* all = "%d of %5.2f|%s|%-4u|%x %c%% %lld %s\n";
    if (t % 16 == 3) A[t] = printf(all, t, t * 1.5, "text", 7u, 255, 'Z', -1ll << 40, name);
    if (t == 9) A[t] = printf("no arguments");
    if (t == 12) A[t] = printf("%*d|%.*f|%e|%g|%i", 6, t, 1, 2.25, 0.5, 1e-9, -3);
}
"""
FUNCTIONS = """
struct Pair { float x, y; int n; };
__device__ __noinline__ Pair scaled(Pair p, float s) { p.x *= s; p.y += s; p.n++; return p; }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int nested(const int* given, int n) {
    int mine[4];
    for (int i = 0; i < 4; i++) mine[i] = given[i] + n;
    return n == 0 ? mine[0] : mine[n & 3] + nested(mine, n - 1);
}
__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
typedef int (*Operation)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ int through(int a, int b) { return fib(a % 5) - b; }
__device__ Operation table[3] = {add, multiply, through};
struct Shape { __device__ virtual int area(int n) const { return n; } };
struct Square : Shape { __device__ int area(int n) const override { return n * n; } };
extern "C" __global__ void k(int* out, float* f) {
    int t = threadIdx.x, values[4] = {t, t + 1, t + 2, t + 3};
    out[t] = fib(t % 10);
    out[64 + t] = nested(values, t % 6);
    out[128 + t] = table[t % 3](t, 5);
    out[192 + t] = even(t % 7);
    Shape plain;
    Square square;
    const Shape* shape = t % 2 ? &plain : &square;
    out[256 + t] = shape->area(t);
    Pair p{(float)t, 1.f, t};
    p = scaled(p, 2.f);
    f[t] = p.x + p.y + p.n;
}
"""


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def nested(given: list[int], n: int) -> int:
    mine = [value + n for value in given]
    return mine[0] if n == 0 else mine[n & 3] + nested(mine, n - 1)


@pytest.mark.parametrize("schedule", [SCHEDULES[0], SCHEDULES[2], SCHEDULES[5]], ids=str)
def test_functions_call_each_other_and_themselves(schedule: tuple[str, int]) -> None:
    device = SimDevice(schedule=scheduled(schedule), count=True, hazards=True)
    out, floats = run(FUNCTIONS, np.zeros(320, np.int32), np.zeros(64, np.float32), block=64, device=device)
    t = range(64)
    assert out[:64].tolist() == [fib(i % 10) for i in t]
    assert out[64:128].tolist() == [nested([i, i + 1, i + 2, i + 3], i % 6) for i in t]
    assert out[128:192].tolist() == [(i + 5, i * 5, fib(i % 5) - 5)[i % 3] for i in t]
    assert out[192:256].tolist() == [int(i % 7 % 2 == 0) for i in t]
    assert out[256:].tolist() == [i if i % 2 else i * i for i in t]
    assert floats.tolist() == [3.0 * i + 4 for i in t]


def test_what_a_kernel_prints_is_collected_in_thread_order() -> None:
    device = SimDevice()
    (found,) = run(PRINTS, np.zeros(32, np.int32), device=device)
    first = "{} of {:5.2f}|text|7   |ff Z% -1099511627776 {}\n"
    assert sorted(device.prints) == sorted(
        [first.format(3, 4.5, "d"), first.format(19, 28.5, "t"), "no arguments", "    12|2.2|5.000000e-01|1e-09|-3"]
    )
    assert device.prints.index(first.format(3, 4.5, "d")) < device.prints.index(first.format(19, 28.5, "t"))
    assert {lane: int(n) for lane, n in enumerate(found) if n} == {3: 8, 12: 7, 19: 8}


def test_a_failing_assertion_is_reported_with_its_text_and_place() -> None:
    assert run(ASSERTS, np.zeros(64, np.int32), np.int32(-1), grid=2)[0].tolist() == [7] * 64
    with pytest.raises(SimulationError) as caught:
        run(ASSERTS, np.zeros(64, np.int32), np.int32(32), grid=2)
    assert caught.value.message == "assertion failed: i != n (mine.cu:7)"
    assert "mine.cu:4: " in caught.value.hint
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


def test_memory_of_the_device_runtime_is_given() -> None:
    source = """extern "C" __device__ void* malloc(size_t);
    extern "C" __global__ void k(void** A) { A[threadIdx.x] = malloc(64); }"""
    (blocks,) = run(source, np.zeros(32, np.uint64))
    assert len(set(blocks.tolist())) == 32
    assert blocks.all()


def test_launches_of_the_device_runtime_are_refused_by_name() -> None:
    call = "{ .param .b64 a; .param .b64 b; .param .b32 r; call.uni (r), cudaLaunchDeviceV2, (a, b); }"
    with pytest.raises(UnknownInstructionError, match=r"device function 'cudaLaunchDeviceV2'") as caught:
        SimDevice().load_ptx(kernel(call, 1), "k")
    assert "dynamic parallelism" in caught.value.hint


def test_endless_recursion_is_a_stack_overflow() -> None:
    source = """__device__ __noinline__ int deep(int n) { return n < 0 ? n : deep(n + 1) + n; }
    extern "C" __global__ void k(int* A) { A[threadIdx.x] = deep(threadIdx.x); }"""
    with pytest.raises(SimulationError, match="stack overflow: calls and alloca need more than") as caught:
        run(source, np.zeros(32, np.int32))
    assert "mine.cu:1" in caught.value.hint


def test_a_pointer_to_no_function_is_a_fault() -> None:
    body = """mov.u64 %d1, 64; { .param .b32 x; st.param.b32 [x], %t; call %d1, (x), any; }
    any: .callprototype _ (.param .b32 _);"""
    with pytest.raises(SimulationError, match="call of address 0x40, which is no function"):
        launch(body, words(1))


def test_the_stack_grows_and_shrinks() -> None:
    """alloca of a different size in each lane; what was allocated is given back."""
    body = (
        MY_WORD
        + """add.u32 %r1, %t, 1; shl.b32 %r1, %r1, 2; cvt.u64.u32 %d1, %r1; mov.u32 %r3, 0; mov.u32 %r4, 0;
    AGAIN: stacksave.u64 %d2; alloca.u64 %d3, %d1; cvta.local.u64 %d4, %d3; st.u32 [%d4], %t; add.u64 %d5, %d3, %d1;
    st.local.u32 [%d5+-4], %t; ld.local.u32 %r2, [%d3]; add.u32 %r3, %r3, %r2; stackrestore.u64 %d2;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 100; @%p1 bra AGAIN; st.global.u32 [%d9], %r3;"""
    )
    assert launch(body, words(32))[0].tolist() == [100 * t for t in range(32)]
    with pytest.raises(SimulationError, match="stack overflow"):
        launch(body.replace("stackrestore.u64 %d2;", ""), words(32))
