"""A short program for each instruction that is not lane-wise: memory, control, barriers, matrices, calls.

Each runs in one block of 32 threads, with 4 KiB of shared memory that has been written, and buffer 0 of 1,024 words.
%b0 is the buffer's address, %r20 its thread's 16 bytes of shared memory, %d1 its thread's 16 bytes of the buffer.
"""

from __future__ import annotations

DECLARATIONS = ".shared .align 128 .b8 room[4096]; .local .align 16 .b8 mine[32];"
PROLOGUE = """shl.b32 %r20, %t, 4; mul.wide.u32 %d1, %t, 16; add.s64 %d1, %d1, %b0;
st.shared.v4.u32 [%r20], {%t, %t, %t, %t}; st.shared.v4.u32 [%r20+512], {%t, %t, %t, %t}; bar.sync 0;
"""

_A8, _A4 = (f"{{{', '.join(f'%r{n}' for n in range(first, first + count))}}}" for first, count in ((1, 8), (11, 4)))
_C8, _C4 = (f"{{{', '.join(f'%f{n}' for n in range(count))}}}" for count in (8, 4))

EXAMPLES: dict[str, str] = {
    "lop3": "lop3.b32 %r1, %t, %t, %t, 0xE8;",
    "a division and a sum as one": "div.full.f32 %f1, %f2, %f3; add.f32 %f4, %f1, %f5; div.approx.f32 %f1, %f2, %f3;",
    "pack": "mov.b64 %d2, {%t, %t};",
    "unpack": "mov.b64 {%r1, _}, %d1;",
    "cvta": "cvta.to.global.u64 %d2, %d1; mov.u64 %d3, room; cvta.shared.u64 %d3, %d3; ld.u32 %r1, [%d3];",
    "ld, st": "ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%d1]; st.volatile.local.u32 [mine], %r1;",
    "ldu": "ldu.global.u32 %r1, [%d1];",
    "parameter of the kernel": "ld.param.u64 %d2, [p0]; mov.u64 %d3, p0; ld.param.v2.u32 {%r1, %r2}, [%d3];",
    "parameter of a call": "{ .param .b32 x; st.param.b32 [x], %t; ld.param.b32 %r1, [x]; }",
    "print": "{ .param .b64 a; .param .b64 b; .param .b32 r; call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }",
    "assert": """setp.gt.u32 %p1, %t, 99; @%p1 bra FAIL; bra.uni DONE; FAIL:
{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; call.uni __assertfail, (a, b, c, d, e); }
DONE: ret;""",
    "atom": "atom.relaxed.gpu.global.add.u32 %r1, [%b0], 1; atom.shared::cta.max.u32 _, [room], %t;",
    "red": "red.global.add.f32 [%b0], 0f3F800000;",
    "cp.async": """cp.async.ca.shared.global [%r20], [%d1], 8, 4;
cp.async.cg.shared.global.L2::128B [%r20+512], [%d1], 16; cp.async.commit_group;
cp.async.wait_group 0; cp.async.wait_all;""",
    "barriers": "bar.sync 0; barrier.sync.aligned 1; barrier.sync 2; bar.warp.sync -1;",
    "barriers with a count": """bar.sync 1, 32; barrier.cta.sync 2, 32; bar.arrive 3, 64; bar.sync 3, 64;
barrier.arrive.aligned 4, 64; barrier.sync.aligned 4, 64; barrier.arrive 5, 64; barrier.sync 5, 64; barrier.sync 6;""",
    "bar.red": """bar.red.popc.u32 %r1, 0, %p1; barrier.red.and.aligned.pred %p2, 0, %p1;
bar.red.or.pred %p2, 1, 32, %p1; barrier.red.popc.u32 %r1, 1, 32, %p1; barrier.red.or.pred %p2, 2, %p1;
barrier.red.popc.aligned.u32 %r1, 1, 32, %p1;""",
    "mbarrier": """setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [room+2048], 32; bar.sync 0;
mbarrier.arrive.shared.b64 %d2, [room+2048]; mbarrier.pending_count.b64 %r1, %d2;
mbarrier.test_wait.shared.b64 %p2, [room+2048], %d2; cp.async.mbarrier.arrive.shared.b64 [room+2048];
bar.sync 0; @%p1 mbarrier.inval.shared.b64 [room+2048];""",
    "sparse and bits": """setp.gt.u32 %p1, %t, 99;
@%p1 mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r3, %r4}, {%r5, %r6}, {%r1, %r2}, %r7, 0;
@%p1 wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%r1, %r2, %r3, %r4}, %d1, %d2, %r5, 0, %p1, 1, 1, 0, 0;
@%p1 wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r1, %r2, %r3, %r4}, %d1, %d2, %p1;""",
    "ordered accesses": """ld.acquire.gpu.global.u32 %r1, [%d1]; st.release.sys.global.u32 [%d1], %t;
prefetch.global.L2 [%d1]; applypriority.global.L2::evict_normal [%d1], 128; prefetchu.L1 [%d1];
createpolicy.fractional.L2::evict_last.b64 %d2, 1.0; nanosleep.u32 20;""",
    "votes": """setp.lt.u32 %p1, %t, 7; vote.sync.any.pred %p2, !%p1, -1; vote.sync.ballot.b32 %r1, %p1, -1;
match.any.sync.b32 %r1, %t, -1; match.all.sync.b64 %r1|%p3, %b0, -1; redux.sync.add.s32 %r1, %t, -1;
redux.sync.xor.b32 %r1, %t, -1; elect.sync %r1|%p2, -1; activemask.b32 %r2;""",
    "clocks": "mov.u32 %r1, %clock; mov.u64 %d2, %clock64; mov.u64 %d2, %globaltimer;",
    "branch by index": "and.b32 %r1, %t, 1; brx.idx %r1, either; either: .branchtargets ONE, TWO; ONE: TWO: ret;",
    "spaces": "isspacep.global %p1, %d1; isspacep.shared %p2, %d1;",
    "traps": "setp.gt.u32 %p1, %t, 99; @%p1 trap; @%p1 brkpt;",
    "stack": "stacksave.u64 %d2; alloca.u64 %d3, 16; st.local.u32 [%d3], %t; stackrestore.u64 %d2;",
    "fences": """membar.cta; fence.acq_rel.gpu; griddepcontrol.wait; griddepcontrol.launch_dependents;
fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster;""",
    "clusters": """mapa.shared::cluster.u32 %r1, %r20, 0; getctarank.shared::cluster.u32 %r2, %r1;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; setmaxnreg.inc.sync.aligned.u32 40;""",
    "bytes of an mbarrier": """setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [room+2048], 1;
fence.proxy.async; bar.sync 0; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [room+2048], 4;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [room+2048], 4;
mapa.shared::cluster.u32 %r1, %r20, 0; mov.u32 %r2, room; add.u32 %r2, %r2, 2048;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [room+2048], 516; mapa.shared::cluster.u32 %r3, %r2, 0;
st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r1], {%t, %t, %t, %t}, [%r3];
@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %t, [%r3];""",
    "TMA": """setp.eq.u32 %p1, %t, 0; setp.gt.u32 %p2, %t, 99; mov.u32 %r2, room;
@%p1 mbarrier.init.shared.b64 [room+2048], 1; fence.proxy.async; bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [room+2048], 64;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [room+1024], [%b0], 64, [room+2048];
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%b0], [room], 64; cp.async.bulk.commit_group;
@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%b0], [room], 64; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%d1, {%r1, %r1}], [%r2];
@%p2 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%d1, {%r1, %r1}], [%r2];
cp.async.bulk.prefetch.L2.global [%b0], 64; prefetch.tensormap [%d1];
@%p2 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r1, %r1}], [%r2];
@%p2 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d1, {%r1, %r1}];
L: mbarrier.try_wait.parity.shared.b64 %p3, [room+2048], 0; @!%p3 bra L;""",
    "tensor maps": """setp.gt.u32 %p2, %t, 99; @%p2 tensormap.replace.tile.box_dim.global.b1024.b32 [%b0], 1, 16;
@%p2 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%b0], [room], 128;
fence.proxy.tensormap::generic.acquire.gpu [%b0], 128; fence.proxy.tensormap::generic.release.gpu;
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
fence.acquire.sync_restrict::shared::cluster.cluster; fence.release.sync_restrict::shared::cta.cluster;""",
    # One warp is no warpgroup: the product may not run.
    "wgmma": f"""setp.gt.u32 %p1, %t, 99; wgmma.fence.sync.aligned;
@%p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {_C4}, %d1, %d2, %p1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;""",
    "shfl": "shfl.sync.bfly.b32 %r1|%p1, %t, 1, 31, -1;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r20];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r20], {%t};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %t;",
    "mma": f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_C4}, {_A4}, {{%r1, %r2}}, {_C4};",
    "mma of nibbles": f"mma.sync.aligned.m16n8k32.row.col.s32.s4.u4.s32 {_A4}, {{%r1, %r2}}, {{%r3}}, {_A4};",
    "mma of bits": """mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};""",
    "mma of quad pairs": f"mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32 {_C8}, {{%r1, %r2}}, {{%r3, %r4}}, {_C8};",
    "malloc, free": """{ .param .b64 size; .param .b64 block; st.param.b64 [size], 16; call.uni (block), malloc, (size);
ld.param.b64 %d2, [block]; } st.u32 [%d2], %t;
{ .param .b64 block; st.param.b64 [block], %d2; call.uni free, (block); }""",
    # Without a texture or surface none of these may run.
    "textures": """setp.gt.u32 %p1, %t, 99; @%p1 tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d1, {%f4, %f5}];
@%p1 tex.level.a1d.v4.s32.f32 {%r1, %r2, %r3, %r4}, [%d1, {%r5, %f4}], %f5;
@%p1 tld4.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d1, {%f4, %f5}];""",
    "surfaces": """setp.gt.u32 %p1, %t, 99; @%p1 suld.b.2d.v2.b16.trap {%h1, %h2}, [%d1, {%r1, %r2}];
@%p1 sust.b.a2d.v4.b32.clamp [%d1, {%r1, %r2, %r3, %r4}], {%r1, %r2, %r3, %r4};""",
    "exit": "setp.lt.u32 %p1, %t, 5; @%p1 exit;",
    "wmma": f"""
wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {_A8}, [room];
wmma.load.b.sync.aligned.col.m16n16k16.global.bf16 {_A4}, [%b0], 16;
wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {_C8}, [%b0];
wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {_C8}, {_A8}, {_A8}, {_C8};
wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 {_C8}, {_A4}, {_A4}, {_C8};
wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {{%r1, %r2}}, {{%r3}}, {{%r4}}, {{%r1, %r2}};
wmma.store.d.sync.aligned.col.m16n16k16.f32 [%b0+2048], {_C8}, 16;""",
}  # fmt: skip
