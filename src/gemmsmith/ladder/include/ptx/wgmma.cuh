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

// The operand text and the register constraints of the first 4, 8, 12 ... accumulators.
#define WGMMA_REGS_4 "%0, %1, %2, %3"
#define WGMMA_REGS_8 WGMMA_REGS_4 ", %4, %5, %6, %7"
#define WGMMA_REGS_12 WGMMA_REGS_8 ", %8, %9, %10, %11"
#define WGMMA_REGS_16 WGMMA_REGS_12 ", %12, %13, %14, %15"
#define WGMMA_REGS_20 WGMMA_REGS_16 ", %16, %17, %18, %19"
#define WGMMA_REGS_24 WGMMA_REGS_20 ", %20, %21, %22, %23"
#define WGMMA_REGS_28 WGMMA_REGS_24 ", %24, %25, %26, %27"
#define WGMMA_REGS_32 WGMMA_REGS_28 ", %28, %29, %30, %31"
#define WGMMA_REGS_36 WGMMA_REGS_32 ", %32, %33, %34, %35"
#define WGMMA_REGS_40 WGMMA_REGS_36 ", %36, %37, %38, %39"
#define WGMMA_REGS_44 WGMMA_REGS_40 ", %40, %41, %42, %43"
#define WGMMA_REGS_48 WGMMA_REGS_44 ", %44, %45, %46, %47"
#define WGMMA_REGS_52 WGMMA_REGS_48 ", %48, %49, %50, %51"
#define WGMMA_REGS_56 WGMMA_REGS_52 ", %52, %53, %54, %55"
#define WGMMA_REGS_60 WGMMA_REGS_56 ", %56, %57, %58, %59"
#define WGMMA_REGS_64 WGMMA_REGS_60 ", %60, %61, %62, %63"
#define WGMMA_REGS_68 WGMMA_REGS_64 ", %64, %65, %66, %67"
#define WGMMA_REGS_72 WGMMA_REGS_68 ", %68, %69, %70, %71"
#define WGMMA_REGS_76 WGMMA_REGS_72 ", %72, %73, %74, %75"
#define WGMMA_REGS_80 WGMMA_REGS_76 ", %76, %77, %78, %79"
#define WGMMA_REGS_84 WGMMA_REGS_80 ", %80, %81, %82, %83"
#define WGMMA_REGS_88 WGMMA_REGS_84 ", %84, %85, %86, %87"
#define WGMMA_REGS_92 WGMMA_REGS_88 ", %88, %89, %90, %91"
#define WGMMA_REGS_96 WGMMA_REGS_92 ", %92, %93, %94, %95"
#define WGMMA_REGS_100 WGMMA_REGS_96 ", %96, %97, %98, %99"
#define WGMMA_REGS_104 WGMMA_REGS_100 ", %100, %101, %102, %103"
#define WGMMA_REGS_108 WGMMA_REGS_104 ", %104, %105, %106, %107"
#define WGMMA_REGS_112 WGMMA_REGS_108 ", %108, %109, %110, %111"
#define WGMMA_REGS_116 WGMMA_REGS_112 ", %112, %113, %114, %115"
#define WGMMA_REGS_120 WGMMA_REGS_116 ", %116, %117, %118, %119"
#define WGMMA_REGS_124 WGMMA_REGS_120 ", %120, %121, %122, %123"
#define WGMMA_REGS_128 WGMMA_REGS_124 ", %124, %125, %126, %127"
#define WGMMA_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_ACC_4 WGMMA_FOUR(0)
#define WGMMA_ACC_8 WGMMA_ACC_4, WGMMA_FOUR(4)
#define WGMMA_ACC_12 WGMMA_ACC_8, WGMMA_FOUR(8)
#define WGMMA_ACC_16 WGMMA_ACC_12, WGMMA_FOUR(12)
#define WGMMA_ACC_20 WGMMA_ACC_16, WGMMA_FOUR(16)
#define WGMMA_ACC_24 WGMMA_ACC_20, WGMMA_FOUR(20)
#define WGMMA_ACC_28 WGMMA_ACC_24, WGMMA_FOUR(24)
#define WGMMA_ACC_32 WGMMA_ACC_28, WGMMA_FOUR(28)
#define WGMMA_ACC_36 WGMMA_ACC_32, WGMMA_FOUR(32)
#define WGMMA_ACC_40 WGMMA_ACC_36, WGMMA_FOUR(36)
#define WGMMA_ACC_44 WGMMA_ACC_40, WGMMA_FOUR(40)
#define WGMMA_ACC_48 WGMMA_ACC_44, WGMMA_FOUR(44)
#define WGMMA_ACC_52 WGMMA_ACC_48, WGMMA_FOUR(48)
#define WGMMA_ACC_56 WGMMA_ACC_52, WGMMA_FOUR(52)
#define WGMMA_ACC_60 WGMMA_ACC_56, WGMMA_FOUR(56)
#define WGMMA_ACC_64 WGMMA_ACC_60, WGMMA_FOUR(60)
#define WGMMA_ACC_68 WGMMA_ACC_64, WGMMA_FOUR(64)
#define WGMMA_ACC_72 WGMMA_ACC_68, WGMMA_FOUR(68)
#define WGMMA_ACC_76 WGMMA_ACC_72, WGMMA_FOUR(72)
#define WGMMA_ACC_80 WGMMA_ACC_76, WGMMA_FOUR(76)
#define WGMMA_ACC_84 WGMMA_ACC_80, WGMMA_FOUR(80)
#define WGMMA_ACC_88 WGMMA_ACC_84, WGMMA_FOUR(84)
#define WGMMA_ACC_92 WGMMA_ACC_88, WGMMA_FOUR(88)
#define WGMMA_ACC_96 WGMMA_ACC_92, WGMMA_FOUR(92)
#define WGMMA_ACC_100 WGMMA_ACC_96, WGMMA_FOUR(96)
#define WGMMA_ACC_104 WGMMA_ACC_100, WGMMA_FOUR(100)
#define WGMMA_ACC_108 WGMMA_ACC_104, WGMMA_FOUR(104)
#define WGMMA_ACC_112 WGMMA_ACC_108, WGMMA_FOUR(108)
#define WGMMA_ACC_116 WGMMA_ACC_112, WGMMA_FOUR(112)
#define WGMMA_ACC_120 WGMMA_ACC_116, WGMMA_FOUR(116)
#define WGMMA_ACC_124 WGMMA_ACC_120, WGMMA_FOUR(120)
#define WGMMA_ACC_128 WGMMA_ACC_124, WGMMA_FOUR(124)

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
WGMMA_WIDTH(8, 4, "4", "5", "6", "7", "8")
WGMMA_WIDTH(16, 8, "8", "9", "10", "11", "12")
WGMMA_WIDTH(24, 12, "12", "13", "14", "15", "16")
WGMMA_WIDTH(32, 16, "16", "17", "18", "19", "20")
WGMMA_WIDTH(40, 20, "20", "21", "22", "23", "24")
WGMMA_WIDTH(48, 24, "24", "25", "26", "27", "28")
WGMMA_WIDTH(56, 28, "28", "29", "30", "31", "32")
WGMMA_WIDTH(64, 32, "32", "33", "34", "35", "36")
WGMMA_WIDTH(72, 36, "36", "37", "38", "39", "40")
WGMMA_WIDTH(80, 40, "40", "41", "42", "43", "44")
WGMMA_WIDTH(88, 44, "44", "45", "46", "47", "48")
WGMMA_WIDTH(96, 48, "48", "49", "50", "51", "52")
WGMMA_WIDTH(104, 52, "52", "53", "54", "55", "56")
WGMMA_WIDTH(112, 56, "56", "57", "58", "59", "60")
WGMMA_WIDTH(120, 60, "60", "61", "62", "63", "64")
WGMMA_WIDTH(128, 64, "64", "65", "66", "67", "68")
WGMMA_WIDTH(136, 68, "68", "69", "70", "71", "72")
WGMMA_WIDTH(144, 72, "72", "73", "74", "75", "76")
WGMMA_WIDTH(152, 76, "76", "77", "78", "79", "80")
WGMMA_WIDTH(160, 80, "80", "81", "82", "83", "84")
WGMMA_WIDTH(168, 84, "84", "85", "86", "87", "88")
WGMMA_WIDTH(176, 88, "88", "89", "90", "91", "92")
WGMMA_WIDTH(184, 92, "92", "93", "94", "95", "96")
WGMMA_WIDTH(192, 96, "96", "97", "98", "99", "100")
WGMMA_WIDTH(200, 100, "100", "101", "102", "103", "104")
WGMMA_WIDTH(208, 104, "104", "105", "106", "107", "108")
WGMMA_WIDTH(216, 108, "108", "109", "110", "111", "112")
WGMMA_WIDTH(224, 112, "112", "113", "114", "115", "116")
WGMMA_WIDTH(232, 116, "116", "117", "118", "119", "120")
WGMMA_WIDTH(240, 120, "120", "121", "122", "123", "124")
WGMMA_WIDTH(248, 124, "124", "125", "126", "127", "128")
WGMMA_WIDTH(256, 128, "128", "129", "130", "131", "132")
