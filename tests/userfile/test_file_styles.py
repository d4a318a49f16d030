"""Files as people write them compile as they are: each style of host code, header, annotation and library."""

# ruff: noqa: E501 (a kernel is easier to read on one line)
from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile import CompiledKernel, compile_request, find_toolchain
from gemmsmith.compile.user_source import UserSource
from gemmsmith.errors import CompileError

PLAIN = "__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }\n"


def compiled(
    folder: Path, source: str | bytes, entry: str = "k", arch: str = "sm_80", **headers: str
) -> CompiledKernel:
    file = folder / "mine.cu"
    file.write_bytes(source if isinstance(source, bytes) else source.encode())
    for name, text in headers.items():
        (folder / f"{name}.cuh").write_text(text)
    made = UserSource.read(file, (), find_toolchain())
    return compile_request(made.request(file.name, entry, (), arch), find_toolchain())


HOST = {
    "main with containers": "#include <vector>\n#include <iostream>\nint main() { std::vector<float> v(3); std::cout << v[0]; }",
    "globals": "int N = 1024; float *d_a, *d_b; std::vector<int> sizes{1, 2}; static std::string name = \"a\";",
    "templates": "template <class F> double seconds(F f) { auto t = std::chrono::steady_clock::now(); f(); return 0; }",
    "class": "class Timer { cudaEvent_t a, b; public: Timer() { cudaEventCreate(&a); } float stop() { return 0; } };",
    "derived class": "struct Failure : std::runtime_error { using std::runtime_error::runtime_error; };",
    "lambda": "auto check = [](cudaError_t e) { if (e != cudaSuccess) exit(1); };",
    "prototypes": "void launch(float*, cudaStream_t = 0); cublasStatus_t multiply(cublasHandle_t, int);",
    "map of functions": "std::map<std::string, std::function<void()>> registry = {{\"a\", [] { }}};",
    "check macro": "#define CHECK(x) do { cudaError_t e = (x); if (e) { printf(\"%s\", cudaGetErrorString(e)); } } while (0)\n"
                   "void f() { CHECK(cudaDeviceSynchronize()); }",
    "thrust": "#include <thrust/device_vector.h>\nvoid f() { thrust::device_vector<float> v(3); }",
    "libraries": "#include <cublas_v2.h>\n#include <cudnn.h>\n#include <curand.h>\n#include <mpi.h>\n#include <omp.h>\n"
                 "void f(cublasHandle_t h, cudnnHandle_t d) { MPI_Init(0, 0); }",
    "threads": "#include <thread>\n#include <mutex>\n#include <tuple>\nstd::mutex m; void f() { std::thread t([] {}); t.join(); }",
    "everything": "#include <bits/stdc++.h>\nusing namespace std;\nvector<pair<int, string>> table;",
    "unknown namespace": "#include <opencv2/opencv.hpp>\nusing namespace cv;\nvoid f(Mat& m);",
    "registration": "TORCH_LIBRARY(ops, m) { m.def(\"f\", &f); }\nREGISTER(f)",
    "variadic": "template <class... A> void print(A... a) { ((std::cout << a), ...); }",
    "operator": "std::ostream& operator<<(std::ostream& o, const dim3& d) { return o << d.x; }",
    "branches with open braces": "#ifdef X\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n  std::vector<int> v; }",
    "excluded code": "#if 0\nthis is { not code\n#endif\nint main() { return 0; }",
    "int128": "typedef unsigned __int128 wide; __host__ void f(wide w) { }",
    "fold of a raw string": 'const char* text = R"(} { int main( )";',
    "enumeration": "enum class Kind : int { A, B }; Kind parse(const std::string& s) { return Kind::A; }",
    "union and typedef": "typedef struct { FILE* f; } Log; static Log* log_file;",
    "asm": 'void cpu() { asm volatile("pause"); }',
    "explicit instantiation": "template <class T> void f(std::vector<T>); template void f<int>(std::vector<int>);",
    "extern C": 'extern "C" { void dgemm_(char*, int*); int main() { dgemm_(0, 0); } }',
    "random": "float random_float() { return rand() / float(RAND_MAX); }",
}  # fmt: skip


@pytest.mark.parametrize("host", HOST.values(), ids=HOST)
def test_host_code_beside_a_kernel(host: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, f"{host}\n{PLAIN}").resources.registers > 0
    assert compiled(tmp_path, f"{PLAIN}{host}\n").resources.registers > 0


def kernel(body: str, before: str = "") -> str:
    return f"{before}\n__global__ void k(float* x, int n) {{ {body} }}\n"


