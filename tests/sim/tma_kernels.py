"""Kernels around one TMA copy each, for both the GPU and the simulator: a block, or a cluster, is one case.

A load leaves an image of shared memory and a number of bytes that the mbarrier was told. A store leaves the memory of a
tensor. The memory that loads read holds its own index in every 16-bit word, so that an image tells where each byte
comes from.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_core_kernels import compiled

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.run.device import Device, Launch

Array = NDArray[Any]
THREADS, IMAGE, REGION = 128, 4096, 4096
MEMORY = 1 << 17  # bytes that loads read
_BUDGET = 8192  # bytes that the mbarrier of a load expects at first
BLANK = 0xEE


@dataclass(frozen=True)
class Case:
    """A map, the offset of its tensor in memory, coordinates, im2col offsets, and the start in shared memory."""

    map: TensorMap
    at: tuple[int, ...]
    start: int = 0
    offset: int = 0
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Group:
    """Cases of one kind. ``op``: of a reduction. ``special``: memory holds special values of floats."""

    name: str
    kind: str  # load, store
    cases: tuple[Case, ...]
    op: str = ""
    special: bool = False


def _coordinates(rank: int) -> str:
    return "{" + ", ".join(f"%{i}" for i in range(2, 2 + rank)) + "}"


def _load(rank: int, im2col: bool) -> str:
    inputs = ", ".join(f'"r"(at[{i}])' for i in range(rank))
    barrier, extra, offsets = 2 + rank, "", ""
    if im2col:
        names = ", ".join(f"%{barrier + 1 + i}" for i in range(rank - 2))
        offsets = ", {" + names + "}"
        extra = ", " + ", ".join(f'"h"((unsigned short)at[{5 + i}])' for i in range(rank - 2))
    mode = "im2col" if im2col else "tile"
    return (f'asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes '
            f'[%0], [%1, {_coordinates(rank)}], [%{barrier}]{offsets};" :: "r"(target), "l"(map), {inputs}, '
            f'"r"(barrier){extra} : "memory");')  # fmt: skip


def _store(rank: int, im2col: bool, op: str) -> str:
    inputs = ", ".join(f'"r"(at[{i}])' for i in range(rank))
    mode = "im2col_no_offs" if im2col else "tile"
    opcode = (f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.{mode}.bulk_group" if op else
              f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group")  # fmt: skip
    return (f'asm volatile("{opcode} [%1, {_coordinates(rank)}], [%0];" :: "r"(target), "l"(map), {inputs} '
            ': "memory");')  # fmt: skip


def _switch(ranks: range, code: list[str]) -> str:
    return "switch (rank) {" + " ".join(f"case {r}: {c} break;" for r, c in zip(ranks, code, strict=True)) + "}"


_START = f"""
    extern __shared__ __align__(1024) uint4 image[];
    const int* at = where + blockIdx.x * 8;
    const unsigned long long map = maps + blockIdx.x * 128ull;
    const unsigned target = (unsigned)__cvta_generic_to_shared(image) + starts[blockIdx.x];
    for (int i = threadIdx.x; i < {IMAGE // 16}; i += {THREADS}) image[i] = images[blockIdx.x * {IMAGE // 16} + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
"""


def load_source(im2col: bool) -> str:
    ranks = range(3, 6) if im2col else range(1, 6)
    return f"""
extern "C" __global__ void one(unsigned long long maps, const int* where, const int* starts, const uint4* images,
                               uint4* found, int* counted, int rank) {{
    {_START}
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(image) + {IMAGE};
    if (threadIdx.x == 0) {{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }}
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(barrier), "r"({_BUDGET}) : "memory");
        {_switch(ranks, [_load(rank, im2col) for rank in ranks])}
        for (int i = 0; i < 4; ++i) __nanosleep(20000);
        int left = 0, done = 0;
        while (!done && left < {_BUDGET}) {{
            asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;"
                         :: "r"(barrier) : "memory");
            left += 16;
            asm volatile("{{\\n.reg .pred p;\\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0;\\n"
                         "selp.b32 %0, 1, 0, p;\\n}}" : "=r"(done) : "r"(barrier) : "memory");
        }}
        counted[blockIdx.x] = done ? {_BUDGET} - left : -1;
    }}
    __syncthreads();
    for (int i = threadIdx.x; i < {IMAGE // 16}; i += {THREADS}) found[blockIdx.x * {IMAGE // 16} + i] = image[i];
}}
"""


def store_source(im2col: bool, op: str) -> str:
    ranks = range(3, 6) if im2col else range(1, 6)
    return f"""
