"""Threads, blocks and waves: special registers, more blocks than one wave, odd sizes, chosen blocks, refused sizes."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import MY_WORD, Size, kernel, launch, words

from gemmsmith.errors import LaunchError, SimulationError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

SPECIAL = [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"] + ["%laneid", "%warpid"]
SIZES: list[tuple[Size, Size]] = [
    ((1, 1, 1), (1, 1, 1)),
    ((1, 1, 1), (33, 1, 1)),
    ((3, 1, 1), (31, 1, 1)),
    ((2, 3, 1), (8, 5, 1)),
    ((2, 2, 3), (4, 3, 5)),
    ((1, 4, 2), (1, 1, 64)),
    ((5, 1, 1), (1024, 1, 1)),
    ((1, 1, 7), (1, 7, 3)),
]
# %r1 is the linear thread number in the grid, %d8 the address of this thread's row of 14 words.
LINEAR = """
mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;
mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
mov.u32 %r2, %ntid.z; mov.u32 %r3, %tid.z; mad.lo.u32 %r1, %r1, %r2, %r3;
mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y; mad.lo.u32 %r1, %r1, %r2, %r3;
mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
mad.wide.u32 %d8, %r1, 56, %b0;
"""


@pytest.mark.parametrize(("grid", "block"), SIZES)
def test_special_registers_of_every_thread(grid: Size, block: Size) -> None:
    stores = "\n".join(f"mov.u32 %r4, {name}; st.global.u32 [%d8+{4 * i}], %r4;" for i, name in enumerate(SPECIAL))
    threads = int(np.prod(block))
    total = threads * int(np.prod(grid))
    (found,) = launch(LINEAR + stores, np.zeros((total, 14), np.uint32), grid=grid, block=block)
    wanted = []
    for bz in range(grid[2]):
        for by in range(grid[1]):
            for bx in range(grid[0]):
                for t in range(threads):
                    x, y, z = t % block[0], t // block[0] % block[1], t // (block[0] * block[1])
                    wanted.append([x, y, z, *block, bx, by, bz, *grid, t % 32, t // 32])
    assert found.tolist() == wanted


@pytest.mark.parametrize("block", [1, 31, 32, 100, 256, 1000, 1024])
def test_more_blocks_than_one_wave(block: int) -> None:
    """70,000 lanes, more than two waves of 32,768: every block runs once, with shared memory of its own."""
    blocks = -(-70000 // block)
    body = (
        MY_WORD
        + """
    shl.b32 %r5, %t, 2;
    st.shared.u32 [%r5], %r30;
    ld.shared.u32 %r1, [%r5];
    st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(
        body, words(blocks * block), grid=(blocks, 1, 1), block=(block, 1, 1),
        declarations=".shared .align 4 .b8 room[4096];",
    )  # fmt: skip
    assert np.array_equal(found, np.repeat(np.arange(blocks, dtype=np.uint32), block))


def test_only_the_chosen_blocks_run() -> None:
    body = MY_WORD + "add.u32 %r1, %r32, 1;\nst.global.u32 [%d9], %r1;"
    (found,) = launch(body, words(160), grid=(5, 1, 1), blocks=[4, 1])
    wanted = np.zeros((5, 32), np.uint32)
    for b in (1, 4):
        wanted[b] = np.arange(32 * b, 32 * b + 32) + 1
    assert np.array_equal(found.reshape(5, 32), wanted)


def test_dynamic_shared_memory_follows_the_static() -> None:
    declarations = ".shared .align 4 .b8 fixed[20];"
    body = (
        MY_WORD
        + """
    mov.u32 %r1, fixed; mov.u32 %r2, dynamic; sub.u32 %r3, %r2, %r1;
    st.global.u32 [%d9], %r3;
    st.shared.u32 [dynamic+60], %r3;
    """
    )
    device = SimDevice()
    out = device.allocate(128)
    text = kernel(body, 1, declarations).replace(".visible", ".extern .shared .align 16 .b8 dynamic[];\n.visible")
    loaded = device.load_ptx(text, "k")
    argument = (out.to_bytes(8, "little"),)
    device.launch(loaded, Launch(Geometry((1, 1, 1), (32, 1, 1), smem=64), argument))
    assert device.read(out, 128).view(np.uint32).tolist() == [32] * 32
    with pytest.raises(SimulationError, match="out-of-bounds shared write"):
        device.launch(loaded, Launch(Geometry((1, 1, 1), (32, 1, 1), smem=48), argument))


