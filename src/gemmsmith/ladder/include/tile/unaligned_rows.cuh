// A stored matrix of 2-byte elements whose rows start at any address, seen as aligned 16-byte granules. Memory is
// allocated in whole granules, so a granule can be read wherever one of its elements can.
#pragma once

constexpr int GRANULE = 8;  // elements in 16 bytes

template <class T>
struct UnalignedRows {
    const T* matrix;
    long long ld;
    int lines, length;  // rows and columns as stored

    // Elements from the last 16-byte boundary to this element.
    __device__ __forceinline__ unsigned skew(unsigned line, unsigned at) const {
        return (static_cast<unsigned>(reinterpret_cast<size_t>(matrix) / sizeof(T)) +
                line * static_cast<unsigned>(ld) + at) % GRANULE;
    }
};