extern "C" __global__ void one(unsigned long long maps, const int* where, const int* starts, const uint4* images,
                               int rank) {{
    {_START}
    __syncthreads();
    if (threadIdx.x == 0) {{
        {_switch(ranks, [_store(rank, im2col, op) for rank in ranks])}
        asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
    }}
}}
"""


def words(seed: str, count: int) -> Array:
    """Random 32-bit words, and among them zeros, subnormals, infinities, NaN and the largest of f16, bf16 and f32."""
    random = np.random.default_rng(list(seed.encode()))
    found = random.integers(0, 1 << 32, count, dtype=np.uint32)
    few = np.array([0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x7F800000, 0xFF800000, 0x7FC00000,
                    0xFFC12345, 0x7F800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F801000, 0x3F801001, 0x3F800FFF, 0x3F803000,
                    0xBF801000, 0x7C007C00, 0xFC00FC00, 0x7E007C01, 0x7BFF7BFF, 0x03FF0001, 0x83FF8001, 0x7F807F80,
                    0x7FC07F81, 0x7F7FFF7F, 0x0001807F, 0x3C003C00, 0x3F803F80], np.uint32)  # fmt: skip
    where = random.random(count) < 0.5
    found[where] = random.choice(few, int(where.sum()))
    return found


def memory_of(group: Group) -> Array:
    """What loads read."""
    if group.special:
        return words(group.name, MEMORY // 4).view(np.uint8)
    return np.arange(MEMORY // 2).astype(np.uint16).view(np.uint8)


def images_of(group: Group) -> Array:
    """Shared memory before the copy, for each case."""
    if group.kind == "load":
        return np.full((len(group.cases), IMAGE), BLANK, np.uint8)
    if group.op:
        return words(f"{group.name}/image", len(group.cases) * IMAGE // 4).view(np.uint8).reshape(-1, IMAGE)
    return np.tile(np.arange(IMAGE // 2).astype(np.uint16).view(np.uint8), (len(group.cases), 1))


def regions_of(group: Group) -> Array:
    """Memory of the tensors before a store, for each case."""
    if group.op:
        return words(f"{group.name}/memory", len(group.cases) * REGION // 4).view(np.uint8).reshape(-1, REGION)
    return np.full((len(group.cases), REGION), BLANK, np.uint8)


@cache
def built(code: str, arch: str) -> CompiledKernel:
    return compiled(code, arch)


def sources_of(group: Group) -> set[str]:
    """The kernels that a group needs."""
    modes = {case.map.im2col is not None for case in group.cases}
    return {load_source(mode) if group.kind == "load" else store_source(mode, group.op) for mode in modes}


class _Memory:
    """What a launch needs on a device."""

    def __init__(self, device: Device) -> None:
        self.device, self.allocated = device, list[int]()

    def put(self, array: Array, alignment: int = 256) -> int:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.allocated.append(self.device.allocate(max(16, raw.nbytes) + alignment))
        start = -(-self.allocated[-1] // alignment) * alignment
        self.device.write(start, raw)
        return start

    def free(self) -> None:
        for address in self.allocated:
            self.device.free(address)


def run(device: Device, group: Group, arch: str, only: Collection[int] | None = None) -> dict[str, Array]:
    """accepted: which maps could be made; image: shared memory or the tensors' memory after; counted: bytes.

    ``only``: the numbers of the cases that are run.
    """
    memory, count = _Memory(device), len(group.cases)
    is_load = group.kind == "load"
    data = memory.put(memory_of(group) if is_load else regions_of(group))
    maps, accepted = np.zeros((count, 128), np.uint8), np.zeros(count, bool)
    for n, case in enumerate(group.cases):
        if only is not None and n not in only:
            continue
        try:
            encoded = device.encode_tensor_map(case.map, data + case.offset + (0 if is_load else n * REGION))
        except GemmsmithError:
            continue
        maps[n], accepted[n] = np.frombuffer(encoded, np.uint8), True
    where = np.zeros((count, 8), np.int32)
    for n, case in enumerate(group.cases):
        where[n, : len(case.at)], where[n, 5 : 5 + len(case.offsets)] = case.at, case.offsets
    starts, images = np.array([case.start for case in group.cases], np.int32), images_of(group)
    result = images.copy() if is_load else regions_of(group)
    counted = np.zeros(count, np.int32)
    for rank in sorted({len(case.map.extents) for case in group.cases}):
        here = np.flatnonzero(accepted & np.array([len(case.map.extents) == rank for case in group.cases]))
        if not here.size:
            continue
        im2col = group.cases[int(here[0])].map.im2col is not None
        given = [memory.put(x[here]) for x in (maps, where, starts, images)]
        arguments = [a.to_bytes(8, "little") for a in given]
        if is_load:
            code = load_source(im2col)
            out, told = memory.put(np.zeros((here.size, IMAGE), np.uint8)), memory.put(np.zeros(here.size, np.int32))
            arguments += [out.to_bytes(8, "little"), told.to_bytes(8, "little")]
        else:
            code = store_source(im2col, group.op)
        arguments.append(rank.to_bytes(4, "little"))
        geometry = Geometry(
            (int(here.size), 1, 1), (THREADS, 1, 1), smem=IMAGE + 16
        )  # the last bytes are the mbarrier of a load
        device.launch(device.load(built(code, arch)), Launch(geometry, tuple(arguments)))
        device.synchronize()
        if is_load:
            result[here] = device.read(out, here.size * IMAGE).reshape(-1, IMAGE)
            counted[here] = device.read(told, here.size * 4).view(np.int32)
    if not is_load:
        result = device.read(data, count * REGION).reshape(-1, REGION)
    memory.free()
    return {"accepted": accepted, "image": result, "counted": counted}
