#include <cuda_runtime.h>

// four columns of C per thread; float4 where a whole vector is inside, else one by one; N is a multiple of 4 for that
__global__ void gemm_vec4(const float *A, const float *B, float *C, int M, int N, int K) {
  const int col = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
  if ((N & 3) == 0) {
    for (int k = 0; k < K; ++k) {
      const float a = A[(size_t)row * K + k];
      const float4 b = *reinterpret_cast<const float4 *>(B + (size_t)k * N + col);
      s0 += a * b.x;
      s1 += a * b.y;
      s2 += a * b.z;
      s3 += a * b.w;
    }
    *reinterpret_cast<float4 *>(C + (size_t)row * N + col) = make_float4(s0, s1, s2, s3);
  } else {
    for (int k = 0; k < K; ++k) {
      const float a = A[(size_t)row * K + k];
      const float *b = B + (size_t)k * N + col;
      s0 += a * b[0];
      if (col + 1 < N) s1 += a * b[1];
      if (col + 2 < N) s2 += a * b[2];
      if (col + 3 < N) s3 += a * b[3];
    }
    float *c = C + (size_t)row * N + col;
    c[0] = s0;
    if (col + 1 < N) c[1] = s1;
    if (col + 2 < N) c[2] = s2;
    if (col + 3 < N) c[3] = s3;
  }
}

void run(const float *A, const float *B, float *C, int M, int N, int K) {
  dim3 block(16, 8);
  gemm_vec4<<<dim3((N + 63) / 64, (M + 7) / 8), block>>>(A, B, C, M, N, K);
}
