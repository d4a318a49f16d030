// A window on a row-major matrix: everything to the right of and below one element, its origin.
//
// A block has a window on each of A, B and C. Rows and columns count from the origin and stay small; only the origin is
// a 64-bit offset. So nothing overflows in a matrix of more than 2^31 elements.
#pragma once

#include "tile/vector.cuh"

template <class T>
struct Window {
    T* origin;
    long long ld;
    int rows, cols;  // from the origin to the matrix edge; negative once the window has moved past it

    __device__ __forceinline__ T* at(int row, int col) const { return origin + row * ld + col; }

    __device__ __forceinline__ bool inside(int row, int col) const { return row < rows && col < cols; }

    // Whether a tile of tile_rows x tile_cols at the origin lies entirely inside the matrix.
    __device__ __forceinline__ bool holds(int tile_rows, int tile_cols) const {
        return tile_rows <= rows && tile_cols <= cols;
    }

    // The element, or zero outside the matrix, which adds nothing to an accumulator.
    __device__ __forceinline__ T get_or_zero(int row, int col) const {
        return inside(row, col) ? *at(row, col) : T(0.0f);
    }

    __device__ __forceinline__ void move_right(int n) {
        origin += n;
        cols -= n;
    }

    __device__ __forceinline__ void move_down(int n) {
        origin += n * ld;
        rows -= n;
    }
};

// The window whose origin is element (row, col) of a rows x cols matrix.
template <class T>
__device__ __forceinline__ Window<T> window(T* matrix, long long ld, int rows, int cols, int row, int col) {
    return {matrix + row * ld + col, ld, rows - row, cols - col};
}

// Width adjacent elements of a row. Guarded: one by one, with zeros outside the matrix. Otherwise: one vector load.
template <bool Guarded, int Width, class T>
__device__ __forceinline__ Vec<T, Width> load_vector(const Window<const T>& matrix, int row, int col) {
    if constexpr (Guarded) {
        const int valid = row < matrix.rows ? matrix.cols - col : 0;
        const T* const source = matrix.at(row, col);
        Vec<T, Width> values;
#pragma unroll
        for (int j = 0; j < Width; ++j) values.at[j] = j < valid ? source[j] : T(0.0f);
        return values;
    } else {
        return *reinterpret_cast<const Vec<T, Width>*>(matrix.at(row, col));
    }
}
