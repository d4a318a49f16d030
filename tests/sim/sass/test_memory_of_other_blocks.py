"""Clusters: machine code and PTX give the same bits for reads and writes of another block's shared memory."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.render import CompileRequest
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError
from gemmsmith.sim.sass.device import MachineDevice
from gemmsmith.sim.sass.program import MachineProgram

Numbers = NDArray[np.int32]

THREADS, GRID, WORDS = 64, (4, 12, 2), 10
CLUSTERS = [(2, 1, 1), (1, 2, 1), (4, 1, 1), (1, 4, 1), (2, 2, 1), (1, 3, 2)]

# Each warp reads from another block, writes to the block before its own, and adds to the first block's sum. ``steps``
# and ``found`` are indexed with data: they lie in constant and local memory, whose addresses have no rank.
NEIGHBOURS = r"""
__constant__ int steps[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int flat(dim3 v) { return v.x + 10 * v.y + 100 * v.z; }
__device__ void meet() { __cluster_barrier_arrive(); __cluster_barrier_wait(); }
__device__ int* at(int* p, int rank) { return (int*)__cluster_map_shared_rank(p, rank); }
extern "C" __global__ void k(const int* in, int* out) {
    __shared__ int mine[64], mail[64], sum[2];
    const int t = threadIdx.x, me = __clusterRelativeBlockRank(), blocks = __clusterSizeInBlocks();
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    mine[t] = in[block * 64 + t];
    if (t < 2) sum[t] = 0;
    meet();
    const int read = at(mine, (me + 1 + t / 32) % blocks)[63 - t];
    at(mail, (me + blocks - 1) % blocks)[t] = mine[t] * 2 + me;
    atomicAdd(at(sum, 0) + t % 2, mine[t]);
    const int* either = t < 32 ? at(mine, blocks - 1) : in;
    int found[16];
    #pragma unroll 1
    for (int i = 0; i < 16; ++i) found[(i * 5 + (in[0] & 15)) % 16] = i * i + t;
    const int other = either[t];
    meet();
    int* to = out + (block * 64 + t) * 10;
    to[0] = read; to[1] = mail[t]; to[2] = sum[t % 2]; to[3] = other; to[4] = found[mine[t] & 15];
    to[5] = steps[mine[t] & 7]; to[6] = flat(__clusterRelativeBlockIdx()); to[7] = flat(__clusterDim());
    to[8] = flat(__clusterIdx()) + 1000 * flat(__clusterGridDimInClusters()); to[9] = __clusterDimIsSpecified();
}
"""
# No instruction of this one tells that there are clusters; a block's shared addresses have its rank all the same.
ALONE = r"""
extern "C" __global__ void DIMS k(const int* in, int* out) {
    __shared__ int mine[64];
    const int t = threadIdx.x, block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    mine[t] = in[block * 64 + t];
    __syncthreads();
    out[(block * 64 + t) * 10] = mine[63 - t];
}
"""
# A read of another block's memory between two writes; bits of ``cluster`` say which barriers are of the whole cluster.
BARRIERS = r"""
__device__ void meet(bool all) {
    if (all) { __cluster_barrier_arrive(); __cluster_barrier_wait(); } else __syncthreads();
}
extern "C" __global__ void k(int* out, int cluster) {
    __shared__ int mine[64];
    const int t = threadIdx.x, me = __clusterRelativeBlockRank();
    mine[t] = t;
    meet(cluster & 1);
    const int read = ((int*)__cluster_map_shared_rank(mine, 1 - me))[63 - t];
    meet(cluster & 2);
    mine[t] = read + 1;
    meet(true);
    out[me * 64 + t] = mine[63 - t];
}
"""


@cache
def compiled(source: str) -> CompiledKernel:
    return compile_request(CompileRequest("mine.cu", source, (), (), "sm_90", "k"), find_toolchain())


def values() -> Numbers:
    numbers = np.random.default_rng(5).integers(-(2**20), 2**20, (int(np.prod(GRID)), THREADS))
    return numbers.astype(np.int32)


def results(device: SimDevice, kernel: CompiledKernel, cluster: Dim3, at_launch: bool) -> Numbers:
    data = values()
    given, out = device.allocate(data.nbytes), device.allocate(WORDS * data.nbytes)
    device.write(given, data.reshape(-1).view(np.uint8))
    device.write(out, np.zeros(WORDS * data.nbytes, np.uint8))
    geometry = Geometry(GRID, (THREADS, 1, 1), cluster=cluster, cluster_at_launch=at_launch)
    device.launch(device.load(kernel), Launch(geometry, (given.to_bytes(8, "little"), out.to_bytes(8, "little"))))
    device.synchronize()
    return device.read(out, WORDS * data.nbytes).view(np.int32).reshape(*GRID[::-1], THREADS, WORDS)


def ranked(blocks: NDArray[np.generic], cluster: Dim3) -> NDArray[np.generic]:
    """Blocks [z, y, x] as [cluster, rank]."""
    (gx, gy, gz), (x, y, z), rest = GRID, cluster, blocks.shape[3:]
    split = blocks.reshape(gz // z, z, gy // y, y, gx // x, x, *rest)
    return np.moveaxis(split, (0, 2, 4), (0, 1, 2)).reshape(-1, x * y * z, *rest)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_reads_and_writes(cluster: Dim3) -> None:
    kernel, blocks = compiled(NEIGHBOURS), int(np.prod(cluster))
    expected, found = (results(cls("sm_90"), kernel, cluster, True) for cls in (SimDevice, MachineDevice))
    differ = sorted(set((np.flatnonzero(expected != found) % WORDS).tolist()))
    assert not differ, f"results {differ} differ"
    ours = ranked(values().reshape(*GRID[::-1], THREADS), cluster)
    got, threads = ranked(found, cluster), np.arange(THREADS)
    for me in range(blocks):
        others = (me + 1 + threads // 32) % blocks
        assert (got[:, me, :, 0] == ours[:, others, 63 - threads]).all()
        after = (me + 1) % blocks
        assert (got[:, me, :, 1] == ours[:, after] * 2 + after).all()
    sums = ours.reshape(len(ours), blocks, -1, 2).sum(axis=(1, 2))
    assert (got[:, 0, :2, 2] == sums).all()
    assert (got[..., 9] == 1).all()


def test_without_clusters() -> None:
    """A block is a cluster of its own."""
    kernel = compiled(NEIGHBOURS)
    expected, found = (results(cls("sm_90"), kernel, (1, 1, 1), False) for cls in (SimDevice, MachineDevice))
    assert (found == expected).all()
    assert not found[..., 9].any()


@pytest.mark.parametrize("at_launch", [False, True])
def test_no_instruction_of_clusters(at_launch: bool) -> None:
    kernel = compiled(ALONE.replace("DIMS", "" if at_launch else "__cluster_dims__(2, 2, 1)"))
    device = MachineDevice("sm_90")
    program = device.load(kernel).lowered
    assert isinstance(program, MachineProgram)
    assert (program.for_clusters is not None) == at_launch  # else the cubin says so
    found = results(device, kernel, (2, 2, 1), at_launch)
    assert (found[..., 0].reshape(-1, THREADS) == values()[:, ::-1]).all()


def test_instructions_that_are_meant() -> None:
    """The compiler has not found other ways to do it."""
    program = MachineDevice("sm_90").load(compiled(NEIGHBOURS)).lowered
    names = {re.split(r"\.(?!E)", operation.instruction.name)[0] for operation in program.operations}
    assert names >= {"LD.E", "ST.E", "ATOM.E", "LDL", "STL", "LDC", "UCGABAR_ARV", "S2R"}


@pytest.mark.parametrize(("whole", "race"), [(3, ""), (2, "read-after-write"), (1, "write-after-read")])
def test_races_between_blocks(whole: int, race: str) -> None:
    """A barrier of a block orders nothing between two blocks."""
    device = MachineDevice("sm_90", hazards=True)
    out = device.allocate(4 * 2 * THREADS)
    arguments = out.to_bytes(8, "little"), whole.to_bytes(4, "little")
    geometry = Geometry((1, 2, 1), (THREADS, 1, 1), cluster=(1, 2, 1), cluster_at_launch=True)
    device.launch(device.load(compiled(BARRIERS)), Launch(geometry, arguments))
    if not race:
        device.synchronize()
        assert (device.read(out, 8 * THREADS).view(np.int32) == np.tile(np.arange(THREADS) + 1, 2)).all()
        return
    with pytest.raises(HazardError, match=f"{race} race.*barrier of the whole cluster"):
        device.synchronize()


@pytest.mark.parametrize("device", [SimDevice("sm_90", hazards=True), MachineDevice("sm_90", hazards=True)])
def test_relaxed_arrival_publishes_nothing(device: SimDevice) -> None:
    """Machine code has no fence before it."""
    relaxed = BARRIERS.replace("barrier_arrive()", "barrier_arrive_relaxed()")
    out = device.allocate(4 * 2 * THREADS)
    arguments = out.to_bytes(8, "little"), (3).to_bytes(4, "little")
    geometry = Geometry((1, 2, 1), (THREADS, 1, 1), cluster=(1, 2, 1), cluster_at_launch=True)
    device.launch(device.load(compiled(relaxed)), Launch(geometry, arguments))
    with pytest.raises(HazardError, match="read-after-write race"):
        device.synchronize()
