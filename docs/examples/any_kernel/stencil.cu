// One step of the heat equation: each inner point becomes the mean of its four neighbours. The border is copied.
constexpr int SIDE = 16;

__global__ void stencil(const double* in, double* out, int width, int height) {
    __shared__ double tile[SIDE + 2][SIDE + 2];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    for (int i = threadIdx.y * SIDE + threadIdx.x; i < (SIDE + 2) * (SIDE + 2); i += SIDE * SIDE) {
        int column = int(blockIdx.x) * SIDE + i % (SIDE + 2) - 1, row = int(blockIdx.y) * SIDE + i / (SIDE + 2) - 1;
        bool inside = column >= 0 && row >= 0 && column < width && row < height;
        tile[i / (SIDE + 2)][i % (SIDE + 2)] = inside ? in[row * width + column] : 0.0;
    }
    __syncthreads();
    if (x >= width || y >= height) return;
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    bool border = x == 0 || y == 0 || x == width - 1 || y == height - 1;
    double mean = 0.25 * (tile[j - 1][i] + tile[j + 1][i] + tile[j][i - 1] + tile[j][i + 1]);
    out[y * width + x] = border ? tile[j][i] : mean;
}
