// 16-bit inputs as fp32. Both conversions are exact; a product of two fp16 or bf16 numbers is exact in fp32, too.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