@pytest.mark.parametrize(
    ("grid", "block", "smem", "says"),
    [
        ((1, 1, 1), (1025, 1, 1), 0, "1025 threads"),
        ((1, 1, 1), (32, 32, 2), 0, "2048 threads"),
        ((1, 1, 1), (1, 1, 65), 0, "1x1x65"),
        ((1, 1, 1), (0, 1, 1), 0, "0 threads"),
        ((0, 1, 1), (32, 1, 1), 0, "0x1x1 blocks"),
        ((1, 65536, 1), (32, 1, 1), 0, "1x65536x1 blocks"),
        ((1, 1, 65536), (32, 1, 1), 0, "1x1x65536 blocks"),
        ((2**31, 1, 1), (32, 1, 1), 0, "blocks cannot be launched"),
        ((1, 1, 1), (32, 1, 1), 232449, "232449 bytes of shared memory"),
    ],
)
def test_sizes_that_no_gpu_takes_are_refused(grid: Size, block: Size, smem: int, says: str) -> None:
    with pytest.raises(LaunchError, match=says):
        launch("st.global.u32 [%b0], 1;", words(1), grid=grid, block=block, smem=smem)


@pytest.mark.parametrize("arguments", [(), (b"\0" * 4,), (b"\0" * 8, b"\0" * 8)])
def test_wrong_arguments_are_refused(arguments: tuple[bytes, ...]) -> None:
    device = SimDevice()
    loaded = device.load_ptx(kernel("st.global.u32 [%b0], 1;", 1), "k")
    with pytest.raises(LaunchError, match="parameter"):
        device.launch(loaded, Launch(Geometry((1, 1, 1), (32, 1, 1)), arguments))


# -- more than 2^31 elements --------------------------------------------------------------------------

ROWS, COLUMNS = 1 << 16, (1 << 16) + 8  # over 2^32 floats: a 32-bit index, signed or not, goes wrong


@pytest.mark.parametrize("index", ["64 bits", "32 bits"])
def test_the_last_block_of_a_huge_matrix(index: str) -> None:
    """Sparse memory: 16 GiB are allocated, one block runs at the far end. A 32-bit index goes elsewhere."""
    device = SimDevice()
    base = device.allocate(4 * ROWS * COLUMNS)
    wide = """
    mov.u32 %r1, %ctaid.y; mul.wide.u32 %d1, %r1, 65544; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 8, %t;
    cvt.u64.u32 %d2, %r2; add.s64 %d1, %d1, %d2; shl.b64 %d1, %d1, 2; add.s64 %d1, %d1, %b0;
    """
    narrow = """
    mov.u32 %r1, %ctaid.y; mul.lo.u32 %r3, %r1, 65544; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 8, %t;
    add.u32 %r3, %r3, %r2; mad.wide.u32 %d1, %r3, 4, %b0;
    """
    body = (wide if index == "64 bits" else narrow) + "add.u32 %r5, %t, 1;\nst.global.u32 [%d1], %r5;"
    geometry = Geometry((COLUMNS // 8, 65535, 1), (8, 1, 1))
    last = geometry.blocks - 1
    device.launch(device.load_ptx(kernel(body, 1), "k"), Launch(geometry, (base.to_bytes(8, "little"),)), [last])
    row = base + 4 * 65534 * COLUMNS
    found = device.read(row + 4 * (COLUMNS - 8), 32).view(np.uint32).tolist()
    assert found == ([1, 2, 3, 4, 5, 6, 7, 8] if index == "64 bits" else [0] * 8)
