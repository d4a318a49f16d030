// Pointers to float, sums in float, and the tensor cores in between: each operand keeps 11
// significant bits of 24. This is what "FP32" in a framework may run where TF32 is allowed. One
// warp computes 16 x 8 outputs.
__device__ unsigned tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// M is a multiple of 16, N and K of 8.
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.x / 4, col = blockIdx.x * 8, lane = threadIdx.x % 4;
    float c[4] = {};
    for (int k = 0; k < K; k += 8) {
        unsigned a[4], b[2];
        for (int i = 0; i < 4; ++i) a[i] = tf32(A[(row + i % 2 * 8) * K + k + lane + i / 2 * 4]);
        for (int i = 0; i < 2; ++i) b[i] = tf32(B[(k + lane + i * 4) * N + col + threadIdx.x / 4]);
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    for (int i = 0; i < 4; ++i) C[(row + i / 2 * 8) * N + col + lane * 2 + i % 2] = c[i];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3(N / 8, M / 16), 32>>>(A, B, C, M, N, K);
}
