"""Accesses that a GPU would fault on: each message names what, instruction, source line, block, thread, address."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import launch, words

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.render import CompileRequest
from gemmsmith.errors import SimulationError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.lowering.shared_arrays import plain_name
from gemmsmith.sim.schedule import schedule_named

ROOM = ".shared .align 16 .b8 room[256]; .local .align 16 .b8 mine[32];"
# Only thread 37 of block 2 does it. %d1: byte 148 of buffer 0, which has 252; %r5: byte 148 of the room, of which 156
# are written.
ONLY = """mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 2; setp.eq.and.u32 %p1, %t, 37, %p1; mul.wide.u32 %d1, %t, 4;
add.s64 %d1, %d1, %b0; shl.b32 %r5, %t, 2; mov.u64 %d3, 0; setp.lt.u32 %p2, %t, 39; @%p2 st.shared.u32 [%r5], 1;
"""
FAULTS = {
    "past the end": ("ld.global.u32 %r2, [%d1+1000]", "out-of-bounds global read of 4 bytes", "past the end"),
    "just past the end": ("st.global.u32 [%d1+104]", "out-of-bounds global write of 4 bytes", "0 bytes past the end"),
    "before the start": ("ld.global.u32 %r2, [%d1+-152]", "out-of-bounds global read", "4 bytes before a 252-byte"),
    "over the end": ("ld.global.v2.u32 {%r2, %r3}, [%d1+100]", "out-of-bounds global read of 8 bytes", "runs over"),
    "null": ("ld.global.u32 %r2, [%d3]", "out-of-bounds global read of 4 bytes at address 0x0", "null pointer"),
    "generic null": ("ld.u32 %r2, [%d3]", "out-of-bounds generic read of 4 bytes at address 0x0", "null pointer"),
    "atomic": ("atom.global.add.u32 %r2, [%d1+1000], %r2", "out-of-bounds global atomic update", "past the end"),
    "misaligned word": ("ld.global.u32 %r2, [%d1+2]", "misaligned global read of 4 bytes", "a multiple of 4"),
    "misaligned vector": ("ld.global.v4.u32 {%r2, %r3, %r7, %r8}, [%d1+4]", "misaligned global read of 16", "of 16"),
    "misaligned shared": ("st.shared.u64 [%r5]", "misaligned shared write of 8 bytes", "a multiple of 8"),
    "shared past the end": ("ld.shared.u32 %r2, [%r5+252]", "out-of-bounds shared read", "256 bytes of shared"),
    "shared below zero": ("ld.shared.u32 %r2, [%r5+-152]", "out-of-bounds shared read", "256 bytes of shared"),
    "uninitialised shared": ("ld.shared.u32 %r2, [%r5+8]", "uninitialised shared read", "no thread has written"),
    "half initialised": ("ld.shared.v2.u32 {%r2, %r3}, [%r5+4]", "uninitialised shared read", "no thread has"),
    "uninitialised local": ("ld.local.u32 %r2, [mine+4]", "uninitialised local read of 4 bytes", "no thread has"),
    "local past the end": ("ld.local.u32 %r2, [mine+32]", "out-of-bounds local read", "32 bytes of local"),
    "copy from nowhere": ("cp.async.ca.shared.global [%r5], [%d1+1000], 4", "out-of-bounds global asynch", "past"),
    "copy to nowhere": ("cp.async.ca.shared.global [%r5+252], [%d1], 4", "out-of-bounds shared asynch", "256"),
    "misaligned copy": ("cp.async.cg.shared.global [%r5], [%d1], 16", "misaligned shared asynchronous copy", "of 16"),
}  # fmt: skip


@pytest.mark.parametrize("late", ["lockstep", "reversed"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_instruction_line_block_thread_and_address(name: str, late: str) -> None:
    text, kind, detail = FAULTS[name]
    store = {"st.global.u32 [%d1+104]": ", %r2", "st.shared.u64 [%r5]": ", %d1"}.get(text, "")
    body = ONLY + f"@%p1 {text}{store};\nst.global.u32 [%b0], 1;"
    with pytest.raises(SimulationError) as caught:
        launch(body, words(63), grid=(4, 1, 1), block=(40, 1, 1), declarations=ROOM, schedule=schedule_named(late))
    assert kind in caught.value.message
    assert detail in caught.value.message
    assert "at address 0x" in caught.value.message
    assert f"k.cu:3: @%p1 {text}" in caught.value.hint
    assert "block (2,0,0), thread (37,0,0)" in caught.value.hint


def test_between_two_allocations() -> None:
    body = "ld.global.u32 %r1, [%b0+4096];\nst.global.u32 [%b1], %r1;"
    with pytest.raises(SimulationError, match="4032 bytes past the end of a 64-byte allocation"):
        launch(body, words(16), words(16))


def test_one_lane_among_several_allocations_is_found() -> None:
    """Lanes read three allocations; the one that reads none of them is named."""
    body = """
    mov.u64 %d1, %b0; and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2; setp.eq.u32 %p3, %t, 23;
    @%p1 mov.u64 %d1, %b1;
    @%p2 mov.u64 %d1, %b2;
    @%p3 add.s64 %d1, %d1, 64;
    ld.global.u32 %r2, [%d1];
    """
    with pytest.raises(SimulationError, match="out-of-bounds global read") as caught:
        launch(body, words(16), words(16), words(16))
    assert "thread (23,0,0)" in caught.value.hint


@pytest.mark.parametrize("space", ["global", "shared"])
def test_the_lane_of_an_atomic_that_faults_is_found(space: str) -> None:
    """All lanes update memory; only lane 23 misses it."""
    at = "%r5" if space == "shared" else "%d1"
    body = f"""
    shl.b32 %r5, %t, 2; st.shared.u32 [%r5], 0; setp.eq.u32 %p3, %t, 23;
    mul.wide.u32 %d1, %t, 4; add.s64 %d1, %d1, %b0;
    @%p3 add.u32 %r5, %r5, 4096;
    @%p3 add.s64 %d1, %d1, 4096;
    atom.{space}.add.u32 %r1, [{at}], 1;
    """
    with pytest.raises(SimulationError, match=f"out-of-bounds {space} atomic update of 4 bytes") as caught:
        launch(body, words(32), declarations=ROOM)
    assert "thread (23,0,0)" in caught.value.hint


def test_a_two_dimensional_place_is_named() -> None:
    body = "mov.u32 %r1, %tid.y; setp.eq.u32 %p1, %r1, 3; setp.eq.and.u32 %p1, %t, 5, %p1; mov.u64 %d1, 8;\n"
    with pytest.raises(SimulationError) as caught:
        launch(body + "@%p1 ld.global.u32 %r2, [%d1];", words(1), grid=(2, 2, 2), block=(7, 4, 2), blocks=[7])
    assert "block (1,1,1), thread (5,3,0)" in caught.value.hint


def test_a_pointer_into_a_freed_allocation() -> None:
    device = SimDevice()
    address = device.allocate(64)
    device.free(address)
    with pytest.raises(SimulationError, match="host copy of 4 bytes"):
        device.read(address, 4)


def test_bytes_of_a_word_are_tracked_one_by_one() -> None:
    body = "mov.u32 %r5, 0; mov.u16 %h1, 7;\nst.shared.u8 [%r5], %h1;\nst.shared.u8 [%r5+1], %h1;\n"
    body += "ld.shared.u16 %h2, [%r5];\nst.global.u16 [%b0], %h2;"
    assert launch(body, words(1), declarations=ROOM)[0][0] == 0x0707
    with pytest.raises(SimulationError, match="uninitialised shared read of 4 bytes"):
        launch(body + "\nld.shared.u32 %r1, [%r5];", words(1), declarations=ROOM)


@pytest.mark.parametrize("schedule", ["lockstep", "random"])
def test_one_instruction_through_pointers_to_several_memories(schedule: str) -> None:
    """Loads, stores and atomics whose lanes reach shared, local and global memory; a fault still names its lane."""
    body = """
    mov.u64 %d1, room; cvta.shared.u64 %d1, %d1; setp.lt.u32 %p1, %t, 16; st.shared.u32 [room], 70;
    mov.u64 %d3, own; cvta.local.u64 %d3, %d3; st.local.u32 [own], 500; bar.sync 0;
    selp.b64 %d2, %d1, %b0, %p1; setp.ge.u32 %p2, %t, 24; selp.b64 %d2, %d3, %d2, %p2;
    ld.u32 %r1, [%d2]; ld.u32 %r5, [%d2];
    bar.sync 0;
    atom.add.u32 %r2, [%d2], 1; mad.wide.u32 %d4, %t, 4, %b1; add.u32 %r1, %r1, %r5;
    st.global.u32 [%d4], %r1;
    """
    room = ROOM + " .local .align 8 .b8 own[8];"
    first = np.full(1, 9, np.uint32)
    kept, found = launch(body, first, words(32), declarations=room, schedule=schedule_named(schedule), hazards=True)
    assert found.tolist() == [140] * 16 + [18] * 8 + [1000] * 8
    assert kept.tolist() == [9 + 8]
    with pytest.raises(SimulationError, match="out-of-bounds generic read") as caught:
        launch(body.replace("ld.u32 %r1, [%d2]", "ld.u32 %r1, [%d2+4096]"), first, words(32), declarations=room)
    assert "k.cu:4" in caught.value.hint


SOURCE = """extern "C" __global__ void k(float* A, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 60)
        tile[threadIdx.x] = A[i];
    __syncthreads();
    float sum = tile[threadIdx.x];
    A[i + n] = sum;
}
"""


@pytest.mark.parametrize(("n", "line", "what"), [(0, 7, "uninitialised shared read"), (-1, 5, "out-of-bounds global")])
def test_the_line_is_that_of_the_cuda_source(n: int, line: int, what: str) -> None:
    compiled = compile_request(CompileRequest("mine.cu", SOURCE, (), (), "sm_90", "k"), find_toolchain())
    device = SimDevice()
    address = device.allocate(4 * (64 if n == 0 else 32))
    loaded = device.load(compiled)
    arguments = (address.to_bytes(8, "little"), np.int32(n).tobytes())
    with pytest.raises(SimulationError, match=what) as caught:
        device.launch(loaded, Launch(Geometry((1, 1, 1), (64, 1, 1)), arguments))
    assert f"mine.cu:{line}: " in caught.value.hint
    assert f"thread ({60 if n == 0 else 32},0,0)" in caught.value.hint


@pytest.mark.parametrize(("mangled", "name"), [
    ("_ZZ5sgemmE2As", "As"), ("_ZZ1kPfE4tile_0", "tile"), ("_ZN4mine4tileE", "tile"), ("room", "room"),
    ("_ZN50_GLOBAL__N__00000000_11_pingpong_cu_5b66a8ca_2242312dynamic_smemE", "dynamic_smem"),
])  # fmt: skip
def test_the_name_of_a_shared_array(mangled: str, name: str) -> None:
    assert plain_name(mangled) == name
