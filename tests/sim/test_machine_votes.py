"""vote, match, redux, elect, activemask and lane masks: whole warps, parts of warps, divergence and faults."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_launch import run
from ptx_launch import MY_WORD, SCHEDULES, Array, launch, scheduled, words

from gemmsmith.errors import SimulationError

LANES = range(32)


def results(body: str, count: int = 1, schedule: tuple[str, int] = ("lockstep", 0), block: int = 32) -> list[list[int]]:
    """Run a body that leaves its results in %r1, %r2, …; each result by lane."""
    stores = "".join(f"st.global.u32 [%d9+{4 * block * n}], %r{n + 1};" for n in range(count))
    (found,) = launch(MY_WORD + body + stores, words(block * count), schedule=scheduled(schedule), block=(block, 1, 1))
    return found.reshape(count, block).tolist()


def bits(lanes: list[int]) -> int:
    return sum(1 << lane for lane in lanes)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_votes_of_a_whole_warp(schedule: tuple[str, int]) -> None:
    body = """setp.lt.u32 %p1, %t, 5; vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.ballot.b32 %r2, !%p1, -1;
    vote.sync.any.pred %p2, %p1, -1; selp.u32 %r3, 1, 0, %p2; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2;
    vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r5, 1, 0, %p2;"""
    ballot, other, some, every, uniform = results(body, 5, schedule, block=64)
    assert ballot == [31] * 32 + [0] * 32
    assert other == [0xFFFFFFE0] * 32 + [0xFFFFFFFF] * 32
    assert (some, every, uniform) == ([1] * 32 + [0] * 32, [0] * 64, [0] * 32 + [1] * 32)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_parts_of_a_warp_that_vote_apart(schedule: tuple[str, int]) -> None:
    """Even and odd lanes are members of different masks, at one instruction and in different branches."""
    body = """and.b32 %r6, %t, 1; setp.eq.u32 %p3, %r6, 0; selp.b32 %r7, 0x55555555, 0xAAAAAAAA, %p3;
    setp.lt.u32 %p1, %t, 8; vote.sync.ballot.b32 %r1, %p1, %r7; redux.sync.add.u32 %r2, %t, %r7;
    elect.sync %r3|%p2, %r7; @!%p3 bra ODD; match.any.sync.b32 %r4, %r3, 0x55555555; activemask.b32 %r5; bra.uni END;
    ODD: shr.u32 %r8, %t, 3; match.any.sync.b32 %r4, %r8, 0xAAAAAAAA; mov.b32 %r5, 0;
    END: bar.warp.sync -1;"""
    ballot, total, leader, same, _ = results(body, 5, schedule)
    assert ballot == [0x55 if lane % 2 == 0 else 0xAA for lane in LANES]
    assert total == [sum(range(lane % 2, 32, 2)) for lane in LANES]
    assert leader == [lane % 2 for lane in LANES]
    assert same == [0x55555555 if lane % 2 == 0 else 0xAA << (lane // 8 * 8) for lane in LANES]


@pytest.mark.parametrize(
    ("name", "kind", "reduce"),
    [("add", "s32", np.add), ("min", "s32", np.minimum), ("max", "s32", np.maximum), ("min", "u32", np.minimum),
     ("max", "u32", np.maximum), ("add", "u32", np.add), ("and", "b32", np.bitwise_and), ("or", "b32", np.bitwise_or),
     ("xor", "b32", np.bitwise_xor)],
)  # fmt: skip
def test_reductions(name: str, kind: str, reduce: np.ufunc) -> None:
    values = np.random.default_rng(3).integers(0, 1 << 32, 32, dtype=np.uint32)
    typed: Array = values.view(np.int32 if kind == "s32" else np.uint32)
    body = f"""ld.global.u32 %r9, [%d9]; mov.b32 %r1, 0; setp.lt.u32 %p1, %t, 20; mov.u32 %r2, 0xFFFFF;
    @%p1 redux.sync.{name}.{kind} %r1, %r9, %r2; st.global.u32 [%d9], %r1;"""
    (found,) = launch(MY_WORD + body, values.copy())
    wanted = reduce.reduce(typed[:20], dtype=typed.dtype)
    assert found.view(typed.dtype).tolist() == [int(wanted)] * 20 + [0] * 12


def test_matches_of_words_and_doubles() -> None:
    body = """shr.u32 %r6, %t, 2; match.any.sync.b32 %r1, %r6, -1; cvt.u64.u32 %d1, %t; shl.b64 %d1, %d1, 33;
    match.any.sync.b64 %r2, %d1, -1; match.all.sync.b32 %r3|%p1, 7, -1; selp.u32 %r4, 1, 0, %p1;
    match.all.sync.b64 %r5|%p1, %d1, -1; @!%p1 add.u32 %r5, %r5, 9;"""
    same, own, everybody, agreed, differ = results(body, 5)
    assert same == [0xF << (lane // 4 * 4) for lane in LANES]
    assert own == [1 << lane for lane in LANES]
    assert (everybody, agreed, differ) == ([0xFFFFFFFF] * 32, [1] * 32, [9] * 32)


def test_lane_masks_and_numbers_of_the_machine() -> None:
    names = ("eq", "lt", "le", "gt", "ge")
    body = "".join(f"mov.u32 %r{n + 1}, %lanemask_{name};" for n, name in enumerate(names))
    found = results(body + "mov.u32 %r6, %warpid; mov.u32 %r7, %smid; mov.u32 %r8, %nsmid;", 8, block=64)
    full = (1 << 32) - 1
    below = [(1 << lane) - 1 for lane in LANES] * 2
    equal = [1 << lane for lane in LANES] * 2
    assert found[:2] == [equal, below]
    assert found[2] == [a | b for a, b in zip(equal, below, strict=True)]
    assert found[3] == [full & ~(a | b) for a, b in zip(equal, below, strict=True)]
    assert found[4] == [full & ~b for b in below]
    assert found[5:] == [[0] * 32 + [1] * 32, [0] * 64, [132] * 64]


def test_clocks_advance() -> None:
    body = """mov.u64 %d1, %clock64; mov.u32 %r6, %clock; mov.u64 %d2, %globaltimer; WAIT: mov.u64 %d3, %clock64;
    sub.u64 %d4, %d3, %d1; setp.lt.u64 %p1, %d4, 500; @%p1 bra WAIT; mov.u64 %d5, %globaltimer; mov.u32 %r7, %clock;
    setp.gt.u64 %p2, %d5, %d2; selp.u32 %r1, 1, 0, %p2; setp.gt.u32 %p2, %r7, %r6; selp.u32 %r2, 1, 0, %p2;"""
    assert results(body, 2) == [[1] * 32, [1] * 32]


@pytest.mark.parametrize("text", ["vote.sync.any.pred %p2, %p1, 0xFFFE", "match.any.sync.b32 %r1, %t, 0xFFFE",
                                  "redux.sync.add.u32 %r1, %t, 0xFFFE", "elect.sync %r1|%p1, 0xFFFE"])  # fmt: skip
def test_a_lane_outside_its_mask_is_a_fault(text: str) -> None:
    with pytest.raises(
        SimulationError, match=rf"{text.split('.', maxsplit=1)[0]}\.sync by a lane that its own member mask leaves"
    ):
        launch(f"{text};", words(1))


def test_a_member_that_never_arrives_is_a_fault() -> None:
    """Lanes may meet at different places, but not at different instructions."""
    one, other = (f"vote.sync.{mode}.pred %p2, %p1, -1;" for mode in ("any", "all"))
    with pytest.raises(SimulationError, match=r"vote\.sync never completes"):
        launch(f"setp.lt.u32 %p1, %t, 9; @%p1 bra W; {one} ret; W: {other}", words(1))


def test_intrinsics_of_cuda() -> None:
    source = """extern "C" __global__ void k(unsigned* out) {
        int t = threadIdx.x;
        unsigned ballot = __ballot_sync(~0u, t % 3 == 0);
        unsigned rank = __popc(ballot & ((1u << t) - 1)), leader = __ffs(ballot) - 1;
        out[t] = ballot; out[32 + t] = rank; out[64 + t] = leader;
        out[96 + t] = __reduce_max_sync(~0u, (unsigned)(t * 7 % 32)) + __all_sync(~0u, t < 40);
        unsigned sum = t;
        for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
        out[128 + t] = __shfl_sync(~0u, sum, 0);
        out[160 + t] = __fns(0x80808080u, 0, 1 + t % 4);
        out[192 + t] = __shfl_up_sync(~0u, t, 3, 8) + __shfl_xor_sync(~0u, t, 5);
    }"""
    (found,) = run(source, words(224))
    ballot = bits([lane for lane in LANES if lane % 3 == 0])
    rows = found.reshape(7, 32).tolist()
    assert rows[0] == [ballot] * 32
    assert rows[1] == [(lane + 2) // 3 for lane in LANES]
    assert rows[2:5] == [[0] * 32, [32] * 32, [496] * 32]
    assert rows[5] == [8 * (1 + lane % 4) - 1 for lane in LANES]
    assert rows[6] == [(lane - 3 if lane % 8 >= 3 else lane) + (lane ^ 5) for lane in LANES]
