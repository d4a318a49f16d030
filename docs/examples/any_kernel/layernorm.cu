// Layer normalisation, one warp a row: mean and variance by shuffles, then scale and shift. bf16 in and out.
#include <cuda_bf16.h>

__device__ float warp_sum(float value) {
    for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xffffffffu, value, d);
    return value;
}

__global__ void layernorm(const __nv_bfloat16* x, const float* scale, const float* shift, __nv_bfloat16* out,
                          int rows, int columns, float epsilon) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += row * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < columns; i += 32) sum += __bfloat162float(x[i]);
    float mean = warp_sum(sum) / columns;
    for (int i = lane; i < columns; i += 32) {
        float d = __bfloat162float(x[i]) - mean;
        squares += d * d;
    }
    float inverse = 1.0f / sqrtf(warp_sum(squares) / columns + epsilon);
    for (int i = lane; i < columns; i += 32) {
        float normal = (__bfloat162float(x[i]) - mean) * inverse;
        out[row * columns + i] = __float2bfloat16(normal * scale[i] + shift[i]);
    }
}
