"""Labels in nested scopes, register declarations, branches by index, traps, literals and initial values."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_launch import run
from ptx_launch import MY_WORD, launch, words

from gemmsmith.errors import SimulationError
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.ptx.reader import parse


def test_a_label_may_occur_in_several_scopes() -> None:
    """Each loop jumps to the label of its own scope; the innermost is taken, wherever it stands."""
    body = (
        MY_WORD
        + """mov.u32 %r1, 0; mov.u32 %r2, 0;
    { LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra LOOP; }
    { bra SKIP; add.u32 %r1, %r1, 100; { LOOP: bra.uni LOOP; } SKIP: add.u32 %r1, %r1, 10; }
    { .reg .pred done; LOOP: add.u32 %r2, %r2, 1;
      { .reg .pred done; setp.ge.u32 done, %r2, 7; @done bra OUT; bra LOOP; OUT: }
      setp.lt.u32 done, %r2, 9; @done bra LOOP; OUT: }
    OUT: mad.lo.u32 %r1, %r1, 100, %r2; st.global.u32 [%d9], %r1;"""
    )
    assert launch(body, words(32))[0].tolist() == [1509] * 32


@pytest.mark.parametrize(
    "declaration",
    [
        ".reg .b32 a<3>, b;",
        ".reg.b32 a0, a1, a2, b;",
        ".reg .b32 a < 3 > ; .reg .b32 b;",
        ".reg .u32 a<3>; .reg .s32 b;",
    ],
)
def test_registers_are_declared_in_every_way(declaration: str) -> None:
    body = MY_WORD + f"{{ {declaration} add.u32 a2, %t, 1; {{ .reg .b32 a2; mov.u32 a2, 9; }} add.u32 b, a2, a2;"
    assert launch(body + "st.global.u32 [%d9], b; }", words(32))[0].tolist() == [2 * t + 2 for t in range(32)]


def test_a_guard_and_a_predicate_operand_may_be_negated() -> None:
    body = (
        MY_WORD
        + """setp.lt.u32 %p1, %t, 8; setp.lt.and.u32 %p2|%p3, %t, 20, !%p1; selp.u32 %r1, 1, 0, %p2;
    mov.u32 %r2, 0; @ !%p2 mov.u32 %r2, 4; @%p3 add.u32 %r2, %r2, 8; or.b32 %r1, %r1, %r2; st.global.u32 [%d9], %r1;"""
    )
    assert launch(body, words(32))[0].tolist() == [4] * 8 + [1] * 12 + [12] * 12


def test_a_branch_by_index_takes_the_label_of_its_table() -> None:
    body = (
        MY_WORD
        + """and.b32 %r1, %t, 3; brx.idx %r1, targets; targets: .branchtargets A, B, A, C;
    A: mov.u32 %r2, 10; bra.uni END; B: mov.u32 %r2, 20; bra.uni END; C: mov.u32 %r2, 30;
    END: st.global.u32 [%d9], %r2;"""
    )
    assert launch(body, words(32))[0].tolist() == [10, 20, 10, 30] * 8
    with pytest.raises(SimulationError, match=r"brx\.idx with index 4, and its table has 4 labels"):
        launch(body.replace("and.b32 %r1, %t, 3", "mov.u32 %r1, %t"), words(32))


def test_a_switch_of_the_compiler() -> None:
    cases = {0: "v += 1", 1: "v *= 3", 2: "v -= 7", 3: "v ^= 5", 4: "v += t", 5: "v |= 64", 6: "v *= t"}
    source = f"""extern "C" __global__ void k(int* out) {{
        int t = threadIdx.x, v = t;
        #pragma unroll 1
        for (int i = 0; i < 3; i++) switch ((t + i) % 9) {{
            {" ".join(f"case {n}: {code}; break;" for n, code in cases.items())} default: v = ~v; }}
        out[t] = v;
    }}"""
    (found,) = run(source, np.arange(32, dtype=np.int32))
    for t, value in enumerate(found.tolist()):
        names = {"v": t, "t": t}
        for i in range(3):
            exec(cases.get((t + i) % 9, "v = ~v"), names)  # noqa: S102 - the cases are C and Python alike
        assert value == names["v"]


@pytest.mark.parametrize("opcode", ["trap", "brkpt"])
def test_a_kernel_that_stops_itself_is_a_fault(opcode: str) -> None:
    body = f"setp.eq.u32 %p1, %t, 9;\n@%p1 {opcode};"
    with pytest.raises(SimulationError, match=f"{opcode}: the kernel stopped itself") as caught:
        launch(body, words(1))
    assert "k.cu:2" in caught.value.hint
    assert "thread (9,0,0)" in caught.value.hint
    launch(body.replace("%t, 9", "%t, 99"), words(1))


def test_literals_of_every_spelling() -> None:
    text = "{ mov.u32 %r1, 0b1011; mov.f32 %f1, 2.5; add.f32 %f1, %f1, -1e1; mov.u32 %r2, -0x10; mov.b32 %r3, %f1; }"
    body = MY_WORD + text + "xor.b32 %r1, %r1, %r2; st.global.u32 [%d9], %r1; st.global.u32 [%d9+128], %r3;"
    found = launch(body, words(64))[0]
    assert set(found[:32].tolist()) == {0b1011 ^ 0xFFFFFFF0}
    assert set(found[32:].view(np.float32).tolist()) == {-7.5}


def test_variables_hold_addresses_of_others() -> None:
    source = """__device__ int first = 7, second[3] = {1, 2, 3};
    __constant__ float weights[2][3] = {{1, 2, 3}, {4, 5, 6}};
    __device__ int* where[3] = {&first, second + 2, second};
    extern "C" __global__ void k(int* out, float* f) {
        int t = threadIdx.x; out[t] = *where[t % 3] + t; f[t] = weights[t % 2][t % 3]; }"""
    out, floats = run(source, np.zeros(32, np.int32), np.zeros(32, np.float32))
    assert out.tolist() == [(7, 3, 1)[t % 3] + t for t in range(32)]
    assert floats.tolist() == [3.0 * (t % 2) + t % 3 + 1 for t in range(32)]


def test_a_grid_constant_is_read_through_a_generic_pointer() -> None:
    source = """struct Big { int a[40]; };
    __device__ __noinline__ int pick(const int* a, int n) { return a[n]; }
    extern "C" __global__ void k(const __grid_constant__ Big b, int* out) {
        out[threadIdx.x] = pick(b.a, threadIdx.x + 3); }"""
    given = np.arange(40, dtype=np.int32) * 11
    (found,) = run(source, given.view("V160")[0], np.zeros(32, np.int32))
    assert found.tolist() == [11 * (t + 3) for t in range(32)]


def test_a_spaces_test() -> None:
    source = """__shared__ int s; __constant__ int c;
    extern "C" __global__ void k(int* out) { int mine = threadIdx.x; int* p[3] = {&s, out, &mine};
        int* q = p[threadIdx.x % 3]; out[threadIdx.x] = __isShared(q) + 2 * __isGlobal(q) + 4 * __isLocal(q); }"""
    assert run(source, np.zeros(32, np.int32))[0].tolist() == [(1, 2, 4)[t % 3] for t in range(32)]


def test_declarations_of_functions_are_read() -> None:
    module = parse(""".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
    .visible .func (.param .align 4 .b8 r[12]) pair(.param .b32 x, .param .align 8 .b8 y[16]) .noreturn
    { .reg .b32 %r<2>; L: ld.param.b32 %r0, [x]; st.param.b32 [r+4], %r0; ret; }
    .visible .entry k() { .reg .b32 %r<2>; L: mov.u32 %r0, 1; ret; }""")
    (function,) = module.entry("k").functions
    assert [v.size for v in (*function.results, *function.parameters)] == [12, 4, 16]
    assert set(dict(function.registers)).isdisjoint(dict(module.entry("k").registers))
    assert SimDevice().load_ptx(".visible .entry k() { ret; }", "k").lowered.start == 0
