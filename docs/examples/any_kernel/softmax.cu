// Softmax of each row, one block a row: the row's maximum, then the sum of exponentials, then the quotients.
template <int THREADS>
__device__ float combine(float value, float* shared, bool maximum) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = shared[threadIdx.x + half];
            shared[threadIdx.x] = maximum ? fmaxf(shared[threadIdx.x], other) : shared[threadIdx.x] + other;
        }
        __syncthreads();
    }
    float all = shared[0];
    __syncthreads();
    return all;
}

template <int THREADS>
__global__ void softmax(const float* x, float* out, int columns) {
    __shared__ float shared[THREADS];
    const float* row = x + blockIdx.x * columns;
    float largest = row[0], sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += THREADS) largest = fmaxf(largest, row[i]);
    largest = combine<THREADS>(largest, shared, true);
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += expf(row[i] - largest);
    sum = combine<THREADS>(sum, shared, false);
    for (int i = threadIdx.x; i < columns; i += THREADS) out[blockIdx.x * columns + i] = expf(row[i] - largest) / sum;
}
