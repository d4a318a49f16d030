// ldmatrix and stmatrix: a warp moves four 8 x 8 matrices of 16-bit elements between shared memory and fragments.
//
// A row of a matrix is 16 bytes. Lanes 8i to 8i + 7 give the addresses of the rows of matrix i. Lane l holds, of each
// matrix, the 4 bytes number l % 4 of row l / 4.
#pragma once

// Transposed: lane l receives element l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1.
template <bool Transposed>
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned address) {
    if constexpr (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// Two matrices, transposed: lane l holds of each the elements number l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1. Lanes 0
// to 15 give the addresses.
__device__ __forceinline__ void stmatrix_x2_transposed(unsigned address, unsigned first, unsigned second) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 ::"r"(address), "r"(first), "r"(second) : "memory");
}
