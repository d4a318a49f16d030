"""Kernels written with cuda::barrier and cuda::ptx of CUDA's C++ library: TMA, mbarriers, clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gemmsmith

CODE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
#include <cooperative_groups.h>
namespace ptx = cuda::ptx;
namespace cde = cuda::device::experimental;
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
constexpr int ROWS = 16, COLS = 32;

// cuda::barrier and the experimental copies of CUDA's guide.
__device__ void guide(const CUtensorMap& map, int x, int y) {
  __shared__ alignas(128) int tile[ROWS][COLS];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); cde::fence_proxy_async_shared_cta(); }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, x, y, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
  } else token = bar.arrive();
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < ROWS * COLS; i += blockDim.x) tile[i / COLS][i % COLS] += i;
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_shared_to_global(&map, x, y, &tile);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
  __syncthreads();
  if (threadIdx.x == 0) (&bar)->~barrier();
}

// cuda::ptx: 1-D bulk copies, expect_tx, test_wait, reductions into global memory.
__device__ void bulk(const int* in, int* sums, int n) {
  __shared__ alignas(16) int tile[256];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  for (int step = 0; step * 256 < n; ++step) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(tile));
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in + step * 256, sizeof(tile), &full);
    }
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &full, step & 1)) {}
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] *= 2;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, tile, sizeof(tile));
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    }
    __syncthreads();
  }
}

// A cluster: remote arrivals, st.async, cluster barriers, elect.sync, special registers.
__device__ void pair(int* out) {
  __shared__ alignas(16) int mail[4];
  __shared__ uint64_t full;
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = ptx::get_sreg_cluster_ctarank(), other = rank ^ 1;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 16);
  }
  ptx::barrier_cluster_arrive(ptx::sem_release);
  ptx::barrier_cluster_wait(ptx::sem_acquire);
  if (threadIdx.x < 32 && ptx::elect_sync(~0u)) {
    int* there = cluster.map_shared_rank(mail, other);
    uint64_t* bar = cluster.map_shared_rank(&full, other);
    int value[4] = {int(rank), 10 + int(rank), 20 + int(rank), 30 + int(rank)};
    ptx::st_async(there, value, bar);
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, 0)) {}
  if (threadIdx.x < 4) out[4 * rank + threadIdx.x] = mail[threadIdx.x];
  cluster.sync();
}

// Tensor copies of cuda::ptx, multicast, and a store that adds.
__device__ void spread(const CUtensorMap& in, const CUtensorMap& out) {
  __shared__ alignas(128) float tile[ROWS][COLS];
  __shared__ uint64_t full;
  const unsigned rank = ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(tile));
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  if (rank == 0 && threadIdx.x == 0) {
    const int at[2] = {COLS, 0};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &in, at, &full, uint16_t(3));
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, 0)) {}
  if (threadIdx.x == 0) {
    const int at[2] = {0, int(rank) * ROWS};
    ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &out, at, tile);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

__global__ void __cluster_dims__(2, 1, 1)
wrapped(const __grid_constant__ CUtensorMap map, const int* in, int* sums, int n, int* mail,
        const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
  if (blockIdx.x == 0) {
    guide(map, 32, 16);
    bulk(in, sums, n);
  }
  pair(mail);
  spread(from, to);
}
"""


def test_kernels_of_the_library_s_wrappers(tmp_path: Path) -> None:
    """One kernel: the library takes seconds to compile."""
    (tmp_path / "wrapped.cu").write_text(CODE)
    grid = np.arange(64 * 64, dtype=np.int32).reshape(64, 64)
    x, spread = np.arange(1024, dtype=np.int32), np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    maps = [gemmsmith.tensor_map(each, box=(16, 32)) for each in (grid, spread, np.ones((32, 32), np.float32))]
    result = gemmsmith.launch(
        tmp_path / "wrapped.cu", grid=2, block=64,
        args=[maps[0], x, np.zeros(256, np.int32), x.size, np.zeros(8, np.int32), *maps[1:]],
    )  # fmt: skip
    expected = grid.copy()
    expected[16:32, 32:] += np.arange(16 * 32, dtype=np.int32).reshape(16, 32)
    assert np.array_equal(result["map"], expected)
    assert np.array_equal(result["sums"], 2 * x.reshape(4, 256).sum(axis=0))
    assert result["mail"].tolist() == [1, 11, 21, 31, 0, 10, 20, 30]
    assert np.array_equal(result["to"], 1 + np.concatenate([spread[:, 32:], spread[:, 32:]]))
    assert not result.hazards
