// Causal attention of one head, one query a thread, with the running maximum and sum of flash attention:
// a block's keys and values pass through shared memory in tiles of KEYS.
template <int DIM, int KEYS>
__global__ void attention(const float* q, const float* k, const float* v, float* out, int tokens, float scale) {
    __shared__ float keys[KEYS][DIM], values[KEYS][DIM];
    int query = blockIdx.x * blockDim.x + threadIdx.x;
    float mine[DIM], sum[DIM], largest = -1e30f, weights = 0.0f;
    for (int d = 0; d < DIM; ++d) {
        mine[d] = query < tokens ? q[query * DIM + d] * scale : 0.0f;
        sum[d] = 0.0f;
    }
    for (int first = 0; first < tokens; first += KEYS) {
        for (int i = threadIdx.x; i < KEYS * DIM; i += blockDim.x) {
            bool inside = first * DIM + i < tokens * DIM;
            keys[i / DIM][i % DIM] = inside ? k[first * DIM + i] : 0.0f;
            values[i / DIM][i % DIM] = inside ? v[first * DIM + i] : 0.0f;
        }
        __syncthreads();
        for (int j = 0; j < KEYS && first + j <= query; ++j) {
            float score = 0.0f;
            for (int d = 0; d < DIM; ++d) score += mine[d] * keys[j][d];
            float above = fmaxf(largest, score), shrink = expf(largest - above), weight = expf(score - above);
            weights = weights * shrink + weight;
            for (int d = 0; d < DIM; ++d) sum[d] = sum[d] * shrink + weight * values[j][d];
            largest = above;
        }
        __syncthreads();
    }
    if (query < tokens)
        for (int d = 0; d < DIM; ++d) out[query * DIM + d] = sum[d] / weights;
}