DEVICE = {
    "constexpr without annotation": kernel("x[0] = twice(n);", "constexpr int twice(int a) { return 2 * a; }"),
    "constexpr template": kernel("x[0] = twice<int>(n);", "template <class T> constexpr T twice(T a) { return a + a; }"),
    "helper without annotation": kernel("x[0] = up(n, 4);", "static inline int up(int a, int b) { return (a + b - 1) / b; }"),
    "annotation behind a macro": kernel("x[0] = f(n);", "#define DEV __device__ __forceinline__\nDEV int f(int a) { return a; }"),
    "kernel behind a macro": "#define KERNEL extern \"C\" __global__ void\nKERNEL k(float* x) { x[0] = 1; }\n",
    "kernel made by a macro": "#define MAKE(name, op) __global__ void name(float* x) { x[0] = x[0] op 2; }\nMAKE(k, +)\nMAKE(j, -)\n",
    "host and device lambda": kernel("auto f = [=] __host__ __device__ (int a) { return a + n; }; x[0] = f(1);"),
    "device functor": kernel("x[0] = Twice()(x[0]);", "struct Twice { __device__ float operator()(float a) const { return 2 * a; } };"),
    "class with host members too": kernel(
        "x[0] = View{x, n}.at(1);",
        "struct View { float* p; int n; void fill() { cudaMalloc(&p, 4); std::cout << n; } __device__ float at(int i) { return p[i]; } };",
    ),
    "member functions that call host code": kernel(
        "x[0] = v.p[0];", "void check(int); struct View { float* p; void f() { check(undeclared_host_call()); } };"
    ).replace("int n", "View v"),
    "dynamic shared memory": kernel("s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[0];", "extern __shared__ float s[];"),
    "constant memory": kernel("x[0] = table[n];", "__constant__ float table[16];\nvoid set() { cudaMemcpyToSymbol(table, 0, 4); }"),
    "device variable": kernel("atomicAdd(&count, 1);", "__device__ int count;"),
    "names of C headers": kernel(
        "assert(n > 0); printf(\"%d\", n); x[0] = INFINITY + NAN + M_PI + FLT_MAX - __FLT_MAX__ + __DBL_EPSILON__; uint32_t u = UINT32_MAX; int64_t l = INT64_MAX; "
        "x[1] = u + l + sizeof(size_t) + SIZE_MAX;", "#include <math.h>\n#include <cassert>"),
    "names of sys/types.h": kernel("u_int32_t u = n; u_int64_t w = u; u_int8_t b = 3; x[0] = u + w + b;", "#include <sys/types.h>"),
    "std functions": kernel(
        "x[0] = std::min(n, 2) + std::max(1.f, x[1]) + std::abs(x[2]) + std::sqrt(x[3]); std::swap(x[0], x[1]); "
        "float y = std::move(x[2]); x[3] = y + std::numeric_limits<float>::infinity() + std::numeric_limits<int>::max();",
        "#include <algorithm>\n#include <limits>"),
    "std traits": kernel(
        "x[0] = f<float>(1); std::integral_constant<int, 4> c; x[1] = c + std::is_same<int, float>::value; "
        "std::conditional_t<(sizeof(int) > 2), int, float> z = 1; x[2] = z;",
        "#include <type_traits>\ntemplate <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0> __device__ T f(T a) { return a; }"),
    "std array and pair": kernel("std::array<float, 4> a; a.fill(1); std::pair<int, float> p{1, 2.f}; x[0] = a[1] + p.first;"),
    "std tuple": kernel("auto t = std::make_tuple(1, 2.f); x[0] = std::get<0>(t) + std::get<1>(t);", "#include <tuple>"),
    "std sequence": kernel(
        "x[0] = sum(std::make_index_sequence<4>{});",
        "#include <utility>\ntemplate <size_t... I> __device__ int sum(std::index_sequence<I...>) { return (int(I) + ...); }"),
    "using namespace std": kernel("swap(x[0], x[1]); x[2] = max(n, 3); x[3] = numeric_limits<float>::max();", "using namespace std;"),
    "int128": kernel("unsigned __int128 w = n; x[0] = (float)(w * w >> 64);"),
    "vector types": kernel("float4 v = make_float4(1, 2, 3, 4); reinterpret_cast<float4*>(x)[0] = v; dim3 d(1, 2); x[4] = d.y;",
                           "#include <cuda_runtime_api.h>\n#include <device_launch_parameters.h>"),
    "cooperative groups": kernel(
        "cg::thread_block b = cg::this_thread_block(); auto w = cg::tiled_partition<32>(b); x[0] = cg::reduce(w, x[0], cg::plus<float>());",
        "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;"),
    "barrier and copy": kernel(
        "__shared__ cuda::barrier<cuda::thread_scope_block> b; __shared__ float s[32]; if (threadIdx.x == 0) init(&b, blockDim.x); "
        "__syncthreads(); cuda::memcpy_async(s, x, sizeof(s), b); b.arrive_and_wait(); x[0] = s[1];", "#include <cuda/barrier>"),
    "pipeline": kernel(
        "__shared__ float s[32]; auto p = cuda::make_pipeline(); p.producer_acquire(); "
        "cuda::memcpy_async(s + threadIdx.x, x + threadIdx.x, 4, p); p.producer_commit(); cuda::pipeline_consumer_wait_prior<0>(p); "
        "x[0] = s[0]; p.consumer_release();", "#include <cuda/pipeline>"),
    "atomic": kernel("cuda::atomic_ref<float, cuda::thread_scope_device> a(x[0]); a.fetch_add(1.f);", "#include <cuda/atomic>"),
    "cub": kernel("using R = cub::BlockReduce<float, 128>; __shared__ R::TempStorage t; float s = R(t).Sum(x[threadIdx.x]); x[0] = s;",
                  "#include <cub/cub.cuh>"),
    "wmma": kernel("wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 0.f); "
                   "wmma::store_matrix_sync(x, c, 16, wmma::mem_row_major);", "#include <mma.h>\nusing namespace nvcuda;"),
    "fp8": kernel("__nv_fp8_e4m3 v(x[0]); x[1] = float(v);", "#include <cuda_fp8.h>"),
    "half through cublas": kernel("half* h = (half*)x; h[0] = __float2half(x[1]); __nv_bfloat16 b = __float2bfloat16(x[2]); x[3] = b;",
                                  "#include <cublas_v2.h>"),
    "tensor map": "#include <cuda.h>\n__global__ void k(const __grid_constant__ CUtensorMap map, float* x) { x[0] = (long long)&map; }\n",
    "texture object": kernel("x[0] = tex1Dfetch<float>(t, n);").replace("int n", "cudaTextureObject_t t, int n"),
    "token pasting": kernel("x[0] = CALL(f, loat)(n);", "#define CALL(a, b) a##b\n__device__ float f_loat(int);\n"
                            "__device__ float float_(int a) { return a; }").replace("CALL(f, loat)", "CALL(float, _)"),
    "digit separators": kernel("x[0] = 1'000'000; char c = '\\''; x[1] = c + '{';"),
    "c++20": kernel("x[0] = f(n);", "template <class T> concept Small = sizeof(T) < 16;\ntemplate <Small T> __device__ T f(T a) { return a; }"),
    "linux": kernel("x[0] = LINUX;", "#if defined(__linux__)\n#define LINUX 1\n#endif"),
    "static kernel": "static " + PLAIN,
    "unnamed namespace": "namespace { " + PLAIN + "}\n",
    "launch bounds": "__global__ void __launch_bounds__(128, 2)\nk(float* x) { x[0] = 1; }\n",
    "shadowed host names": kernel("int run = n; float data = 2; x[0] = run + data + count(n);",
                                  "std::vector<float> data; int run(cublasHandle_t h) { return h ? 1 : 0; }\n"
                                  "__device__ int count(int a) { return a; }\nint count(std::vector<int> v) { return v.size(); }"),
    "unreached kernel that does not compile": "__global__ void broken(float* x) { x[0] = nothing_of_this(name); }\n" + PLAIN,
    "register": "__global__ void k(float* x, int n) { register float r = x[0]; for (register int i = 0; i < n; ++i) r += 1; x[1] = r; }",
}  # fmt: skip


