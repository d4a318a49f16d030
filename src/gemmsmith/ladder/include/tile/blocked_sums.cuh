// Blocked summation: partial sums are added in blocks, each from zero, and the sums of blocks to another sum. Of n terms
// about 2 sqrt(n) roundings then lie between a term and the result, instead of n, for one more register and hardly more
// additions.
#pragma once

// Terms of a block: at least 8, and about as many as there are blocks.
__device__ __forceinline__ int terms_of_block(int count) {
    int terms = 8;
    while (terms * terms < count) terms *= 2;
    return terms;
}
