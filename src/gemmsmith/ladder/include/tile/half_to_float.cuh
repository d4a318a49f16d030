// 16-bit inputs as fp32. Both conversions are exact, and so is the fp32 product of two fp16 or two bf16 numbers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
