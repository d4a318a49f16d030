// Sets the beginning of a workspace to 0: flags, before a kernel whose blocks wait for each other's, or sums.
//
// Idea      16 bytes a thread.
// Owns      A block has 16 THREADS bytes, its thread i 16 of them.
// Needs     16 THREADS bytes for each block, on 16 bytes.

#include "ptx/pdl.cuh"
#include "tile/vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
clear(unsigned* workspace) {
    start_next_and_wait_for_previous();
    reinterpret_cast<Vec<unsigned, 4>*>(workspace)[blockIdx.x * THREADS + threadIdx.x] = {};
}
