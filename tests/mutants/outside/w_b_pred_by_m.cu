#include <cuda_runtime.h>
#include <stdint.h>

#define BM 64
#define BN 64
#define BK 16
#define STAGES 3

__device__ __forceinline__ void cp_async_16(void *dst, const void *src, bool pred) {
  uint32_t d = (uint32_t)__cvta_generic_to_shared(dst);
  int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(bytes));
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N> __device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

// rows guarded; K % 16 == 0 and N % 4 == 0
__global__ void __launch_bounds__(256)
sgemm_cp_async(int M, int N, int K, const float *A, const float *B, float *C) {
  extern __shared__ float smem[];
  float *As = smem;                         // [STAGES][BM][BK]
  float *Bs = smem + STAGES * BM * BK;      // [STAGES][BK][BN]
  const int tid = threadIdx.x;
  const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
  const int a_r = tid >> 2, a_c = (tid & 3) << 2;
  const int b_r = tid >> 4, b_c = (tid & 15) << 2;
  const bool a_in = bm + a_r < M, b_in = bn + b_c < M;
  const float *gA = A + (size_t)(a_in ? bm + a_r : 0) * K + a_c;
  const float *gB = B + (size_t)b_r * N + (b_in ? bn + b_c : 0);
  const int nk = K / BK;

  auto load = [&](int kt) {
    int s = kt % STAGES;
    cp_async_16(As + (s * BM + a_r) * BK + a_c, gA + (size_t)kt * BK, a_in);
    cp_async_16(Bs + (s * BK + b_r) * BN + b_c, gB + (size_t)kt * BK * N, b_in);
  };

#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < nk) load(s);
    cp_commit();
  }
  float acc[4][4] = {};
  const int tr = (tid >> 4) << 2, tc = (tid & 15) << 2;
  for (int kt = 0; kt < nk; ++kt) {
    cp_wait<STAGES - 2>();
    __syncthreads();
    if (kt + STAGES - 1 < nk) load(kt + STAGES - 1);
    cp_commit();
    const float *a = As + (kt % STAGES) * BM * BK;
    const float *b = Bs + (kt % STAGES) * BK * BN;
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float4 bv = *reinterpret_cast<const float4 *>(b + k * BN + tc);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float av = a[(tr + i) * BK + k];
        acc[i][0] = fmaf(av, bv.x, acc[i][0]);
        acc[i][1] = fmaf(av, bv.y, acc[i][1]);
        acc[i][2] = fmaf(av, bv.z, acc[i][2]);
        acc[i][3] = fmaf(av, bv.w, acc[i][3]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int r = bm + tr + i, c = bn + tc;
    if (r < M && c < N)
      *reinterpret_cast<float4 *>(C + (size_t)r * N + c) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
  }
}

void sgemm(int M, int N, int K, const float *A, const float *B, float *C) {
  dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
  size_t smem = STAGES * (BM * BK + BK * BN) * sizeof(float);
  sgemm_cp_async<<<grid, 256, smem>>>(M, N, K, A, B, C);
}
