// Inclusive prefix sums within each row of THREADS integers, by doubling distances (Hillis and Steele).
template <int THREADS>
__global__ void scan(const int* x, int* out) {
    __shared__ int sums[2][THREADS];
    int t = threadIdx.x, now = 0;
    sums[0][t] = x[blockIdx.x * THREADS + t];
    for (int distance = 1; distance < THREADS; distance *= 2, now ^= 1) {
        __syncthreads();
        sums[now ^ 1][t] = sums[now][t] + (t >= distance ? sums[now][t - distance] : 0);
    }
    out[blockIdx.x * THREADS + t] = sums[now][t];
}
