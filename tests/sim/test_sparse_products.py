"""mma.sp and wgmma.mma_async.sp on the simulator, bit for bit as an H200 computed them; wgmma of single bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sparse_kernels as kernels
import wgmma_kernels
from sparse_kernels import FORMS, Sparse
from tensor_core_recording import DATA

import gemmsmith
from gemmsmith.sim.faults import KernelFaultError


@pytest.fixture(scope="module")
def recorded() -> dict[str, kernels.Array]:
    with np.load(DATA / "sparse_products.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _given(form: Sparse, recorded: dict[str, kernels.Array]) -> dict[str, kernels.Array]:
    return {name: recorded[f"{form.name}/{name}"] for name in ("image", "a", "c", "metadata")}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name.replace(".sync.aligned", ""))
def test_the_same_bits(form: Sparse, recorded: dict[str, kernels.Array]) -> None:
    assert np.array_equal(kernels.run(form, _given(form, recorded)), recorded[f"{form.name}/d"])


@pytest.mark.parametrize("form", [form for form in FORMS if form.selector == 1][::4], ids=lambda form: form.name)
def test_the_selector_matters(form: Sparse, recorded: dict[str, kernels.Array]) -> None:
    other = kernels.run(replace(form, selector=0), _given(form, recorded))
    assert not np.array_equal(other, recorded[f"{form.name}/d"])


@pytest.mark.parametrize(("kind", "code"), [("f16", "0001"), ("tf32", "1000")])
def test_wrong_metadata_are_a_fault(kind: str, code: str, recorded: dict[str, kernels.Array]) -> None:
    form = next(form for form in FORMS if form.a == kind and not form.wgmma)
    given = _given(form, recorded)
    metadata = np.full_like(given["metadata"], int(code * 8, 2))
    with pytest.raises(KernelFaultError, match=f"metadata {code} of group 0 of a sparse A"):
        kernels.run(form, {**given, "metadata": metadata})


BITS = """
extern "C" __global__ void one(const uint4* image, unsigned* d) {
    extern __shared__ __align__(1024) uint4 memory[];
    for (int i = threadIdx.x; i < 144; i += 128) memory[i] = image[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long base = ((unsigned)__cvta_generic_to_shared(memory) & 0x3FFFF) >> 4;
    unsigned long long da = base | 8ull << 16 | 16ull << 32, db = (base + 128) | 8ull << 16 | 16ull << 32;
    unsigned d0 = 1, d1 = 2, d2 = 3, d3 = 4;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%0, %1, %2, %3}, %4, %5, p;\\n}"
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "l"(da), "l"(db) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    d[threadIdx.x] = d0, d[128 + threadIdx.x] = d1, d[256 + threadIdx.x] = d2, d[384 + threadIdx.x] = d3;
}
"""


def test_wgmma_of_bits_counts_common_ones() -> None:
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 256, (1, rows, 32), np.uint8) for rows in (64, 8))
    image = np.concatenate([wgmma_kernels._units(a)[0], wgmma_kernels._units(b)[0]])
    result = gemmsmith.launch(BITS, "one", grid=1, block=128, smem=2304, arch="sm_90a",
                              args=[image.view(np.uint32), np.zeros(512, np.uint32)])  # fmt: skip
    common = np.bitwise_count(a[0][:, None] & b[0][None]).sum(-1).astype(np.uint32)
    form = wgmma_kernels.Wgmma("s8", "s8", "s32")
    expected = wgmma_kernels.accumulator_registers(common[None], form)[0] + np.arange(1, 5, dtype=np.uint32)[:, None]
    assert np.array_equal(result["d"].reshape(4, 128), expected)
