// Sets the flags at the beginning of a workspace to 0, before a kernel whose blocks wait for each other's.
//
// Idea      One block, 16 bytes a thread.
// Owns      Thread i has bytes 16 i to 16 i + 15.
// Needs     flags on 16 bytes.

#include "vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
clear(unsigned* flags) {
    reinterpret_cast<Vec<unsigned, 4>*>(flags)[threadIdx.x] = {};
}
