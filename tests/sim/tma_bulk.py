"""Plain bulk reductions, copies between the blocks of a cluster, and multicasts, for the GPU and the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tma_cases import tensor
from tma_kernels import BLANK, IMAGE, THREADS, Array, Group, _Memory, built, memory_of, words

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Device, Launch
from gemmsmith.run.map_types import UINT16

BYTES, BLOCKS, _BUDGET = 1024, 4, 8192
_WHOLE = ("u32", "s32", "u64")
GLOBAL = (
    *(("add", t) for t in (*_WHOLE, "noftz.f16", "noftz.bf16", "f32", "f64")),
    *((op, t) for op in ("min", "max") for t in (*_WHOLE, "s64", "f16", "bf16")),
    ("inc", "u32"), ("dec", "u32"), *((op, t) for op in ("and", "or", "xor") for t in ("b32", "b64")),
)  # fmt: skip
SHARED = (("", ""), *(("add", t) for t in _WHOLE), *((op, t) for op in ("min", "max") for t in ("u32", "s32")),
          ("inc", "u32"), ("dec", "u32"), *((op, "b32") for op in ("and", "or", "xor")))  # fmt: skip


@dataclass(frozen=True)
class BulkGroup:
    """``kind``: global (reductions into global memory), shared (to another block) or multicast."""

    name: str
    kind: str
    cases: tuple[tuple[str, str] | tuple[int, int], ...]


def bulk_groups() -> tuple[BulkGroup, ...]:
    masks = tuple((issuer, mask) for issuer in (0, 2) for mask in (1, 2, 5, 8, 10, 15))
    return (BulkGroup("bulk reductions", "global", GLOBAL), BulkGroup("bulk copies to a block", "shared", SHARED),
            BulkGroup("multicast", "multicast", masks))  # fmt: skip


def _global_source() -> str:
    code = " ".join(
        f'case {n}: asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [%0], [%1], {BYTES};" '
        ':: "l"(to), "r"(from) : "memory"); break;'
        for n, (op, kind) in enumerate(GLOBAL)
    )
    return f"""
