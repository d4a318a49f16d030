// The types of PyTorch's headers that device code uses, written anew: element types, accessors, annotations.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_HOST_DEVICE __host__ __device__
#define C10_RESTRICT __restrict__
#define C10_ALWAYS_INLINE __forceinline__
#define C10_UNLIKELY(x) (x)
#define C10_LIKELY(x) (x)
#define C10_WARP_SIZE 32
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define CUDA_KERNEL_ASSERT(x) do { if (!(x)) __trap(); } while (0)
#define CUDA_KERNEL_LOOP_TYPE(i, n, T) \
    for (T i = (T)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (T)blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
namespace c10 {
#define GS_ELEMENT(Name, Native, from_float, to_float)                                                   \
    struct alignas(2) Name {                                                                             \
        Native x;                                                                                        \
        Name() = default;                                                                                \
        __host__ __device__ Name(float v) : x(from_float(v)) {}                                          \
        __host__ __device__ Name(const Native& v) : x(v) {}                                              \
        __host__ __device__ operator float() const { return to_float(x); }                               \
        __host__ __device__ operator Native() const { return x; }                                        \
    };                                                                                                   \
    __host__ __device__ inline Name operator+(const Name& a, const Name& b) { return float(a) + float(b); } \
    __host__ __device__ inline Name operator-(const Name& a, const Name& b) { return float(a) - float(b); } \
    __host__ __device__ inline Name operator*(const Name& a, const Name& b) { return float(a) * float(b); } \
    __host__ __device__ inline Name operator/(const Name& a, const Name& b) { return float(a) / float(b); } \
    __host__ __device__ inline Name operator-(const Name& a) { return -float(a); }                       \
    __host__ __device__ inline Name& operator+=(Name& a, const Name& b) { return a = a + b; }            \
    __host__ __device__ inline Name& operator-=(Name& a, const Name& b) { return a = a - b; }            \
    __host__ __device__ inline Name& operator*=(Name& a, const Name& b) { return a = a * b; }            \
    __host__ __device__ inline Name& operator/=(Name& a, const Name& b) { return a = a / b; }            \
    __host__ __device__ inline float operator+(const Name& a, float b) { return float(a) + b; }          \
    __host__ __device__ inline float operator-(const Name& a, float b) { return float(a) - b; }          \
    __host__ __device__ inline float operator*(const Name& a, float b) { return float(a) * b; }          \
    __host__ __device__ inline float operator/(const Name& a, float b) { return float(a) / b; }          \
    __host__ __device__ inline float operator+(float a, const Name& b) { return a + float(b); }          \
    __host__ __device__ inline float operator-(float a, const Name& b) { return a - float(b); }          \
    __host__ __device__ inline float operator*(float a, const Name& b) { return a * float(b); }          \
    __host__ __device__ inline float operator/(float a, const Name& b) { return a / float(b); }          \
    __host__ __device__ inline float& operator+=(float& a, const Name& b) { return a += float(b); }      \
    __host__ __device__ inline float& operator*=(float& a, const Name& b) { return a *= float(b); }
GS_ELEMENT(Half, __half, __float2half_rn, __half2float)
GS_ELEMENT(BFloat16, __nv_bfloat16, __float2bfloat16_rn, __bfloat162float)
#undef GS_ELEMENT
using string_view = const char*;
}
namespace at {
using c10::BFloat16; using c10::Half;
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<c10::Half> { using type = float; };
template <> struct OpMathType<c10::BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda> struct AccumulateType { using type = typename OpMathType<T>::type; };
template <class T, bool is_cuda> using acc_type = typename AccumulateType<T, is_cuda>::type;
template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, unsigned long n, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
struct TensorAccessor {
    typename Traits<T>::PtrType data_;
    const index_t *sizes_, *strides_;
    __host__ __device__ auto operator[](index_t i) const {
        return TensorAccessor<T, n - 1, Traits, index_t>{data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
    }
    __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
    __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
    __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
};
template <class T, template <class> class Traits, class index_t> struct TensorAccessor<T, 1, Traits, index_t> {
    typename Traits<T>::PtrType data_;
    const index_t *sizes_, *strides_;
    __host__ __device__ T& operator[](index_t i) const { return data_[strides_[0] * i]; }
    __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
    __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
    __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
};
template <class T, unsigned long n, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
struct GenericPackedTensorAccessor {
    typename Traits<T>::PtrType data_;
    index_t sizes_[n], strides_[n];
    __device__ decltype(auto) operator[](index_t i) const {
        return TensorAccessor<T, n, Traits, index_t>{data_, sizes_, strides_}[i];
    }
    __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
    __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
    __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
};
template <class T, unsigned long n, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, n, Traits, int32_t>;
template <class T, unsigned long n, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, n, Traits, int64_t>;
template <class T, unsigned long n, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, n, Traits, index_t>;
namespace cuda {}
namespace native {}
}
namespace torch {
using namespace at;
namespace indexing {}
}
namespace c10 { namespace cuda {} }
template <class T> __device__ inline T gpuAtomicAdd(T* where, T value) { return atomicAdd(where, value); }
template <class T> __device__ inline void gpuAtomicAddNoReturn(T* where, T value) { atomicAdd(where, value); }
