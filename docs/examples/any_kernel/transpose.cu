// out = in transposed. A tile goes through shared memory, so that reads and writes are both coalesced;
// the extra column (TILE + 1) keeps a column of the tile in 32 different banks.
constexpr int TILE = 32, ROWS = 8;

__global__ void transpose(const float* in, float* out, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        int y = blockIdx.y * TILE + r;
        if (x < width && y < height) tile[r][threadIdx.x] = in[y * width + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        int y = blockIdx.x * TILE + r;
        if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][r];
    }
}
