// The position in a ring of pipeline stages.
#pragma once

template <int Stages>
struct Ring {
    int stage = 0;
    unsigned parity = 0;  // of the phase that this stage's barriers are in; flips each time the ring wraps around

    __device__ __forceinline__ void advance() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};
