// Vectors: several adjacent elements, moved by one instruction.
#pragma once

// Aligned to its own size, so a copy of 16 bytes becomes one LDG.128, LDS.128 or STG.128.
template <class T, int Width>
struct alignas(sizeof(T) * Width) Vec {
    T at[Width];
};

// Whether every multiple of Width columns is aligned for a vector of Width elements.
// (Pass the kernel's own argument: after a cast to an integer NVVM no longer knows that a derived pointer is global.)
template <int Width, class T>
__device__ __forceinline__ bool vectors_fit(T* matrix, long long ld) {
    return reinterpret_cast<size_t>(matrix) % (Width * sizeof(T)) == 0 && ld % Width == 0;
}

__device__ __forceinline__ float to_float(float x) { return x; }

// Reads Count adjacent elements from shared memory into registers, Width at a time, as fp32.
template <int Width, class T, int Count>
__device__ __forceinline__ void load_fragment(float (&fragment)[Count], const T* shared) {
    static_assert(Count % Width == 0, "a fragment is a whole number of vectors");
#pragma unroll
    for (int i = 0; i < Count; i += Width) {
        const auto values = *reinterpret_cast<const Vec<T, Width>*>(shared + i);
#pragma unroll
        for (int j = 0; j < Width; ++j) fragment[i + j] = to_float(values.at[j]);
    }
}
