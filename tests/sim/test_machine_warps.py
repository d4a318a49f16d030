"""shfl.sync by the PTX manual's own pseudo-code, and atomic additions."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words

from gemmsmith.errors import SimulationError


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that is read, and the predicate, as the manual writes them."""
    segment, clamp, b = c >> 8 & 31, c & 31, b & 31
    most, least = (lane & segment) | (clamp & ~segment), lane & segment
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | (b & ~segment)}[mode]
    valid = j >= most if mode == "up" else j <= most
    return (j if valid else lane), valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("segments", [32, 16, 8, 4])
def test_shuffles(mode: str, segments: int) -> None:
    c = (32 - segments) << 8 | (0 if mode == "up" else 31)
    for b in (0, 1, 2, 3, 7, 15, 16, 31):
        body = (
            MY_WORD
            + f"""
        add.u32 %r1, %r32, 100;
        shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1;
        selp.u32 %r3, 1, 0, %p1; shfl.sync.{mode}.b32 %r4, %r1, {b}, {c}, -1;
        mul.wide.u32 %d1, %r32, 12; add.s64 %d1, %d1, %b0;
        st.global.u32 [%d1], %r2; st.global.u32 [%d1+4], %r3; st.global.u32 [%d1+8], %r4;
        """
        )
        (found,) = launch(body, np.zeros((128, 3), np.uint32), grid=(2, 1, 1), block=(64, 1, 1))
        for t, row in enumerate(found.tolist()):
            source, valid = shuffled(mode, t % 32, b, c)
            assert row == [t // 32 * 32 + source + 100, int(valid), t // 32 * 32 + source + 100]


def test_a_shuffle_may_take_its_lane_from_a_register() -> None:
    body = MY_WORD + "sub.u32 %r1, 31, %t;\nshfl.sync.idx.b32 %r2, %t, %r1, 31, -1;\nst.global.u32 [%d9], %r2;"
    assert launch(body, words(32))[0].tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_butterfly_sum(schedule: tuple[str, int]) -> None:
    body = MY_WORD + "mov.u32 %r1, %r32;\n"
    for step in (16, 8, 4, 2, 1):
        body += f"shfl.sync.bfly.b32 %r2, %r1, {step}, 31, -1;\nadd.u32 %r1, %r1, %r2;\n"
    (found,) = launch(
        body + "st.global.u32 [%d9], %r1;", words(192), grid=(2, 1, 1), block=(96, 1, 1), schedule=scheduled(schedule)
    )
    assert found.tolist() == [sum(range(t // 32 * 32, t // 32 * 32 + 32)) for t in range(192)]


def test_reading_an_exited_lane_is_an_error() -> None:
    body = "setp.ge.u32 %p1, %t, 16;\n@%p1 exit;\nshfl.sync.bfly.b32 %r1, %t, 16, 31, -1;"
    with pytest.raises(SimulationError, match="lane that does not take part") as caught:
        launch(body, words(1))
    assert "k.cu:3" in caught.value.hint


@pytest.mark.parametrize("grid", [1, 2])
def test_reading_beyond_a_short_warp_is_an_error(grid: int) -> None:
    """Blocks of 20 threads: lane 4 + 16 does not exist, although the arrays have another block's lane there."""
    with pytest.raises(SimulationError, match="lane that does not take part") as caught:
        launch("shfl.sync.down.b32 %r1, %t, 16, 31, -1;", words(1), grid=(grid, 1, 1), block=(20, 1, 1))
    assert "block (0,0,0), thread (4,0,0)" in caught.value.hint


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("kind", ["u32", "s32", "u64"])
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomic_additions_of_integers(space: str, kind: str, schedule: tuple[str, int]) -> None:
    value = "%d5" if kind == "u64" else "%r5"
    width = kind[1:]
    where = "[room]" if space == "shared" else "[%b0]"
    suffix = "" if space == "generic" else f".{space}"
    body = "setp.eq.u32 %p1, %t, 0; add.u32 %r5, %t, 1; cvt.u64.u32 %d5, %r5; mov.u64 %d6, 0;\n"
    body += "@%p1 st.shared.u64 [room], %d6;\nbar.sync 0;\n"
    body += f"red{suffix}.add.{kind} {where}, {value};\nbar.sync 0;\n"
    if space == "shared":
        body += f"ld.shared.b{width} {value}, [room];\n@%p1 st.global.b{width} [%b0], {value};"
    (found,) = launch(body, np.zeros(1, np.uint64), block=(100, 1, 1), declarations=".shared .align 8 .b8 room[8];",
                      schedule=scheduled(schedule))  # fmt: skip
    assert int(found[0]) == sum(range(1, 101))


def test_an_atomic_gives_the_old_value_once_to_each() -> None:
    body = MY_WORD + "atom.relaxed.gpu.global.add.u32 %r1, [%b1], 1;\nst.global.u32 [%d9], %r1;"
    found, counter = launch(body, words(96), words(1), grid=(3, 1, 1))
    assert sorted(found.tolist()) == list(range(96))
    assert counter[0] == 96


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_atomic_additions_of_floats(kind: str, dtype: type) -> None:
    register = "%f1" if kind == "f32" else "%d5"
    body = f"cvt.rn.{kind}.u32 {register}, %t;\natom.global.add.{kind} {register.replace('1', '2')}, [%b0], {register};"
    (found,) = launch(body, np.full(1, 0.5, dtype))
    assert found[0] == sum(range(32)) + 0.5


@pytest.mark.parametrize(
    ("kind", "start", "expected"), [("s32", -5, 31), ("u32", 2**32 - 5, 2**32 - 5), ("s32", 40, 40)]
)
def test_the_largest_of_all_by_an_atomic(kind: str, start: int, expected: int) -> None:
    """Signed and unsigned."""
    (found,) = launch(f"red.global.max.{kind} [%b0], %t;", np.array([start % 2**32], np.uint32))
    assert int(found[0]) == expected
    body = f"atom.global.max.{kind} %r1, [%b0], %t;\nsetp.eq.u32 %p1, %t, 0;\n@%p1 st.global.u32 [%b1], %r1;"
    found, old = launch(body, np.array([start % 2**32], np.uint32), words(1))
    assert (int(found[0]), int(old[0])) == (expected, start % 2**32)
