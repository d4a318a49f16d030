// wgmma: a warpgroup (128 threads) multiplies a 64-row tile of A with an N-column tile of B. The tensor cores read both
// from shared memory; the accumulators are in registers.
//
// Thread t of the warpgroup (warp w = t / 32, lane l) holds, of the 64 x N accumulators, for each j (8 columns):
//     d[4 j + 0, 1]   row 16 w + l / 4        columns 8 j + 2 (l % 4) and the next
//     d[4 j + 2, 3]   row 16 w + l / 4 + 8    the same columns
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The matrix descriptor of a tile in boxes of 128-byte rows (tma.cuh). K_MAJOR: a box row runs along k, and every 8
// rows form a 1024-byte block of the layout. Otherwise a box row runs along M or N: the next 8 of k follow at once, and
// the next 64 rows or columns are one box later. Sizes and strides are in units of 16 bytes.
template <bool K_MAJOR>
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned address) {
    constexpr unsigned long long SWIZZLE_128 = 1ull << 62, EIGHT_ROWS = 1024 / 16, BOX_STRIDE = K_MAJOR ? 1 : 8192 / 16;
    return SWIZZLE_128 | EIGHT_ROWS << 32 | BOX_STRIDE << 16 | (address & 0x3FFFF) >> 4;
}

// From one k16 step to the next, in units of 16 bytes: 32 bytes along a row, or 16 rows.
template <bool K_MAJOR>
constexpr unsigned long long K_STEP = K_MAJOR ? 32 / 16 : 16 * 128 / 16;

// Orders earlier accesses to registers and shared memory before later wgmma instructions.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most Pending of the committed groups are still running.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// The operand text and the register constraints of the first 8, 16, 24 ... accumulators.
#define WGMMA_REGS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_REGS_16 WGMMA_REGS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_REGS_24 WGMMA_REGS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_REGS_32 WGMMA_REGS_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_REGS_40 WGMMA_REGS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_REGS_48 WGMMA_REGS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_REGS_56 WGMMA_REGS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_REGS_64 WGMMA_REGS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_REGS_72 WGMMA_REGS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_REGS_80 WGMMA_REGS_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_REGS_88 WGMMA_REGS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_REGS_96 WGMMA_REGS_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_REGS_104 WGMMA_REGS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_REGS_112 WGMMA_REGS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_REGS_120 WGMMA_REGS_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_REGS_128 WGMMA_REGS_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_EIGHT(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define WGMMA_ACC_8 WGMMA_EIGHT(0)
#define WGMMA_ACC_16 WGMMA_ACC_8, WGMMA_EIGHT(8)
#define WGMMA_ACC_24 WGMMA_ACC_16, WGMMA_EIGHT(16)
#define WGMMA_ACC_32 WGMMA_ACC_24, WGMMA_EIGHT(24)
#define WGMMA_ACC_40 WGMMA_ACC_32, WGMMA_EIGHT(32)
#define WGMMA_ACC_48 WGMMA_ACC_40, WGMMA_EIGHT(40)
#define WGMMA_ACC_56 WGMMA_ACC_48, WGMMA_EIGHT(48)
#define WGMMA_ACC_64 WGMMA_ACC_56, WGMMA_EIGHT(56)
#define WGMMA_ACC_72 WGMMA_ACC_64, WGMMA_EIGHT(64)
#define WGMMA_ACC_80 WGMMA_ACC_72, WGMMA_EIGHT(72)
#define WGMMA_ACC_88 WGMMA_ACC_80, WGMMA_EIGHT(80)
#define WGMMA_ACC_96 WGMMA_ACC_88, WGMMA_EIGHT(88)
#define WGMMA_ACC_104 WGMMA_ACC_96, WGMMA_EIGHT(96)
#define WGMMA_ACC_112 WGMMA_ACC_104, WGMMA_EIGHT(104)
#define WGMMA_ACC_120 WGMMA_ACC_112, WGMMA_EIGHT(112)
#define WGMMA_ACC_128 WGMMA_ACC_120, WGMMA_EIGHT(120)

// One specialisation per width of B and element type. A and B are given by descriptors. With accumulate = 0 the old
// accumulators are discarded. The last two immediates say which operands are not K-major.
template <class T, int N, bool A_K_MAJOR, bool B_K_MAJOR>
struct Wgmma;

#define WGMMA_TYPED(COLS, REGISTERS, A, B, P, TA, TB, T, NAME)                                                         \
    template <bool A_K_MAJOR, bool B_K_MAJOR>                                                                          \
    struct Wgmma<T, COLS, A_K_MAJOR, B_K_MAJOR> {                                                                      \
        static __device__ __forceinline__ void multiply(float (&d)[COLS / 2], unsigned long long a,                   \
                                                        unsigned long long b, int accumulate) {                       \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P ", 0;\n"                                               \
                         "wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32." NAME "." NAME                            \
                         " {" WGMMA_REGS_##REGISTERS "}, %" A ", %" B ", p, 1, 1, %" TA ", %" TB ";\n}"                \
                         : WGMMA_ACC_##REGISTERS                                                                      \
                         : "l"(a), "l"(b), "r"(accumulate), "n"(A_K_MAJOR ? 0 : 1), "n"(B_K_MAJOR ? 0 : 1));           \
        }                                                                                                              \
    };
#define WGMMA_WIDTH(COLS, REGISTERS, A, B, P, TA, TB)                       \
    WGMMA_TYPED(COLS, REGISTERS, A, B, P, TA, TB, __half, "f16")            \
    WGMMA_TYPED(COLS, REGISTERS, A, B, P, TA, TB, __nv_bfloat16, "bf16")
WGMMA_WIDTH(16, 8, "8", "9", "10", "11", "12")
WGMMA_WIDTH(32, 16, "16", "17", "18", "19", "20")
WGMMA_WIDTH(48, 24, "24", "25", "26", "27", "28")
WGMMA_WIDTH(64, 32, "32", "33", "34", "35", "36")
WGMMA_WIDTH(80, 40, "40", "41", "42", "43", "44")
WGMMA_WIDTH(96, 48, "48", "49", "50", "51", "52")
WGMMA_WIDTH(112, 56, "56", "57", "58", "59", "60")
WGMMA_WIDTH(128, 64, "64", "65", "66", "67", "68")
WGMMA_WIDTH(144, 72, "72", "73", "74", "75", "76")
WGMMA_WIDTH(160, 80, "80", "81", "82", "83", "84")
WGMMA_WIDTH(176, 88, "88", "89", "90", "91", "92")
WGMMA_WIDTH(192, 96, "96", "97", "98", "99", "100")
WGMMA_WIDTH(208, 104, "104", "105", "106", "107", "108")
WGMMA_WIDTH(224, 112, "112", "113", "114", "115", "116")
WGMMA_WIDTH(240, 120, "120", "121", "122", "123", "124")
WGMMA_WIDTH(256, 128, "128", "129", "130", "131", "132")
