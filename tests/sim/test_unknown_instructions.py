"""PTX that the simulator does not know raises, with the instruction's name and line; it never guesses."""

from __future__ import annotations

import pytest

from gemmsmith.errors import SimulationError, UnknownInstructionError
from gemmsmith.sim.device import SimDevice

# Real PTX; registers: p (predicate), h (16 bits), r (32 bits), d (64 bits).
UNKNOWN = """
cvt.rna.satfinite.tf32.f32 %r1, %r2
vadd.s32.s32.s32 %r1, %r2, %r3
shfl.idx.b32 %r1, %r2, %r3, %r4
atom.global.max.f32 %f1, [%d1], %f2
red.async.relaxed.cluster.global.add.u32 [%d1], %r1
ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1]
ld.global.v4.f64 {%d1, %d2, %d3, %d4}, [%d5]
ld.global.b128 %d1, [%d2]
ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r5]
stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r1], {%r2}
mma.sync.aligned.m8n8k16.row.col.s32.s8.s4.s32 {%r1, %r2}, {%r3}, {%r4}, {%r5, %r6}
mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r3, %r4}, {%r5, %r6}, {%r1, %r2}, %r7, 0x4
wmma.load.a.sync.aligned.row.m8n32k8.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1]
cp.async.cg.shared.global [%r1], [%d1], 8
mbarrier.arrive.noComplete.shared.b64 %d1, [%r1]
bar.red.popc.pred %p1, 0, %p2
bar.arrive 0
cp.async.ca.shared.global [%r1], [%d1], 16, %d2
membar.proxy.alias
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%r1, %r2, %r3, %r4}, %d1, %d2, %r5, 2, %p1, 1, 1, 0, 0
wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%r1, %r2, %r3, %r4, %r5, %r6}, %d1, %d2, %p1, 1, 1, 0, 0
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3}], [%r4]
multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%d1]
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %d1
tcgen05.wait::ld.sync.aligned
tex.cube.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%d1, {%r5, %r6, %r7, %r8}]
tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [texture, {%r5}]
sured.b.1d.add.u32.trap [%d1, {%r5}], %r1
txq.width.b32 %r1, [%d1]
vadd4.u32.u32.u32 %r1, %r2, %r3, %r4
atom.global.exch.b128 %d1, [%d2], %d3
atom.global.add.v2.u32 {%r1, %r2}, [%d1], {%r3, %r4}
red.global.exch.b32 [%d1], %r1
cvt.rs.f16x2.f32 %r1, %r2, %r3, %r4
redux.sync.add.f32 %r1, %r2, %r3
tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [texture, {%r5, %r6}]
brx.idx %r1, targets
call.uni helper, (%r1)
mov.u32 %r1, %dynamic_smem_size
mov.b128 %d1, {%d2, %d3}
""".strip().splitlines()


def load(instruction: str, mod32: bool = False) -> None:
    text = f"""
        .version 8.0
        .target sm_90
        .address_size 64
        .file 1 "kernel.cu"
        .visible .entry k()
        {{
            .reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
            .loc 1 77 5
            {instruction};
            ret;
        }}
    """
    SimDevice(mod32=mod32).load_ptx(text, "k")


@pytest.mark.parametrize("mod32", [False, True], ids=["ieee", "mod32"])
@pytest.mark.parametrize("instruction", UNKNOWN, ids=lambda text: text.split(" ", 1)[0])
def test_an_unknown_instruction_raises_and_is_named(instruction: str, mod32: bool) -> None:
    with pytest.raises(UnknownInstructionError) as caught:
        load(instruction, mod32)
    assert repr(instruction.split(" ", 1)[0]) in caught.value.message
    assert instruction in caught.value.message
    assert "kernel.cu:77" in caught.value.message
    assert "GPU" in caught.value.hint


@pytest.mark.parametrize(
    ("instruction", "says"),
    [("multimem.st.relaxed.sys.global.f32 [%d1], %f1", "several GPUs"),
     ("multimem.red.relaxed.sys.global.add.f32 [%d1], %f1", "several GPUs"),
     ("tcgen05.fence::before_thread_sync", "sm_100"), ("vadd4.u32.u32.u32 %r1, %r2, %r3, %r4", "--device gpu")],
)  # fmt: skip
def test_what_the_simulated_gpu_does_not_have_is_said(instruction: str, says: str) -> None:
    with pytest.raises(UnknownInstructionError) as caught:
        load(instruction)
    assert says in caught.value.hint


@pytest.mark.parametrize(
    "instruction",
    ["add.u32 %r1, %r2", "mov.b64 %d1", "ld.global.u32 %r1", "st.shared.u32 [%r1]", "ld.global.v2.u32 %r1, [%d1]",
     "ld.param.u32 %r1", "atom.global.add.u32 %r1, [%d1]", "red.global.add.u32 [%d1]", "bra", "bar.sync",
     "bar.warp.sync", "cp.async.wait_group", "cp.async.ca.shared.global [%r1], [%d1]", "shfl.sync.up.b32 %r1, %r2",
     "lop3.b32 %r1, %r2, %r3, %r4", "movmatrix.sync.aligned.m8n8.trans.b16 %r1", "membar.cta %r1",
     "wmma.load.c.sync.aligned.row.m16n16k16.f32 {%r1, %r2}", "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 %r1"],
)  # fmt: skip
def test_a_known_instruction_with_wrong_operands_is_named(instruction: str) -> None:
    with pytest.raises(UnknownInstructionError, match=r"kernel\.cu:77") as caught:
        load(instruction)
    assert instruction in caught.value.message


@pytest.mark.parametrize("name", ["add.sat.f32", "fma.rn.ftz.sat.f32", "mul.rz.sat.f32"])
def test_a_clamped_result_is_unknown_modulo_2_32(name: str) -> None:
    instruction = f"{name} %r1, %r2, %r3{', %r4' if name.startswith('fma') else ''}"
    load(instruction)
    with pytest.raises(UnknownInstructionError, match=rf"'{name}'"):
        load(instruction, mod32=True)


def test_a_known_instruction_in_the_same_kernel_loads() -> None:
    load("add.u32 %r1, %r2, %r3")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("L: add.u32 %r1, %r2, %r3; L: ret", "'L' occurs twice"),
        (".reg .b32", "register declaration"),
        (".shared .b24 x[4]", "unknown type .b24"),
        (".reg .b128 %q<2>", "no registers of type .b128"),
        (".reg .b24 %q", "no registers of type .b24"),
        ("{ add.u32 %r1, %r2, %r3", "unclosed brace"),
    ],
)
def test_text_that_cannot_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(SimulationError, match=says):
        load(text)


def test_a_missing_entry_is_named_and_the_entries_are_listed() -> None:
    with pytest.raises(SimulationError, match="no entry 'other'") as caught:
        SimDevice().load_ptx(".visible .entry k() { ret; }", "other")
    assert "k" in caught.value.hint
