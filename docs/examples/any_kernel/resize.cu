// Stretch an image to another size. The texture unit interpolates between the four nearest pixels, with weights of
// 1/256, and repeats the pixels of the edge.
__global__ void resize(cudaTextureObject_t image, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    out[y * width + x] = tex2D<float>(image, (x + 0.5f) / width, (y + 0.5f) / height);
}
