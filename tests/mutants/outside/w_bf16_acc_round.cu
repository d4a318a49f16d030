#include <cuda_bf16.h>

// bf16, 64x64x32 tiles, two stages of cp.async, mma.m16n8k16 with ldmatrix; whole tiles only
constexpr int BM = 64, BN = 64, BK = 32, LDA_S = BK + 8, LDB_S = BN + 8;

__device__ __forceinline__ unsigned smem(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(void *dst, const void *src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(smem(dst)), "l"(src));
}

__global__ void __launch_bounds__(128) bf16_gemm(const __nv_bfloat16 *A, const __nv_bfloat16 *B, __nv_bfloat16 *C, int M, int N, int K) {
  __shared__ __align__(16) __nv_bfloat16 As[2][BM * LDA_S];
  __shared__ __align__(16) __nv_bfloat16 Bs[2][BK * LDB_S];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int wm = (warp / 2) * 32, wn = (warp % 2) * 32;
  const __nv_bfloat16 *Ab = A + (size_t)blockIdx.y * BM * K;
  const __nv_bfloat16 *Bb = B + blockIdx.x * BN;
  auto load = [&](int s, int k0) {
    for (int i = tid; i < BM * BK / 8; i += 128) {
      const int r = i / (BK / 8), c = i % (BK / 8) * 8;
      copy16(&As[s][r * LDA_S + c], Ab + (size_t)r * K + k0 + c);
    }
    for (int i = tid; i < BK * BN / 8; i += 128) {
      const int r = i / (BN / 8), c = i % (BN / 8) * 8;
      copy16(&Bs[s][r * LDB_S + c], Bb + (size_t)(k0 + r) * N + c);
    }
    asm volatile("cp.async.commit_group;\n" ::);
  };
  float acc[2][4][4] = {};
  load(0, 0);
  const int tiles = K / BK;
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      load((t + 1) & 1, (t + 1) * BK);
      asm volatile("cp.async.wait_group 1;\n" ::);
    } else {
      asm volatile("cp.async.wait_group 0;\n" ::);
    }
    __syncthreads();
    const __nv_bfloat16 *as = As[t & 1], *bs = Bs[t & 1];
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      unsigned a[2][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned p = smem(&as[(wm + i * 16 + lane % 16) * LDA_S + kk + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(p));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned p = smem(&bs[(kk + lane % 16) * LDB_S + wn + j * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(b[j][0]), "=r"(b[j][1]) : "r"(p));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
    }
    __syncthreads();
    if (t % 8 == 7)
      for (int i = 0; i < 32; ++i) (&acc[0][0][0])[i] = __bfloat162float(__float2bfloat16((&acc[0][0][0])[i]));
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int h = 0; h < 2; ++h) {
        const int r = blockIdx.y * BM + wm + i * 16 + lane / 4 + h * 8, c = blockIdx.x * BN + wn + j * 8 + lane % 4 * 2;
        *reinterpret_cast<__nv_bfloat162 *>(&C[(size_t)r * N + c]) = __floats2bfloat162_rn(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
      }
}

void run(const __nv_bfloat16 *A, const __nv_bfloat16 *B, __nv_bfloat16 *C, int M, int N, int K) {
  bf16_gemm<<<dim3(N / BN, M / BM), 128>>>(A, B, C, M, N, K);
}
