// The warp-matrix API for every type and shape, for the simulator's tests: one warp, one tile, C = A·B + C.
// A, B and C lie in global memory; with SHARED they are staged in shared memory with padded rows.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <typename T> struct Storage { using type = T; };
template <> struct Storage<wmma::precision::tf32> { using type = float; };

// Copies rows x columns elements to rows of `pitch` elements.
template <typename T>
__device__ void stage(T* to, const T* from, int rows, int columns, int pitch) {
    for (int i = threadIdx.x; i < rows * columns; i += 32) to[i / columns * pitch + i % columns] = from[i];
}

template <int M, int N, int K, typename T, typename C, typename ALayout, typename BLayout, bool SHARED>
__device__ void tile(const typename Storage<T>::type* a, const typename Storage<T>::type* b, C* c) {
    using Element = typename Storage<T>::type;
    constexpr bool A_ROWS = ALayout().x == 0, B_ROWS = BLayout().x == 0;
    constexpr int PAD = 32 / sizeof(Element);
    constexpr int LDA = A_ROWS ? K : M, LDB = B_ROWS ? N : K;
    __shared__ __align__(32) Element as[32 * 64], bs[32 * 64];
    __shared__ __align__(32) C cs[32 * 40];
    wmma::fragment<wmma::matrix_a, M, N, K, T, typename ALayout::type> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, typename BLayout::type> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    if (SHARED) {
        stage(as, a, M * K / LDA, LDA, LDA + PAD);
        stage(bs, b, K * N / LDB, LDB, LDB + PAD);
        stage(cs, c, M, N, N + 8);
        __syncwarp();
        wmma::load_matrix_sync(fa, as, LDA + PAD);
        wmma::load_matrix_sync(fb, bs, LDB + PAD);
        wmma::load_matrix_sync(fc, cs, N + 8, wmma::mem_row_major);
    } else {
        wmma::load_matrix_sync(fa, a, LDA);
        wmma::load_matrix_sync(fb, b, LDB);
        wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    }
    wmma::mma_sync(fc, fa, fb, fc);
    if (SHARED) {
        __syncwarp();
        wmma::store_matrix_sync(cs, fc, M + 8, wmma::mem_col_major);
        __syncwarp();
        for (int i = threadIdx.x; i < M * N; i += 32) c[i] = cs[i % N * (M + 8) + i / N];
    } else {
        wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
    }
}

struct Rows { using type = wmma::row_major; static constexpr int x = 0; };
struct Columns { using type = wmma::col_major; static constexpr int x = 1; };

#define TILE(NAME, M, N, K, T, C, AL, BL, SHARED)                                                              \
    extern "C" __global__ void NAME(const Storage<T>::type* a, const Storage<T>::type* b, C* c) {              \
        tile<M, N, K, T, C, AL, BL, SHARED>(a, b, c);                                                          \
    }
#define LAYOUTS(NAME, M, N, K, T, C)                                                                           \
    TILE(NAME##_rows, M, N, K, T, C, Rows, Rows, false)                                                        \
    TILE(NAME##_columns, M, N, K, T, C, Columns, Columns, false)                                               \
    TILE(NAME##_rows_shared, M, N, K, T, C, Rows, Columns, true)                                               \
    TILE(NAME##_columns_shared, M, N, K, T, C, Columns, Rows, true)
#define SHAPES(NAME, T, C)                                                                                     \
    LAYOUTS(NAME##_16x16, 16, 16, 16, T, C)                                                                    \
    LAYOUTS(NAME##_32x8, 32, 8, 16, T, C)                                                                      \
    LAYOUTS(NAME##_8x32, 8, 32, 16, T, C)

// One type at a time: -DKIND=half_half, say.
#define EXPAND(MACRO, ...) MACRO(__VA_ARGS__)
#define half_half() EXPAND(SHAPES, half_half, __half, __half)
#define half_float() EXPAND(SHAPES, half_float, __half, float)
#define bfloat() EXPAND(SHAPES, bfloat, __nv_bfloat16, float)
#define signed_char() EXPAND(SHAPES, signed_char, signed char, int)
#define unsigned_char() EXPAND(SHAPES, unsigned_char, unsigned char, int)
#define tf32() EXPAND(LAYOUTS, tf32_16x16, 16, 16, 8, wmma::precision::tf32, float)
#define double_precision() EXPAND(LAYOUTS, double_precision_8x8, 8, 8, 4, double, double)
#define GENERATE(KIND) KIND()
GENERATE(KIND)
