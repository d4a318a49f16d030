// Small kernels of the warp-matrix API, for the simulator's tests. Row-major matrices without padding.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

// The warp-matrix API: one warp a tile of 16x16, operands staged in shared memory with padding.
template <typename T, typename BLayout, bool BY_COLUMNS>
__device__ void warp_tiles(const T* a, const T* b, float* c, int n, int k) {
    using namespace nvcuda;
    __shared__ __align__(32) T as[16 * 24], bs[16 * 24];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, BLayout> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    for (int i = 0; i < k; i += 16) {
        for (int e = threadIdx.x; e < 256; e += 32) {
            as[e / 16 * 24 + e % 16] = a[(row + e / 16) * k + i + e % 16];
            T value = b[(i + e / 16) * n + column + e % 16];
            bs[BY_COLUMNS ? e % 16 * 24 + e / 16 : e / 16 * 24 + e % 16] = value;
        }
        __syncthreads();
        wmma::load_matrix_sync(fa, as, 24);
        wmma::load_matrix_sync(fb, bs, 24);
        wmma::mma_sync(fc, fa, fb, fc);
        __syncthreads();
    }
    for (int e = 0; e < fc.num_elements; ++e) fc.x[e] *= 2.0f;
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_half(const __half* a, const __half* b, float* c, int n, int k) {
    warp_tiles<__half, nvcuda::wmma::row_major, false>(a, b, c, n, k);
}

extern "C" __global__ void wmma_bfloat(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
    warp_tiles<__nv_bfloat16, nvcuda::wmma::col_major, true>(a, b, c, n, k);
}

// No shared memory; the layout of everything in memory is one, and elements are changed in their fragment.
template <typename Layout>
__device__ void one_tile(const __half* a, const __half* b, float* c, nvcuda::wmma::layout_t layout) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, Layout> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, Layout> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(fc, c, 16, layout);
    for (int e = 0; e < fa.num_elements; ++e) fa.x[e] = fa.x[e] + fa.x[e];
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, layout);
}

extern "C" __global__ void wmma_columns(const __half* a, const __half* b, float* c) {
    one_tile<nvcuda::wmma::col_major>(a, b, c, nvcuda::wmma::mem_col_major);
}

extern "C" __global__ void wmma_rows(const __half* a, const __half* b, float* c) {
    one_tile<nvcuda::wmma::row_major>(a, b, c, nvcuda::wmma::mem_row_major);
}
