// The verdict whether two fp16 terms per number are accurate enough for a product. The prologue (split_fp16.cu) writes
// it; the kernels that could compute the product read it. It is four words at the start of the workspace. A line is a
// row of A or a column of B. For each operand: the maximum over its lines of the count of numbers that fp16 may lose,
// and the maximum over its lines of MOST minus the count of large numbers.
//
// split_fp16.cu derives why these counts suffice.
#pragma once

constexpr int MOST = 0x7FFFFFFF;
constexpr int LOST_A = 0, FEW_A = 1, LOST_B = 2, FEW_B = 3;
constexpr int VERDICT_BYTES = 4096;  // zeroed before the split; the four words are the first of them

__device__ __forceinline__ bool covered(int lost, int few) { return lost * 32ll <= MOST - few; }

__device__ __forceinline__ bool fp16_accepted(const int* workspace) {
    return covered(workspace[LOST_A], workspace[FEW_B]) && covered(workspace[LOST_B], workspace[FEW_A]);
}
