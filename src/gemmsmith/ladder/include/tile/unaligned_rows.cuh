// A stored matrix of 2-byte elements whose rows start anywhere, as the aligned granules of 16 bytes that they lie in.
// Memory is allocated in whole granules, so that one can be read wherever an element of it can.
#pragma once

constexpr int GRANULE = 8;  // elements in 16 bytes

template <class T>
struct AnyRows {
    const T* matrix;
    long long ld;
    int lines, length;  // as it is stored

    // From the last boundary of 16 bytes to this element.
    __device__ __forceinline__ unsigned skew(unsigned line, unsigned at) const {
        return (static_cast<unsigned>(reinterpret_cast<size_t>(matrix) / sizeof(T)) +
                line * static_cast<unsigned>(ld) + at) % GRANULE;
    }
};
