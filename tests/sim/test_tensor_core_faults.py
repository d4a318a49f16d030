"""Matrix instructions that go wrong: bad addresses, part of a warp, forms that are not known, races."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import SCHEDULES, launch, scheduled, words

from gemmsmith.errors import SimulationError, UnknownInstructionError
from gemmsmith.sim.races.hazards import HazardError

ROOM = ".shared .align 16 .b8 room[1024];"
# %r10 is the byte offset of this thread's row of 16; every row is written, and the warp waits.
FILL = "shl.b32 %r10, %t, 4; st.shared.v4.u32 [%r10], {%t, %t, %t, %t}; bar.sync 0; mad.wide.u32 %d9, %t, 4, %b0;\n"
LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r11];"
KEEP = "st.global.u32 [%d9], %r1;"


def ldmatrix(
    address: str, load: str = LOAD, threads: int = 32, schedule: tuple[str, int] = ("lockstep", 0)
) -> list[int]:
    """Each thread's first register after ``address`` has computed %r11 and ``load`` has run."""
    body = f"{FILL}{address}\n{load}\n{KEEP}"
    return launch(body, words(threads), block=(threads, 1, 1), declarations=ROOM, schedule=scheduled(schedule))[
        0
    ].tolist()


def fault(address: str, load: str = LOAD, threads: int = 32) -> SimulationError:
    with pytest.raises(SimulationError) as error:
        ldmatrix(address, load, threads)
    return error.value


