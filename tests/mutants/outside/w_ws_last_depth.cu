#include <cuda_runtime.h>
#include <cstdint>

// warp 0 loads tiles, warps 1 to 8 multiply; two stages guarded by mbarriers (inline PTX)
#define TILE 32
#define DEPTH 8
__device__ __forceinline__ uint32_t s2u(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void bar_init(uint64_t *b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(s2u(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_arrive(uint64_t *b) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(s2u(b)) : "memory");
}
__device__ __forceinline__ void bar_wait(uint64_t *b, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(s2u(b)), "r"(parity) : "memory");
}

__global__ void gemm_ws(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K) {
  __shared__ float sa[2][DEPTH][TILE], sb[2][DEPTH][TILE];
  __shared__ uint64_t full[2], empty[2];
  const int tid = threadIdx.x, row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  if (tid == 0)
    for (int s = 0; s < 2; ++s) {
      bar_init(&full[s], 32);
      bar_init(&empty[s], 256);
    }
  __syncthreads();
  const int tiles = (K + DEPTH - 1) / DEPTH;
  if (tid < 32) {
    for (int t = 0; t < tiles; ++t) {
      const int s = t & 1;
      if (t >= 2) bar_wait(&empty[s], ((t / 2) - 1) & 1);
      for (int d = 0; d < DEPTH; ++d) {
        const int k = t * DEPTH + d;
        sa[s][d][tid] = row0 + tid < M && k < K ? A[(size_t)(row0 + tid) * K + k] : 0.f;
        sb[s][d][tid] = col0 + tid < N && k < K ? B[(size_t)k * N + col0 + tid] : 0.f;
      }
      bar_arrive(&full[s]);
    }
  } else {
    const int id = tid - 32, x = id % 32, y = id / 32;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int t = 0; t < tiles; ++t) {
      const int s = t & 1;
      bar_wait(&full[s], (t / 2) & 1);
      for (int d = 0; d < DEPTH - (t > 3 && s); ++d)
        for (int i = 0; i < 4; ++i) acc[i] += sa[s][d][y + 8 * i] * sb[s][d][x];
      bar_arrive(&empty[s]);
    }
    for (int i = 0; i < 4; ++i)
      if (row0 + y + 8 * i < M && col0 + x < N) C[(size_t)(row0 + y + 8 * i) * N + col0 + x] = acc[i];
  }
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  gemm_ws<<<dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), 288>>>(A, B, C, M, N, K);
}