@pytest.mark.parametrize("source", DEVICE.values(), ids=DEVICE)
def test_what_device_code_uses(source: str, tmp_path: Path) -> None:
    made = compiled(tmp_path, source)
    assert f".entry {made.entry}(" in made.ptx


EXTENSION = """#include <torch/extension.h>
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <vector>
template <typename scalar_t>
__device__ __forceinline__ scalar_t sigmoid(scalar_t z) { return scalar_t(1.0) / (scalar_t(1.0) + exp(-z)); }
template <typename scalar_t>
__global__ void k(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> in, scalar_t* out, int64_t n) {
  CUDA_KERNEL_LOOP(i, n) { using acc = at::acc_type<scalar_t, true>; out[i] = static_cast<acc>(in[i][0]) * 2; }
}
C10_LAUNCH_BOUNDS_1(256) __global__ void halves(at::Half* a, c10::BFloat16* b) { a[0] = a[1] * a[2]; b[0] += b[1]; }
#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
std::vector<torch::Tensor> forward(torch::Tensor input) {
  CHECK_CUDA(input);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "k", ([&] {
    k<scalar_t><<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(input.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), nullptr, 1); }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {input};
}
TORCH_LIBRARY(extension, m) { m.def("forward(Tensor x) -> Tensor[]", &forward); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "forward"); }
"""


@pytest.mark.parametrize("entry", ["k<float>", "k<double>", "k<c10::Half>", "k<at::BFloat16>", "halves"])
def test_a_pytorch_extension(entry: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, EXTENSION, entry).resources.registers > 0


