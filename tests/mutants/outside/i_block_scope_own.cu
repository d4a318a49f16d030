// Right: block-scope atomics on elements of C and of shared memory that one block alone uses.
#include <cuda_runtime.h>
__global__ void in_block(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float sums[8][8];
  int t = threadIdx.x, row = blockIdx.y * 8 + t / 8 % 8, col = blockIdx.x * 8 + t % 8, part = t / 64;
  if (part == 0) sums[t / 8 % 8][t % 8] = 0.f;
  if (part == 0 && row < M && col < N) C[row * N + col] = 0.f;
  __syncthreads();
  float acc = 0.f;
  if (row < M && col < N)
    for (int k = part; k < K; k += 4) acc += A[row * K + k] * B[k * N + col];
  if (part < 2) {
    unsigned at = __cvta_generic_to_shared(&sums[t / 8 % 8][t % 8]);
    asm volatile("red.relaxed.cta.shared.add.f32 [%0], %1;" ::"r"(at), "f"(acc) : "memory");
  } else if (part == 2) atomicAdd_block(&sums[t / 8 % 8][t % 8], acc);
  __syncthreads();
  if (row < M && col < N) {
    if (part == 3) atomicAdd_block(&C[row * N + col], acc);
    if (part == 0) atomicAdd_block(&C[row * N + col], sums[t / 8 % 8][t % 8]);
  }
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
  in_block<<<dim3((N + 7) / 8, (M + 7) / 8), 256>>>(A, B, C, M, N, K);
}