extern "C" __global__ void one(unsigned long long memory, const uint4* images) {{
    extern __shared__ __align__(1024) uint4 image[];
    for (int i = threadIdx.x; i < {BYTES // 16}; i += {THREADS}) image[i] = images[blockIdx.x * {BYTES // 16} + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long to = memory + blockIdx.x * {BYTES}ull;
    const unsigned from = (unsigned)__cvta_generic_to_shared(image);
    if (threadIdx.x == 0) {{
        switch (blockIdx.x) {{ {code} }}
        asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
    }}
}}
"""


_MEASURE = f"""
    if (threadIdx.x == 0) {{
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
"""
_SYNC = 'asm volatile("barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;" ::: "memory");'
_BEGIN = f"""
    extern __shared__ __align__(1024) uint4 image[];
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(image) + {IMAGE};
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(barrier), "r"({_BUDGET}) : "memory");
    }}
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
"""


def _shared_source() -> str:
    mbarrier = "mbarrier::complete_tx::bytes"
    code = " ".join(
        f'case {n}: asm volatile("cp.{"reduce." if op else ""}async.bulk.shared::cluster.shared::cta.{mbarrier}'
        f'{f".{op}.{kind}" if op else ""} [%0], [%1], {BYTES}, [%2];" '
        ':: "r"(to), "r"(from), "r"(other) : "memory"); break;'
        for n, (op, kind) in enumerate(SHARED)
    )
    return f"""
extern "C" __global__ void __cluster_dims__(2, 1, 1) one(const uint4* images, uint4* found, int* counted) {{
    {_BEGIN}
    for (int i = threadIdx.x; i < {BYTES // 16}; i += {THREADS}) image[i] = images[blockIdx.x * {BYTES // 16} + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    {_SYNC}
    if (threadIdx.x == 0 && rank == 0) {{
        unsigned from = (unsigned)__cvta_generic_to_shared(image), to, other;
        asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(to) : "r"(from));
        asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(other) : "r"(barrier));
        switch (blockIdx.x / 2) {{ {code} }}
        for (int i = 0; i < 4; ++i) __nanosleep(20000);
    }}
    {_SYNC}
    {_MEASURE}
    for (int i = threadIdx.x; i < {BYTES // 16}; i += {THREADS}) found[blockIdx.x * {BYTES // 16} + i] = image[i];
}}
"""


def _multicast_source() -> str:
    return f"""
extern "C" __global__ void __cluster_dims__({BLOCKS}, 1, 1) one(unsigned long long map, const int* issuers,
                                                                const int* masks, uint4* found, int* counted) {{
    {_BEGIN}
    const uint4 blank = make_uint4({BLANK * 0x01010101}u, {BLANK * 0x01010101}u, {BLANK * 0x01010101}u,
                                   {BLANK * 0x01010101}u);
    for (int i = threadIdx.x; i < {IMAGE // 16}; i += {THREADS}) image[i] = blank;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    {_SYNC}
    const int number = blockIdx.x / {BLOCKS};
    if (threadIdx.x == 0 && rank == issuers[number]) {{
        const unsigned target = (unsigned)__cvta_generic_to_shared(image) + 256;
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {{%2, %3}}], [%4], %5;"
                     :: "r"(target), "l"(map), "r"(8), "r"(2), "r"(barrier), "h"((unsigned short)masks[number])
                     : "memory");
        for (int i = 0; i < 4; ++i) __nanosleep(20000);
    }}
    {_SYNC}
    {_MEASURE}
    for (int i = threadIdx.x; i < {IMAGE // 16}; i += {THREADS}) found[blockIdx.x * {IMAGE // 16} + i] = image[i];
}}
"""


def source_of(group: BulkGroup) -> str:
    """The kernel that a group needs."""
    return {"global": _global_source, "shared": _shared_source, "multicast": _multicast_source}[group.kind]()


def run_bulk(device: Device, group: BulkGroup, arch: str) -> dict[str, Array]:
    memory, count = _Memory(device), len(group.cases)
    blocks = count * {"global": 1, "shared": 2, "multicast": BLOCKS}[group.kind]
    size = IMAGE if group.kind == "multicast" else BYTES
    images = words(f"{group.name}/image", blocks * BYTES // 4)
    told = memory.put(np.zeros(blocks, np.int32))
    cluster, given = (1, 1, 1), list[int]()
    if group.kind == "global":
        out = memory.put(words(f"{group.name}/memory", blocks * BYTES // 4))
        given = [out, memory.put(images)]
    elif group.kind == "shared":
        cluster = (2, 1, 1)
        out = memory.put(np.zeros(blocks * size, np.uint8))
        given = [memory.put(images), out, told]
    else:
        cluster = (BLOCKS, 1, 1)
        out = memory.put(np.zeros(blocks * size, np.uint8))
        source = memory.put(memory_of(Group("", "load", ())))
        encoded = device.encode_tensor_map(tensor(UINT16, (64, 20), (32, 8), 64), source)
        pairs = np.array(group.cases, np.int32)
        given = [memory.put(np.frombuffer(encoded, np.uint8)), memory.put(pairs[:, 0]), memory.put(pairs[:, 1]), out,
                 told]  # fmt: skip
    launch = Launch(Geometry((blocks, 1, 1), (THREADS, 1, 1), smem=IMAGE + 16, cluster=cluster),
                    tuple(a.to_bytes(8, "little") for a in given))  # fmt: skip
    device.launch(device.load(built(source_of(group), arch)), launch)
    device.synchronize()
    found = device.read(out, blocks * size).reshape(blocks, size)
    counted = device.read(told, 4 * blocks).view(np.int32)
    memory.free()
    return {"accepted": np.ones(blocks, bool), "image": found, "counted": counted}
