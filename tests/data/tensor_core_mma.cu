// Small kernels around ldmatrix and mma.sync, for the simulator's tests. Row-major matrices without padding.
#include <cuda_fp16.h>

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void load_matrices(unsigned (&r)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

__device__ void load_transposed(unsigned (&r)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void copy_16(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

// One warp, C of 16x8 from A of 16xk and B of kx8, fragments straight from global memory.
extern "C" __global__ void plain(const __half* a, const __half* b, float* c, int k) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {};
    for (int i = 0; i < k; i += 16) {
        unsigned ra[4], rb[2];
        for (int r = 0; r < 4; ++r) ra[r] = *(const unsigned*)(a + (g + r % 2 * 8) * k + i + 2 * t + r / 2 * 8);
        for (int r = 0; r < 2; ++r) {
            const __half* p = b + (i + 2 * t + r * 8) * 8 + g;
            rb[r] = __half_as_ushort(p[0]) | __half_as_ushort(p[8]) << 16;
        }
        multiply(d, ra, rb[0], rb[1]);
    }
    for (int r = 0; r < 4; ++r) c[(g + r / 2 * 8) * 8 + 2 * t + r % 2] = d[r];
}

// A 16x16 tile of 16-bit elements, transposed on its way through ldmatrix.
extern "C" __global__ void transpose(const unsigned short* in, unsigned short* out) {
    __shared__ __align__(16) unsigned short tile[16 * 16];
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = in[i];
    __syncwarp();
    unsigned r[4];
    load_transposed(r, shared_address(tile + threadIdx.x % 16 * 16 + threadIdx.x / 16 * 8));
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int j = 0; j < 4; ++j) {  // matrix j: rows 8(j%2).., columns 8(j/2).. of the input
        unsigned short* p = out + (j / 2 * 8 + g) * 16 + j % 2 * 8 + 2 * t;
        p[0] = r[j] & 0xffff;
        p[1] = r[j] >> 16;
    }
}

// C of 64x64 a block of four warps (32x32 each), three stages of cp.async, rows of 64 bytes swizzled.
#ifndef STAGES
#define STAGES 3
#endif
#ifndef WAIT
#define WAIT STAGES - 2
#endif
#ifndef SWIZZLE
#define SWIZZLE(row) ((row) / 2 % 4)
#endif
#ifndef BARRIER
#define BARRIER __syncthreads()
#endif
extern "C" __global__ void pipelined(const __half* a, const __half* b, float* c, int n, int k) {
    extern __shared__ __align__(128) char memory[];  // a stage: A of 64x32 and, transposed, B of 64x32 elements
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int row = blockIdx.y * 64, column = blockIdx.x * 64, wm = warp / 2 * 32, wn = warp % 2 * 32;
    unsigned base = shared_address(memory);
    auto fetch = [&](int tile) {
        if (tile * 32 < k)
            for (int e = thread; e < 512; e += 128) {
                int which = e / 256, r = e / 4 % 64, chunk = e % 4;
                unsigned to = base + tile % STAGES * 8192 + which * 4096 + r * 64 + (chunk ^ SWIZZLE(r)) * 16;
                copy_16(to, (which ? b + (column + r) * k : a + (row + r) * k) + tile * 32 + chunk * 8);
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    float d[2][4][4] = {};
    for (int tile = 0; tile * 32 < k; ++tile) {
        asm volatile("cp.async.wait_group %0;" :: "n"(WAIT) : "memory");
        BARRIER;
        fetch(tile + STAGES - 1);
        unsigned stage = base + tile % STAGES * 8192;
        for (int half = 0; half < 2; ++half) {
            unsigned ra[2][4], rb[2][4];
            for (int i = 0; i < 2; ++i) {
                int r = wm + i * 16 + lane % 16, chunk = half * 2 + lane / 16;
                load_matrices(ra[i], stage + r * 64 + (chunk ^ SWIZZLE(r)) * 16);
                r = wn + i * 16 + lane % 8 + lane / 16 * 8, chunk = half * 2 + lane / 8 % 2;
                load_matrices(rb[i], stage + 4096 + r * 64 + (chunk ^ SWIZZLE(r)) * 16);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) multiply(d[i][j], ra[i], rb[j / 2][j % 2 * 2], rb[j / 2][j % 2 * 2 + 1]);
        }
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) {
            float* p = c + (row + wm + i * 16 + lane / 4) * n + column + wn + j * 8 + lane % 4 * 2;
            *(float2*)p = make_float2(d[i][j][0], d[i][j][1]);
            *(float2*)(p + 8 * n) = make_float2(d[i][j][2], d[i][j][3]);
        }
}
