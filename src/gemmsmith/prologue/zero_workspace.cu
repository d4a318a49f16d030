// zero_workspace: sets the beginning of a workspace to 0, before a kernel that keeps flags, counters or sums there.
//
// Idea      16 bytes per thread.
// Owns      A block owns 16 * THREADS bytes, a thread 16 of them.
// Needs     A workspace that starts on 16 bytes and has 16 * THREADS bytes for each block.

#include "ptx/pdl.cuh"
#include "tile/vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
zero_workspace(unsigned* workspace) {
    pdl_launch_and_wait();
    reinterpret_cast<Vec<unsigned, 4>*>(workspace)[blockIdx.x * THREADS + threadIdx.x] = {};
}
