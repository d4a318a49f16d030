// Whether two fp16 parts of each number are enough for a product: what split_fp16.cu found out about A and B, for those
// who compute it. Four words at the beginning of the workspace, each the largest over the lines of an operand (rows of
// A, columns of B): numbers of a line that may count for nothing, and how many are missing to MOST that count for much.
//
// Why counting will do is derived in split_fp16.cu.
#pragma once

constexpr int MOST = 0x7FFFFFFF;
constexpr int LOST_A = 0, FEW_A = 1, LOST_B = 2, FEW_B = 3;
constexpr int VERDICT_BYTES = 4096;  // cleared before; the words are the first of them

__device__ __forceinline__ bool covered(int lost, int few) { return lost * 32ll <= MOST - few; }

__device__ __forceinline__ bool fp16_accepted(const int* workspace) {
    return covered(workspace[LOST_A], workspace[FEW_B]) && covered(workspace[LOST_B], workspace[FEW_A]);
}
