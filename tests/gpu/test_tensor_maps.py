"""On a GPU of sm_90: boxes that a kernel loads through encoded tensor maps, clusters, copies and workspaces."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import LaunchError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.run.cuda import CudaDevice, LoadedCubin, cuda_device, gpu_available
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import upload
from gemmsmith.verify.harness import verify_launch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a GPU of sm_90"),
]

# One block loads one box and hands it out as it lies in shared memory. A box with a swizzle starts on 1024 bytes.
LOAD = r"""
struct alignas(64) TensorMap { unsigned long long words[16]; };

extern "C" __global__ void load(const __grid_constant__ TensorMap map, unsigned char* out, int rank, int bytes,
                                int x, int y, int z) {
    extern __shared__ unsigned char room[];
    __shared__ unsigned long long barrier;
    const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(room));
    const unsigned box = (start + 1023) / 1024 * 1024;
    const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(bytes) : "memory");
        if (rank == 2)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%3, %4}], [%2];"
                         ::"r"(box), "l"(&map), "r"(full), "r"(x), "r"(y) : "memory");
        else
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%3, %4, %5}], [%2];"
                         ::"r"(box), "l"(&map), "r"(full), "r"(x), "r"(y), "r"(z) : "memory");
    }
    for (unsigned over = 0; !over;)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(over) : "r"(full) : "memory");
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = room[box - start + i];
}
"""

# Each block writes its rank within its cluster.
RANKS = r"""
extern "C" __global__ void __cluster_dims__(2, 2, 1) ranks(int* out) {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) out[blockIdx.y * gridDim.x + blockIdx.x] = rank;
}
"""


def compiled(source: str, entry: str) -> CompiledKernel:
    request = CompileRequest(f"{entry}.cu", source, (), (), "sm_90a", entry, device_only=True)
    return compile_request(request, find_toolchain(), key=f"test {entry}")


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return cuda_device()


@pytest.fixture(scope="module")
def load(device: CudaDevice) -> LoadedCubin:
    return device.load(compiled(LOAD, "load"))


def swizzled(lines: np.ndarray[Any, Any], span: int) -> np.ndarray[Any, Any]:
    """Bytes of a box as they lie in shared memory: bits 4 to 6 of a place, as many as the span has, XOR bits 7 to 9."""
    flat = lines.reshape(-1).view(np.uint8)
    places = np.arange(flat.size)
    stored = np.empty_like(flat)
    stored[places ^ (((places >> 7) & (span // 16 - 1)) << 4) if span else places] = flat
    return stored


def box_of(values: np.ndarray[Any, Any], start: tuple[int, ...], box: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The box at ``start`` (innermost first, as its sides are), with zeros beyond the matrix."""
    found = np.zeros(box[::-1], values.dtype)
    for index in np.ndindex(found.shape):
        place = tuple(i + s for i, s in zip(index, start[::-1], strict=True))
        if all(0 <= p < n for p, n in zip(place, values.shape, strict=True)):
            found[index] = values[place]
    return found


@pytest.mark.parametrize(
    ("dtype", "shape", "ld", "box", "swizzle", "start"),
    [
        (BF16, (70, 100), 104, (64, 32), 0, (8, 3)),  # inside
        (BF16, (70, 100), 104, (64, 32), 128, (8, 3)),
        (BF16, (70, 100), 104, (64, 32), 128, (64, 48)),  # beyond the last column and the last row
        (BF16, (70, 100), 104, (64, 32), 128, (-8, -5)),  # before the first
        (BF16, (70, 100), 104, (64, 32), 128, (200, 100)),  # nowhere
        (FP16, (70, 99), 104, (32, 40), 64, (80, 40)),  # the last row ends within 16 bytes
        (FP16, (70, 99), 104, (16, 64), 32, (96, 8)),
        (FP32, (50, 33), 36, (32, 16), 128, (16, 40)),
        (FP16, (1, 5), 8, (64, 256), 128, (0, 0)),  # smaller than the box
        (BF16, (3, 40, 72), 80, (64, 16, 2), 128, (16, 30, 1)),  # a batch
        (BF16, (3, 40, 72), 80, (64, 16, 2), 128, (16, 30, 2)),  # beyond the last matrix
        (BF16, (1, 40, 72), 80, (64, 64, 1), 128, (8, 0, 0)),  # a batch of one, whose stride is 0
        (BF16, (3, 40, 72), 80, (64, 64, 1), 128, (0, 0, 2)),  # beyond the last row, not into the next matrix
    ],
)
def test_a_box_arrives_as_described(
    device: CudaDevice, load: LoadedCubin, dtype: DType, shape: tuple[int, ...], ld: int, box: tuple[int, ...],
    swizzle: int, start: tuple[int, ...],
) -> None:  # fmt: skip
    random = np.random.default_rng(0)
    stored = random.standard_normal((*shape[:-1], ld)).astype(np.float32).astype(dtype.numpy)
    values = stored[..., : shape[-1]]  # what lies between rows is not zero and must not arrive
    strides = tuple(int(s) if n > 1 else 0 for s, n in zip(stored.strides[-2::-1], shape[-2::-1], strict=True))
    described = TensorMap("A", dtype, shape[::-1], strides, box, swizzle)
    nbytes = int(np.prod(box)) * dtype.itemsize
    source, target = upload(device, stored), device.allocate(nbytes)
    device.write(target, np.full(nbytes, 0xEE, np.uint8))
    place = (*start, 0)[:3]
    arguments = (device.encode_tensor_map(described, source), struct.pack("<Q", target), struct.pack("<i", len(shape)),
                 struct.pack("<i", nbytes), *(struct.pack("<i", x) for x in place))  # fmt: skip
    try:
        device.launch(load, Launch(Geometry((1, 1, 1), (128, 1, 1), nbytes + 1024), arguments))
        device.synchronize()
        got = device.read(target, nbytes)
    finally:
        device.free(source)
        device.free(target)
    expected = swizzled(box_of(values, start, box), swizzle)
    assert np.array_equal(got, expected), f"{np.count_nonzero(got != expected)} of {nbytes} bytes differ"


