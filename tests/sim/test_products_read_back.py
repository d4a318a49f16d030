"""Products that are stored, loaded again, and decide what is executed: they are computed, never taken from old data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim import device as simulator
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.lowering.read_back import ProductReadBackError
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

# %f1 holds 5 before the product is made, which decides a branch; the product of zeros is 0.
_PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<4>;
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r1, 8, %r3;
    mov.f32 %f1, 0f40A00000;
    mov.f32 %f5, 0f00000000;
    setp.lt.f32 %p1, %f1, 0f3F800000;
    @%p1 bra done;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%f1, %f2, %f3, %f4}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, {%f5, %f5, %f5, %f5};
    STORE;
    bar.warp.sync -1;
    LOAD;
    USE
done:
    ret;
}
"""
_STORES = {"f32": ("st.shared.f32 [%r3], %f1", "ld.shared.f32 %f6, [%r3]"),
           "a pair": ("st.shared.v2.f32 [%r3], {%f1, %f2}", "ld.shared.v2.f32 {%f6, %f7}, [%r3]"),
           "in global memory": ("st.global.f32 [%rd1], %f1", "ld.global.f32 %f6, [%rd1]")}  # fmt: skip
_DECIDES = """setp.gt.f32 %p2, %f6, 0f3F800000;
    @!%p2 bra done;
    st.global.u32 [%rd1+16], %r1;"""
_PASSES_ON = "st.global.f32 [%rd1+16], %f6;"


def _launched(kind: str, use: str, computes_all: bool = False) -> int:
    """What the launch leaves at byte 16, where data do not move."""
    store, load = _STORES[kind]
    device = SimDevice("sm_90", moves_data=False)
    device.garbage = 0
    loaded = device.load_ptx(_PTX.replace("STORE", store).replace("LOAD", load).replace("USE", use), "k")
    loaded.computes_all = computes_all
    out = device.allocate(64)
    device.write(out, np.full(64, 9, np.uint8))
    device.launch(loaded, Launch(Geometry((1, 1, 1), (32, 1, 1)), (out.to_bytes(8, "little"),)))
    return int(device.read(out, 64).view(np.uint32)[4])


@pytest.mark.parametrize("kind", _STORES)
def test_a_branch_on_a_product_that_was_not_computed_is_refused(kind: str) -> None:
    with pytest.raises(ProductReadBackError, match="loads a product that was stored before"):
        _launched(kind, _DECIDES)


@pytest.mark.parametrize("kind", _STORES)
def test_computed_it_is_that_of_zeros(kind: str) -> None:
    assert _launched(kind, _DECIDES, computes_all=True) == 0x09090909  # not above 1: nothing is stored


@pytest.mark.parametrize("kind", _STORES)
def test_a_product_that_is_only_passed_on_decides_nothing(kind: str) -> None:
    assert _launched(kind, _PASSES_ON) != 0x09090909


_KERNEL = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void again(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ float tile[256];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.f);
  int row = blockIdx.y * 16, col = blockIdx.x * 16;
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + row * K + k, K);
    wmma::load_matrix_sync(b, B + k * N + col, N);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    float v = tile[i];
    if (fabsf(v) > 6e4f) {  // beyond what fp16 holds: computed anew
      v = 0.f;
      for (int k = 0; k < K; k++)
        v += __half2float(A[(row + i / 16) * K + k]) * __half2float(B[k * N + col + i % 16]);
    }
    C[(row + i / 16) * N + col + i % 16] = v;
  }
}
void run(const half* A, const half* B, float* C, int M, int N, int K) {
  again<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
}
"""


def test_such_a_kernel_is_timed_as_if_all_of_it_were_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "again.cu").write_text(_KERNEL)
    spec = user_kernel(tmp_path / "again.cu", UserOptions())
    predictor = Predictor(spec, spec.config(), spec.problem(64, 64, 128), gpu_named("H200"))
    found = predictor.subject.sample(predictor.problem, [0])
    assert predictor.subject.loaded.computes_all
    monkeypatch.setattr(simulator, "undecided", lambda _: frozenset())
    monkeypatch.setattr(simulator, "read_back", lambda _: None)
    whole = Predictor(spec, spec.config(), spec.problem(64, 64, 128), gpu_named("H200"))
    assert whole.subject.sample(whole.problem, [0]).streams == found.streams
    assert not whole.subject.loaded.computes_all
