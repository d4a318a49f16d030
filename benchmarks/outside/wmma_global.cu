// WMMA as a first example shows it: every warp loads fragments from global memory and computes 16 x 16 outputs.
#include <mma.h>
using namespace nvcuda;

// M and K are multiples of 16, N of 64.
__global__ void wmma_simple(const half* A, const half* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * 16 * 4 + threadIdx.y * 16, col = blockIdx.x * 16 * 4 + threadIdx.x / 32 * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}

void launch(const half* A, const half* B, float* C, int M, int N, int K) {
    wmma_simple<<<dim3(N / 64, M / 64), dim3(128, 4)>>>(A, B, C, M, N, K);
}
