// wgmma with A in registers: a 64 x 16 fragment of A times a tile of B in shared memory.
//
// Thread t of the warpgroup (warp w = t / 32, lane l) holds two elements of A in each of four registers:
//     a[0], a[2]   row 16 w + l / 4        k = 2 (l % 4) and the next; the same plus 8
//     a[1], a[3]   row 16 w + l / 4 + 8    the same
#pragma once

#include "ptx/wgmma.cuh"

// As Wgmma, per width of B and element type. The registers of A must not change before the wgmma has completed.
template <class T, int N, bool B_K_MAJOR>
struct WgmmaFromRegisters;

#define WGMMA_TYPED_FROM_REGISTERS(COLS, REGISTERS, A0, A1, A2, A3, B, P, TB, T, NAME)                                 \
    template <bool B_K_MAJOR>                                                                                          \
    struct WgmmaFromRegisters<T, COLS, B_K_MAJOR> {                                                                    \
        static __device__ __forceinline__ void multiply(float (&d)[COLS / 2], const unsigned (&a)[4],                  \
                                                        unsigned long long b, int accumulate) {                        \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P ", 0;\n"                                               \
                         "wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32." NAME "." NAME                            \
                         " {" WGMMA_REGS_##REGISTERS "}, {%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" B                    \
                         ", p, 1, 1, %" TB ";\n}"                                                                      \
                         : WGMMA_ACC_##REGISTERS                                                                      \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),                        \
                           "n"(B_K_MAJOR ? 0 : 1));                                                                    \
        }                                                                                                              \
    };
#define WGMMA_WIDTH_FROM_REGISTERS(COLS, REGISTERS, A0, A1, A2, A3, B, P, TB)                             \
    WGMMA_TYPED_FROM_REGISTERS(COLS, REGISTERS, A0, A1, A2, A3, B, P, TB, __half, "f16")                  \
    WGMMA_TYPED_FROM_REGISTERS(COLS, REGISTERS, A0, A1, A2, A3, B, P, TB, __nv_bfloat16, "bf16")
WGMMA_WIDTH_FROM_REGISTERS(16, 8, "8", "9", "10", "11", "12", "13", "14")
WGMMA_WIDTH_FROM_REGISTERS(32, 16, "16", "17", "18", "19", "20", "21", "22")
WGMMA_WIDTH_FROM_REGISTERS(48, 24, "24", "25", "26", "27", "28", "29", "30")
WGMMA_WIDTH_FROM_REGISTERS(64, 32, "32", "33", "34", "35", "36", "37", "38")
WGMMA_WIDTH_FROM_REGISTERS(80, 40, "40", "41", "42", "43", "44", "45", "46")
WGMMA_WIDTH_FROM_REGISTERS(96, 48, "48", "49", "50", "51", "52", "53", "54")
WGMMA_WIDTH_FROM_REGISTERS(112, 56, "56", "57", "58", "59", "60", "61", "62")
WGMMA_WIDTH_FROM_REGISTERS(128, 64, "64", "65", "66", "67", "68", "69", "70")
WGMMA_WIDTH_FROM_REGISTERS(144, 72, "72", "73", "74", "75", "76", "77", "78")
WGMMA_WIDTH_FROM_REGISTERS(160, 80, "80", "81", "82", "83", "84", "85", "86")
WGMMA_WIDTH_FROM_REGISTERS(176, 88, "88", "89", "90", "91", "92", "93", "94")
WGMMA_WIDTH_FROM_REGISTERS(192, 96, "96", "97", "98", "99", "100", "101", "102")
WGMMA_WIDTH_FROM_REGISTERS(208, 104, "104", "105", "106", "107", "108", "109", "110")
WGMMA_WIDTH_FROM_REGISTERS(224, 112, "112", "113", "114", "115", "116", "117", "118")
WGMMA_WIDTH_FROM_REGISTERS(240, 120, "120", "121", "122", "123", "124", "125", "126")
WGMMA_WIDTH_FROM_REGISTERS(256, 128, "128", "129", "130", "131", "132", "133", "134")