def test_rows_come_from_the_lanes_that_give_their_addresses() -> None:
    assert ldmatrix("xor.b32 %r11, %r10, 16;") == [lane // 4 ^ 1 for lane in range(32)]


def test_addresses_of_the_other_lanes_do_not_matter() -> None:
    assert ldmatrix("setp.gt.u32 %p1, %t, 7; selp.b32 %r11, 0xFFFFFFF3, %r10, %p1;") == [n // 4 for n in range(32)]


# As ptxas takes them.
ORDERS = ("sync.aligned.x1.m8n8.shared.b16", "sync.aligned.m8n8.shared.x1.b16", "aligned.sync.m8n8.x1.shared::cta.b16",
          "sync.aligned.shared.m8n8.x1.b16", "sync.aligned.m8n8.x1.b16.shared")  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_modifiers_of_ldmatrix_come_in_any_order(order: str) -> None:
    assert ldmatrix("mov.u32 %r11, %r10;", f"ldmatrix.{order} {{%r1}}, [%r11];") == [n // 4 for n in range(32)]
    plain = ldmatrix("mov.u32 %r11, %r10;", LOAD.replace(".shared", ".trans.shared"))
    for at in ("x1", "m8n8", "b16"):
        name = order.replace(at, f"{at}.trans")
        assert ldmatrix("mov.u32 %r11, %r10;", f"ldmatrix.{name} {{%r1}}, [%r11];") == plain


def test_ldmatrix_takes_generic_addresses_of_shared_memory() -> None:
    generic = "cvt.u64.u32 %d3, %r10; cvta.shared.u64 %d3, %d3;"
    assert ldmatrix(generic, "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%d3];") == [n // 4 for n in range(32)]
    error = fault("mov.u32 %r11, %r10;", "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%d9];")
    assert "ldmatrix.sync.aligned of global memory: its rows must be in shared memory" in str(error)


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_a_row_must_be_aligned(matrices: int) -> None:
    last = 8 * matrices - 1
    registers = ", ".join(f"%r{n + 1}" for n in range(matrices))
    error = fault(f"setp.eq.u32 %p1, %t, {last}; selp.b32 %r12, 8, 0, %p1; add.u32 %r11, %r10, %r12;",
                  f"ldmatrix.sync.aligned.m8n8.x{matrices}.shared.b16 {{{registers}}}, [%r11];")  # fmt: skip
    assert "misaligned shared read of 16 bytes" in str(error)
    assert "a multiple of 16" in str(error)
    assert f"thread ({last},0,0)" in error.hint
    assert "k.cu:3: ldmatrix" in error.hint


def test_a_row_must_lie_inside() -> None:
    error = fault("setp.eq.u32 %p1, %t, 5; selp.b32 %r11, 1024, %r10, %p1;")
    assert "out-of-bounds shared read of 16 bytes at address 0x400" in str(error)
    assert "thread (5,0,0)" in error.hint


def test_a_row_must_have_been_written() -> None:
    error = fault("setp.eq.u32 %p1, %t, 3; selp.b32 %r11, 512, %r10, %p1;")
    assert "uninitialised shared read of 16 bytes at address 0x200" in str(error)
    assert "thread (3,0,0)" in error.hint


def test_the_lane_is_named_in_later_warps_and_later_operations() -> None:
    load = f"{LOAD} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r11+16];"
    error = fault(
        "setp.eq.u32 %p1, %t, 35; selp.b32 %r11, 1008, 0, %p1; st.shared.v4.u32 [1008], {%t, %t, %t, %t};", load, 64
    )
    assert "out-of-bounds" in str(error)
    assert "[%r11+16]" in error.hint
    assert "thread (35,0,0)" in error.hint


# -- which lanes take part -----------------------------------------------------------------------------------

MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f5, %f6, %f7, %f8};"  # noqa: E501
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r10;"
STORE = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%t};"


@pytest.mark.parametrize("instruction", [LOAD, MMA, MOVE, STORE], ids=["ldmatrix", "mma", "movmatrix", "stmatrix"])
def test_a_short_warp_is_a_fault(instruction: str) -> None:
    error = fault("mov.u32 %r11, %r10;", instruction, threads=48)
    assert "needs all 32 lanes of a warp" in str(error)
    assert "thread (32,0,0)" in error.hint


@pytest.mark.parametrize("instruction", [LOAD, MMA, MOVE, STORE], ids=["ldmatrix", "mma", "movmatrix", "stmatrix"])
def test_a_warp_with_exited_lanes_is_a_fault(instruction: str) -> None:
    error = fault("mov.u32 %r11, %r10; setp.eq.u32 %p1, %t, 9; @%p1 ret;", instruction)
    assert "needs all 32 lanes of a warp" in str(error)


@pytest.mark.parametrize("instruction", [LOAD, MMA, MOVE, STORE], ids=["ldmatrix", "mma", "movmatrix", "stmatrix"])
def test_a_guard_must_hold_for_the_whole_warp(instruction: str) -> None:
    error = fault("mov.u32 %r11, %r10; setp.lt.u32 %p1, %t, 20;", f"@%p1 {instruction}")
    assert "by a part of a warp" in str(error)
    assert fault_free(f"mov.u32 %r11, %r10; setp.lt.u32 %p1, %t, 32; @%p1 {instruction}")


def test_a_guard_that_holds_for_halves_of_two_warps_is_a_fault() -> None:
    """Twice 32 consecutive lanes, each from two warps."""
    guard = "add.u32 %r2, %t, 16; and.b32 %r2, %r2, 63; setp.ge.u32 %p1, %r2, 32; mov.u32 %r11, 0;"
    with pytest.raises(SimulationError, match="by a part of a warp"):
        launch(f"st.shared.u32 [0], 1;\n{guard}\n@%p1 {MOVE}", words(1), block=(128, 1, 1), declarations=ROOM)


def fault_free(text: str) -> bool:
    return len(ldmatrix(text, "mov.u32 %r1, 0;", threads=64)) == 64


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_lanes_that_took_another_branch_are_waited_for(schedule: tuple[str, int]) -> None:
    branches = """and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2;
@%p1 bra ONE; @%p2 bra TWO; mov.u32 %r11, %r10; mov.u32 %r20, 0;
LOOP: add.u32 %r20, %r20, 1; setp.lt.u32 %p3, %r20, 9; @%p3 bra LOOP; bra MEET;
ONE: xor.b32 %r11, %r10, 0; bra MEET;
TWO: or.b32 %r11, %r10, 0;
MEET: bar.warp.sync -1;"""
    for text in (branches, branches.replace("bar.warp.sync -1;", "")):
        assert ldmatrix(text, threads=64, schedule=schedule) == [n // 32 * 32 + n % 32 // 4 for n in range(64)]


def test_lanes_that_never_arrive_are_reported() -> None:
    error = fault("mov.u32 %r11, %r10; setp.lt.u32 %p1, %t, 20; @%p1 bra OTHER;",
                  f"{LOAD} bra END; OTHER: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r11]; END:")  # fmt: skip
    assert "ldmatrix.sync.aligned never completes" in str(error)


# -- forms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1, %r2, %r3}, [%r10];",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r10];",
    "ldmatrix.sync.aligned.m8n8.shared.b16 {%r1}, [%r10];",
    "ldmatrix.sync.aligned.m8n8.x1.shared::cluster.b16 {%r1}, [%r10];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r10];",
    MMA.replace("row.col", "row.row"),
    MMA.replace("row.col", "col.row"),
    MMA.replace("sync.aligned.", "aligned."),
    MMA.replace("m16n8k8", "m16n8k16"),
    MMA.replace("f32.tf32.tf32.f32", "f32.tf32.bf16.f32"),
    MMA.replace("f32.tf32.tf32.f32", "f16.tf32.tf32.f16"),
    MMA.replace("row.col", "row.col.satfinite"),
    MMA.replace("mma.sync", "mma.sp.sync"),
    MMA.replace("{%r5, %r6}", "{%r5}"),
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1, %r2, %r3, %r4}, [%r10], %r5;",
    MMA.replace("f32.tf32.tf32.f32", "f32.f16.f16.f16"),
    MMA.replace("m16n8k8.row.col.f32.tf32.tf32.f32", "m16n8k16.row.col.s32.s8.s4.s32"),
    MMA.replace("f32.tf32.tf32.f32", "f32.bf16.f16.f32"),
    "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1, %r2}, "
    "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};",
    "wmma.load.a.sync.aligned.row.m32n8k16.shared.f16 {%r1, %r2, %r3, %r4}, [%r10], %r9;",
    "wmma.load.a.sync.aligned.row.m16n16k8.shared.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r10], %r9;",
    "wmma.load.a.sync.aligned.col.m8n8k32.shared.s4 {%r1}, [%r10], %r9;",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared::cluster.s8 {%r1, %r2}, [%r10], %r9;",
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.bf16 [%r10], {%r1, %r2, %r3, %r4}, %r9;",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.bf16.bf16.f16 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, "
    "{%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4};",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16.f16.f16 {%r1, %r2, %r3, %r4}, "
    "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, {%r1, %r2, %r3, %r4};",
])  # fmt: skip
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UnknownInstructionError, match=text.partition(".")[0]):
        ldmatrix("", text)


