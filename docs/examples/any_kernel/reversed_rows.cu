// Reverse each row through memory that its thread gets from malloc.
__global__ void reversed_rows(const int* in, int* out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int* copy = (int*)malloc(columns * sizeof(int));
    for (int i = 0; i < columns; i++) copy[i] = in[row * columns + i];
    for (int i = 0; i < columns; i++) out[row * columns + i] = copy[columns - 1 - i];
    free(copy);
}