def test_clusters_are_formed_and_their_number_is_known(device: CudaDevice) -> None:
    ranks = device.load(compiled(RANKS, "ranks"))
    geometry = Geometry((6, 4, 1), (64, 1, 1), 100 * 1024, (2, 2, 1))
    out = device.allocate(24 * 4)
    device.launch(ranks, Launch(geometry, (struct.pack("<Q", out),)))
    device.synchronize()
    found = device.read(out, 24 * 4).view(np.int32).reshape(4, 6)
    device.free(out)
    assert np.array_equal(found, np.tile([[0, 1], [2, 3]], (2, 3)))
    fit = device.blocks_at_once(ranks, geometry)
    assert fit % 4 == 0
    assert device.sms <= fit <= 2 * device.sms  # two blocks an SM, less where a GPC's SMs are no whole clusters
    with pytest.raises(LaunchError, match="does not consist of clusters"):
        device.launch(ranks, Launch(Geometry((5, 4, 1), (64, 1, 1), 0, (2, 2, 1)), (struct.pack("<Q", 0),)))


def test_blocks_at_once_without_clusters(device: CudaDevice, load: LoadedCubin) -> None:
    assert device.blocks_at_once(load, Geometry((1, 1, 1), (128, 1, 1), 200 * 1024)) == device.sms


# --- a rung that is told to repack: copies and workspace on the GPU, before any kernel needs them


def repacking() -> Any:
    return replace(rung_named("mma_swizzled"), dtypes=(FP16, BF16), out_dtypes=(FP32, FP16, BF16), align_copies=True)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("offsets", [(0, 0, 0), (1, 3, 0)])
def test_copied_operands_give_the_product(device: CudaDevice, layout: str, offsets: tuple[int, int, int]) -> None:
    from gemmsmith.compile.compiler import compile_for

    problem = Problem(129, 131, 67, dtype=BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T", beta=0.5, batch=2)
    spec = repacking()
    verdict = verify_launch(device, spec, spec.config(), problem, compile_fn=compile_for, offsets=offsets)
    assert verdict.trusted, str(verdict)


def test_a_workspace_is_safe_while_its_stream_works() -> None:
    """Its memory is free for others as soon as the call returns; only later work of the same stream may have it."""
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(n, m, device="cuda", dtype=torch.float16) for n, m in ((1001, 777), (777, 503)))
    expected = a.double() @ b.double()
    results = []
    for _ in range(20):
        results.append(gemmsmith.gemm(a, b, kernel=repacking()))
        torch.empty(1001 * 784 + 777 * 504, device="cuda", dtype=torch.float16).fill_(float("nan"))
    for result in results:
        assert float((result.double() - expected).abs().max()) < 1e-2


class Foreign:
    """A tensor of a library that gemmsmith cannot allocate with."""

    def __init__(self, tensor: Any) -> None:
        self._keep = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def test_others_tensors_get_their_workspace_from_the_driver() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(n, m, device="cuda", dtype=torch.float16) for n, m in ((101, 77), (77, 53)))
    out = torch.empty(101, 53, device="cuda")
    torch.cuda.synchronize()
    gemmsmith.gemm(Foreign(a), Foreign(b), kernel=repacking(), out=Foreign(out))
    torch.cuda.synchronize()
    assert float((out.double() - a.double() @ b.double()).abs().max()) < 1e-3