@pytest.mark.parametrize(
    "source",
    [b"\xef\xbb\xbf" + PLAIN.encode(), PLAIN.replace("{", "{\n").replace("\n", "\r\n").encode(),
     "// größe 行列\n".encode("gbk", errors="replace") + PLAIN.encode(), ("\ufeff" + PLAIN).encode("utf-16-le"),
     b"\n%%cu --profile\n" + PLAIN.encode()],
    ids=["byte order mark", "carriage returns", "another encoding", "UTF-16", "a notebook's cell"],
)  # fmt: skip
def test_encodings(source: bytes, tmp_path: Path) -> None:
    assert compiled(tmp_path, source).resources.registers > 0


def test_a_constant_of_floating_type_in_a_class(tmp_path: Path) -> None:
    """nvcc takes ``static const float`` with its value in a class, as g++ does; NVRTC does not."""
    header = "#pragma once\ntemplate <typename T> struct Most { static const T least = static_cast<T>(-1e9); };\n"
    source = '#include "most.cuh"\nstruct Half { const static float value = 0.5f; };\n' + PLAIN.replace(
        "{", "{ if (n < 0) x[0] = Most<float>::least + Half::value;", 1
    )
    assert compiled(tmp_path, source, "k", most=header).resources.registers > 0


def test_kernels_in_headers_and_namespaces(tmp_path: Path) -> None:
    headers = {"all": '#pragma once\n#include "one.cuh"\n#include "two.cuh"\n',
               "one": "#pragma once\nnamespace a { namespace b { template <int T> " + PLAIN + "} }\n",
               "two": "#pragma once\n#include <vector>\nvoid host(std::vector<float>& v);\nnamespace c::d { " + PLAIN.replace("k(", "k2(") + "}\n"}  # fmt: skip
    source = '#include "all.cuh"\nint main() { a::b::k<3><<<1, 2>>>(nullptr, 1); }\n'
    assert compiled(tmp_path, source, "k<3>", **headers).entry == "_ZN1a1b1kILi3EEEvPfi"
    assert compiled(tmp_path, source, "k2", **headers).entry == "_ZN1c1d2k2EPfi"


def test_errors_name_the_users_line(tmp_path: Path) -> None:
    source = "#include <vector>\n/* a\n comment */ int main() {\n std::vector<int> v;\n}\n__device__ int f() { return nope; }\n"
    with pytest.raises(CompileError, match=r'mine\.cu\(6\): error: identifier "nope" is undefined') as caught:
        compiled(tmp_path, source + kernel("x[0] = f();"))
    assert "return nope" in caught.value.hint
    assert "rung" not in str(caught.value)


def test_errors_in_a_header_name_its_line(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"part\.cuh\(2\): error"):
        compiled(
            tmp_path, '#include "part.cuh"\n' + kernel("x[0] = f();"), part="\n__device__ int f() { return nope; }\n"
        )


def test_names_are_demangled(tmp_path: Path) -> None:
    source = "namespace a { template <int T, bool B> __global__ void k(float* x) { __shared__ float s[20000 * T]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[x[0] > 2]; } }\n"
    with pytest.raises(CompileError, match=r"a::k<2, true>") as caught:
        compiled(tmp_path, source, "k<2, true>")
    assert "_Z" not in str(caught.value)
    assert "48 KB" in caught.value.hint


def test_programmatic_dependent_launch(tmp_path: Path) -> None:
    body = "cudaGridDependencySynchronize(); x[0] = n; cudaTriggerProgrammaticLaunchCompletion();"
    ptx = compiled(tmp_path, kernel(body), arch="sm_90").ptx
    assert ptx.index("griddepcontrol.wait") < ptx.index("st.global") < ptx.index("griddepcontrol.launch_dependents")


def test_a_library_written_for_nvrtc_may_name_std_and_the_device_runtime(tmp_path: Path) -> None:
    """Headers of -I that know NVRTC are left as they are; what they lack is found from the compiler's first log."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "sums.cuh").write_text("""#ifndef __CUDACC_RTC__
#include <utility>
#endif
template <int... I> __device__ int sum(std::integer_sequence<int, I...>) { return (I + ...); }
template <int N> __device__ int sum_below() { return sum(std::make_integer_sequence<int, N>{}); }
__device__ inline void wait() { cudaGridDependencySynchronize(); }
""")
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "mine.cu"
    file.write_text("#include <sums.cuh>\n" + kernel("wait(); x[0] = sum_below<5>();"))
    made = UserSource.read(file, (library,), find_toolchain())
    assert "griddepcontrol.wait" in compile_request(made.request(file.name, "k", (), "sm_90"), find_toolchain()).ptx