# -- races --------------------------------------------------------------------------------------------


def races(body: str) -> set[tuple[str, bool]]:
    with pytest.raises(HazardError) as error:
        launch(FILL + body, words(64), block=(64, 1, 1), declarations=ROOM, hazards=True)
    return {(h.kind, h.across_warps) for h in error.value.hazards}


def test_a_row_that_another_warp_reads_must_not_be_written() -> None:
    # Every warp reads the rows of the other and then writes its own.
    read = "xor.b32 %r11, %r10, 512; " + LOAD.replace("x1", "x4").replace("{%r1}", "{%r1, %r2, %r3, %r4}")
    store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10], {%t, %t, %t, %t};"
    assert races(f"{read}\n{store}") == {("write-after-read", True)}
    assert races(f"{store}\n{read}") == {("read-after-write", True)}
    other = store.replace("[%r10]", "[%r11]")
    assert races(f"xor.b32 %r11, %r10, 512;\n{store}\n{other}") == {("write-after-write", True)}
    launch(f"{FILL}{read}\nbar.sync 0;\n{store}", words(64), block=(64, 1, 1), declarations=ROOM, hazards=True)


def test_loads_and_stores_keep_their_order() -> None:
    """No barrier in between: only program order holds."""
    store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10], {%r20, %r20, %r20, %r20};"
    load = LOAD.replace("x1", "x4").replace("%r11", "%r10")
    for first, second in (("st.shared.v4.u32 [%r10], {%r20, %r20, %r20, %r20};", store), (store, store)):
        body = f"""{FILL}mov.u32 %r20, 7; mov.u32 %r21, 8; {first}
{load.replace("{%r1}", "{%r1, %r2, %r3, %r4}")} {second.replace("%r20", "%r21")}
{load.replace("{%r1}", "{%r5, %r6, %r7, %r8}")} shl.b32 %r5, %r5, 8; or.b32 %r1, %r1, %r5;
{KEEP}"""
        assert set(launch(body, words(32), declarations=ROOM)[0].tolist()) == {0x807}


def test_what_stmatrix_writes_ldmatrix_reads() -> None:
    values = np.arange(32, dtype=np.uint32) * 0x10001
    for trans in ("", ".trans"):
        body = f"""{FILL}ld.global.u32 %r2, [%d9]; mov.u32 %r11, %r10;
stmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 [%r11], {{%r2}};
bar.warp.sync -1;
ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r1}}, [%r11];
{KEEP}"""
        assert np.array_equal(launch(body, values, declarations=ROOM, hazards=True)[0], values)
