// How a scheduler chooses among its warps, and what register banks and the reuse cache cost. See record_issue.py, which
// rewrites registers, reuse flags, stall counts and yield bits of the loops' instructions in the cubin before it runs them.
//
//     nvcc -cubin -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a issue.cu -o issue.cubin
//
// Every warp of a block runs the same loop. `times` gets for each warp when it begins and when it ends.
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }

constexpr int SUMS = 48, BODY = 240;

extern "C" __global__ void __launch_bounds__(1024, 1) ffma_loop(float* out, long long* times, int rounds) {
    float c[SUMS];
#pragma unroll
    for (int n = 0; n < SUMS; ++n) c[n] = threadIdx.x * n;
    __syncthreads();
    long long begin = now();
#pragma unroll 1
    for (int s = 0; s < rounds; ++s)
#pragma unroll
        for (int n = 0; n < BODY; ++n) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(c[n % SUMS]) : "f"(c[0]), "f"(c[1]));
    float sum = 0;
#pragma unroll
    for (int n = 0; n < SUMS; ++n) sum += c[n];
    if (sum == 12345) *out = sum;
    long long end = now();
    if (threadIdx.x % 32 == 0) times[threadIdx.x / 32 * 2] = begin, times[threadIdx.x / 32 * 2 + 1] = end;
}

extern "C" __global__ void __launch_bounds__(512, 1) hmma_loop(float* out, long long* times, int rounds) {
    float c[8][4];
#pragma unroll
    for (int n = 0; n < 32; ++n) c[n / 4][n % 4] = threadIdx.x * n;
    unsigned a[2][4], b[4][2];
#pragma unroll
    for (int n = 0; n < 8; ++n) a[n / 4][n % 4] = threadIdx.x + n, b[n / 2][n % 2] = threadIdx.x ^ n;
    __syncthreads();
    long long begin = now();
#pragma unroll 1
    for (int s = 0; s < rounds; ++s)
#pragma unroll
        for (int n = 0; n < 64; ++n)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c[n % 8][0]), "+f"(c[n % 8][1]), "+f"(c[n % 8][2]), "+f"(c[n % 8][3])
                         : "r"(a[n % 8 / 4][0]), "r"(a[n % 8 / 4][1]), "r"(a[n % 8 / 4][2]), "r"(a[n % 8 / 4][3]), "r"(b[n % 4][0]), "r"(b[n % 4][1]));
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 32; ++n) sum += c[n / 4][n % 4];
    if (sum == 12345) *out = sum;
    long long end = now();
    if (threadIdx.x % 32 == 0) times[threadIdx.x / 32 * 2] = begin, times[threadIdx.x / 32 * 2 + 1] = end;
}
