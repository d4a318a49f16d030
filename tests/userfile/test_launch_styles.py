"""Launches as people write them: each source is one style of host code around the same kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, found_values, geometry_source, user_kernel

PROBLEM = Problem(128, 256, 64)
ABC = "const float* A, const float* B, float* C, int M, int N, int K"
BODY = "{ int x = blockIdx.x, y = blockIdx.y, t = threadIdx.x; }\n"
TILED = f"template <int BM, int BN> __global__ void mine({ABC}) {BODY}"
PLAIN = f"__global__ void mine({ABC}) {BODY}"
HOST = "void run(float* A, float* B, float* C, int M, int N, int K)"
ARGS = "(A, B, C, M, N, K)"

PACK = ("template <typename T, typename... Args> void start(T* what, dim3 blocks, int threads, Args{}... args)"
        " {{ what<<<blocks, threads>>>({}); }}\n")  # fmt: skip

# name: source, grid, block, template values
Case = tuple[str, Dim3, Dim3, dict[str, str]]
STYLES: dict[str, Case] = {
    "a wrapper's template": (
        TILED + f"template <int BM, int BN> {HOST} {{ mine<BM, BN><<<dim3(N / BN, M / BM), BM * 2>>>{ARGS}; }}\n"
        + "int main() { float *a, *b, *c; run<32, 64>(a, b, c, 512, 512, 512); }",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "a wrapper's argument": (
        PLAIN + f"void go(int side, float* A, float* B, float* C, int M, int N, int K) {{"
        f" dim3 b(side, side), g(N / side, M / side); mine<<<g, b>>>{ARGS}; }}\n"
        + f"{HOST} {{ go(8, A, B, C, M, N, K); }}",
        (32, 16, 1), (8, 8, 1), {}),
    "a class template": (
        TILED + f"template <int BM, int BN> struct Launch {{ static constexpr int THREADS = BM * 2; static {HOST}"
        f" {{ mine<BM, BN><<<dim3(N / BN, M / BM), THREADS>>>{ARGS}; }} }};\n"
        "int main() { float* p; Launch<32, 64>::run(p, p, p, 512, 512, 512); }",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "a class template by another name": (
        TILED + f"template <int BM, int BN> struct Launch {{ static constexpr int THREADS = BM * 2; static {HOST}"
        f" {{ mine<BM, BN><<<dim3(N / BN, M / BM), THREADS>>>{ARGS}; }} }};\n"
        "using Wide = Launch<32, 64>;\nint main() { float* p; Wide::run(p, p, p, 512, 512, 512); }",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "a member outside its class template": (
        TILED + "template <int BM, int BN> struct Launch { void run(float*, float*, float*, int, int, int); };\n"
        f"template <int BM, int BN> {HOST.replace('run', 'Launch<BM, BN>::run')}"
        f" {{ mine<BM, BN><<<dim3(N / BN, M / BM), BM * 2>>>{ARGS}; }}\n"
        "int main() { float* p; Launch<32, 64>::run(p, p, p, 512, 512, 512); }",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "two levels up": (
        TILED + f"template <int T> void inner(float* A, float* B, float* C, int M, int N, int K)"
        f" {{ mine<T, T><<<dim3(N / T, M / T), T>>>{ARGS}; }}\n"
        + f"template <int S> {HOST} {{ inner<S * 2>{ARGS}; }}\nint main() {{ float* p; run<8>(p, p, p, 1, 1, 1); }}",
        (16, 8, 1), (16, 1, 1), {"BM": "16", "BN": "16"}),
    "an explicit instantiation": (
        TILED + f"template <int T> {HOST} {{ mine<T, T><<<dim3(N / T, M / T), T>>>{ARGS}; }}\n"
        "template void run<16>(float*, float*, float*, int, int, int);",
        (16, 8, 1), (16, 1, 1), {"BM": "16", "BN": "16"}),
    "an explicit instantiation of a class": (
        TILED + "template <int BM, int BN> struct Launch {\n"
        f"  static {HOST} {{ mine<BM, BN><<<dim3(N / BN, M / BM), BM * 2>>>{ARGS}; }} }};\n"
        "template struct Launch<32, 64>;",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "an explicit instantiation of a class with a member outside": (
        TILED + "template <int BM, int BN> class Launch { void run(float*, float*, float*, int, int, int); };\n"
        f"template <int BM, int BN> {HOST.replace('run', 'Launch<BM, BN>::run')}"
        f" {{ mine<BM, BN><<<dim3(N / BN, M / BM), BM * 2>>>{ARGS}; }}\ntemplate class Launch<32, 64>;",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "a default of the wrapper": (
        TILED + f"template <int T = 32> {HOST} {{ mine<T, T><<<dim3(N / T, M / T), T>>>{ARGS}; }}\n",
        (8, 4, 1), (32, 1, 1), {"BM": "32", "BN": "32"}),
    "another template's default": (
        "template <int BM = 4, int BN = 4> __global__ void other(float* p) {}\n"
        + TILED + f"{HOST} {{ mine<16, 32><<<dim3(N / 32, M / 16), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "named constants": (
        "namespace cfg { constexpr int kTile = 16; }\nenum Sizes { kWide = 2 * 16 };\n" + TILED
        + f"{HOST} {{ mine<cfg::kTile, kWide><<<dim3(N / kWide, M / cfg::kTile), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "static_cast": (
        TILED + f"{HOST} {{ constexpr unsigned t{{16}}; mine<static_cast<int>(t), int(t * 2)><<<"
        f"dim3(static_cast<unsigned>(N) / 32, (unsigned)M / 16), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a class of constants": (
        "struct Tile { static constexpr int kM = 16, kN = 32; static constexpr int kThreads = kM * 4; };\n" + TILED
        + f"{HOST} {{ using T = Tile; mine<T::kM, T::kN><<<dim3(N / T::kN, M / T::kM), T::kThreads>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a class template of constants": (
        "template <int A_, int B_> struct Tile { static constexpr int kM = A_, kN = B_, kThreads = kM * 4; };\n" + TILED
        + f"{HOST} {{ using T = Tile<16, 32>;"
        f" mine<T::kM, T::kN><<<dim3(N / T::kN, M / T::kM), T::kThreads>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a static member function": (
        TILED + "struct Runner { static constexpr int kT = 16;\n"
        f"  static {HOST} {{ mine<kT, kT><<<dim3(N / kT, M / kT), kT>>>{ARGS}; }} }};",
        (16, 8, 1), (16, 1, 1), {"BM": "16", "BN": "16"}),
    "the user's own function": (
        "constexpr int blocks(int n, int t) { return n % t ? n / t + 1 : n / t; }\n"
        "int rounded(int n) { int q = n / 16; if (q * 16 < n) { return q + 1; } return q; }\n"
        + PLAIN + f"{HOST} {{ mine<<<dim3(blocks(N, 48), rounded(M + 1)), 64>>>{ARGS}; }}",
        (6, 9, 1), (64, 1, 1), {}),
    "the user's own macro": (
        "#define BLOCKS(n, t) (((n) - 1) / (t) + 1)\n" + PLAIN
        + f"{HOST} {{ mine<<<dim3(BLOCKS(N, 48), BLOCKS(M, 48)), 64>>>{ARGS}; }}",
        (6, 3, 1), (64, 1, 1), {}),
    "a ternary and std::min": (
        PLAIN + f"{HOST} {{ int t = sizeof(float) == 4 ? 16 : 8; unsigned b = std::min(t * t, 64);"
        f" mine<<<dim3(N / t, M / t), b>>>{ARGS}; }}",
        (16, 8, 1), (64, 1, 1), {}),
    "names that look like types": (
        PLAIN + f"{HOST} {{ const int num_threads = 128; int num_tiles = (N + 63) / 64; dim3 block(num_threads);"
        f" dim3 grid(num_tiles); mine<<<grid, block>>>{ARGS}; }}",
        (4, 1, 1), (128, 1, 1), {}),
    "what looks like a function": (
        PLAIN + f"{HOST} {{ int T = 16, S = 2; dim3 b(T, S);"
        f" dim3 g(div_ceil(N, T * S), div_ceil(M, T)); mine<<<g, b>>>{ARGS}; }}",
        (8, 8, 1), (16, 2, 1), {}),
    "chevrons apart": (
        PLAIN + f"{HOST} {{ mine << < dim3(N / 32, M / 16), 64 >> > {ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {}),
    "numbers as types": (
        TILED + f"{HOST} {{ auto BM = Int<16>{{}}; auto BN = cute::_32{{}}; constexpr integral_constant<int, 64> T{{}};"
        f" mine<BM, BN><<<dim3(N / BN, M / BM), T>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "an array of sizes": (
        PLAIN + f"{HOST} {{ int sizes[] = {{16, 32}}; for (int i = 0; i < 2; ++i) {{ int t = sizes[i];"
        f" mine<<<dim3(N / t, M / t), t>>>{ARGS}; }} }}",
        (16, 8, 1), (16, 1, 1), {}),
    "assigned before": (
        PLAIN + f"{HOST} {{ int t; t = 16; dim3 g, b; b = dim3(t, 2); g = dim3(N / t, M / t); mine<<<g, b>>>{ARGS}; }}",
        (16, 8, 1), (16, 2, 1), {}),
    "an option of the program": (
        PLAIN + "int main(int argc, char** argv) { int t = 16; if (argc > 1) t = atoi(argv[1]); int M, N, K;"
        f" mine<<<dim3(N / t, M / t), t>>>{ARGS}; }}",
        (16, 8, 1), (16, 1, 1), {}),
    "one branch per size": (
        TILED + f"void go(int t, float* A, float* B, float* C, int M, int N, int K) {{ dim3 g(N / t, M / t);"
        f" if (t == 8) mine<8, 8><<<g, t>>>{ARGS}; else if (t == 16) mine<16, 16><<<g, t>>>{ARGS}; }}\n",
        (32, 16, 1), (8, 1, 1), {"BM": "8", "BN": "8"}),
    "the branch that runs": (
        TILED + f"{HOST} {{ const int t = 16; dim3 g(N / t, M / t);"
        f" if (t == 8) {{ mine<8, 8><<<g, t>>>{ARGS}; }} else {{ mine<16, 16><<<g, t>>>{ARGS}; }} }}\n",
        (16, 8, 1), (16, 1, 1), {"BM": "16", "BN": "16"}),
    "one case per size": (
        TILED + f"void go(int t, float* A, float* B, float* C, int M, int N, int K) {{ dim3 g(N / t, M / t);"
        f" switch (t) {{ case 16: mine<16, 16><<<g, t>>>{ARGS}; break; default: break; }} }}\n",
        (16, 8, 1), (16, 1, 1), {"BM": "16", "BN": "16"}),
    "large problems first": (
        TILED + f"{HOST} {{ if (M >= 128 and N >= 128) {{ const int T = 64;"
        f" mine<T, T><<<dim3(N / T, M / T), T>>>{ARGS}; }}"
        f" else {{ const int T = 16; mine<T, T><<<dim3(N / T, M / T), T>>>{ARGS}; }} }}",
        (4, 2, 1), (64, 1, 1), {"BM": "64", "BN": "64"}),
    "a function pointer": (
        TILED + f"{HOST} {{ auto kernel = &mine<16, 32>; kernel<<<dim3(N / 32, M / 16), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a pointer chosen by a flag": (
        f"template <int T, bool DEBUG> __global__ void mine({ABC}) {BODY}"
        f"{HOST} {{ auto* f = getenv(0) ? mine<16, true> : mine<16, false>; f<<<dim3(N / 16, M / 16), 64>>>{ARGS}; }}",
        (16, 8, 1), (64, 1, 1), {"T": "16", "DEBUG": "false"}),
    "a kernel passed on": (
        TILED + "template <typename F> void launch(F f, int t, float* A, float* B, float* C, int M, int N, int K)"
        f" {{ f<<<dim3(N / t, M / t), t>>>{ARGS}; }}\n{HOST} {{ launch(mine<16, 16>, 16, A, B, C, M, N, K); }}",
        (16, 8, 1), (16, 1, 1), {"BM": "16", "BN": "16"}),
    "cudaLaunchKernel": (
        TILED + f"{HOST} {{ dim3 g(N / 32, M / 16), b(64); void* args[] = {{&A, &B, &C, &M, &N, &K}};"
        " cudaLaunchKernel((void*)mine<16, 32>, g, b, args, 1024, 0); }",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a cooperative launch": (
        PLAIN + f"{HOST} {{ void *args[] = {{(void*)&A, (void*)&B, (void*)&C, (void*)&M, (void*)&N, (void*)&K}};"
        " cudaLaunchCooperativeKernel((const void*)mine, dim3(N / 32, M / 16), dim3(64), args); }",
        (8, 8, 1), (64, 1, 1), {}),
    "cudaLaunchKernelEx": (
        TILED + f"{HOST} {{ cudaLaunchConfig_t config = {{0}}; config.gridDim = dim3(N / 32, M / 16);"
        " config.blockDim = 64; config.dynamicSmemBytes = 512;"
        " cudaLaunchKernelEx(&config, mine<16, 32>, A, B, C, M, N, K); }",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a braced configuration": (
        PLAIN + f"{HOST} {{ cudaLaunchConfig_t config{{.gridDim = dim3(N / 32, M / 16), .blockDim = dim3(64)}};"
        " cudaLaunchKernelEx(&config, mine, A, B, C, M, N, K); }",
        (8, 8, 1), (64, 1, 1), {}),
    "a launch macro": (
        "#define LAUNCH(kernel, bm, bn) \\\n  kernel<bm, bn><<<dim3(N / bn, M / bm), 64>>>(A, B, C, M, N, K)\n" + TILED
        + f"{HOST} {{ LAUNCH(mine, 16, 32); }}",
        (8, 8, 1), (64, 1, 1), {"BM": "16", "BN": "32"}),
    "a check around the launch": (
        "#define CHECK(x) do { x; if (cudaGetLastError()) exit(1); } while (0)\n" + PLAIN
        + f"{HOST} {{ CHECK((mine<<<dim3(N / 32, M / 16), 64>>>{ARGS})); }}",
        (8, 8, 1), (64, 1, 1), {}),
    "a lambda that dispatches": (
        "template <typename T> __global__ void mine(const T* A, const T* B, float* C, int M, int N, int K) {}\n"
        f"{HOST} {{ AT_DISPATCH_FLOATING_TYPES(0, \"mine\", ([&] {{ using T = half;"
        f" mine<T><<<dim3(N / 32, M / 16), 64>>>{ARGS}; }})); }}",
        (8, 8, 1), (64, 1, 1), {"T": "half"}),
    "a type that a library's macro declares": (
        "template <typename T> __global__ void mine(const T* A, const T* B, T* C, int M, int N, int K) {}\n"
        f"{HOST} {{ AT_DISPATCH_FLOATING_TYPES(a.type(), \"mine\", [&] {{"
        f" mine<scalar_t><<<dim3(N / 32, M / 16), 64>>>{ARGS}; }}); }}",
        (8, 8, 1), (64, 1, 1), {}),
    "a type deduced": (
        "template <typename T> __global__ void mine(const T* A, const T* B, float* C, int M, int N, int K) {}\n"
        "void run(const half* A, const half* B, float* C, int M, int N, int K)"
        f" {{ mine<<<dim3(N / 32, M / 16), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"T": "half"}),
    "tensors": (
        "template <typename T> __global__ void mine(const T* A, const T* B, float* C, int M, int N, int K) {}\n"
        "torch::Tensor run(torch::Tensor a, torch::Tensor b) { int M = a.size(0), N = b.size(1), K = a.size(1);"
        " mine<<<dim3(N / 32, M / 16), 64>>>(a.data_ptr<float>(),"
        " b.data_ptr<float>(), c.data_ptr<float>(), M, N, K); }",
        (8, 8, 1), (64, 1, 1), {"T": "float"}),
    "decltype and an alias": (
        "using real = float;\n"
        "template <typename T> __global__ void mine(const T* A, const T* B, T* C, int M, int N, int K) {}\n"
        f"void run(real* A, real* B, real* C, int M, int N, int K)"
        f" {{ real x; mine<decltype(x)><<<dim3(N / 32, M / 16), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"T": "float"}),
    "bool and enum": (
        "enum class Order { Row, Col };\n"
        f"template <Order O, bool CHECKED> __global__ void mine({ABC}) {BODY}"
        f"{HOST} {{ constexpr auto order = Order::Row; mine<order, 16 == 16><<<dim3(N / 32, M / 16), 64>>>{ARGS}; }}",
        (8, 8, 1), (64, 1, 1), {"O": "Order::Row", "CHECKED": "true"}),
    "an enum of a namespace": (
        "namespace ns { enum class Order { Row, Col };\n"
        f"template <Order O> __global__ void mine({ABC}) {BODY}"
        f"{HOST} {{ mine<Order::Row><<<dim3(N / 32, M / 16), 64>>>{ARGS}; }} }}",
        (8, 8, 1), (64, 1, 1), {"O": "ns::Order::Row"}),
    "values of a struct": (
        PLAIN + "void run(Problem p, float* A, float* B, float* C) {"
        " mine<<<dim3(p.n / 32, p.m / 16), 64>>>(A, B, C, p.m, p.n, p.k); }",
        (8, 8, 1), (64, 1, 1), {}),
    "a product of sizes": (
        PLAIN + "void run(float* A, float* B, float* C, int batch, int length, int N, int K) {"
        " mine<<<dim3(N / 32, batch * length / 16), 64>>>(A, B, C, batch * length, N, K); }",
        (8, 8, 1), (64, 1, 1), {}),
    "an address passed elsewhere": (
        PLAIN + f"{HOST} {{ int t = 16; int device = 0; cudaGetDevice(&device);"
        f" mine<<<dim3(N / t, M / t), t>>>{ARGS}; }}",
        (16, 8, 1), (16, 1, 1), {}),
    "a helper with a pack": (
        TILED + PACK.format("", "args...") + f"{HOST} {{ const int T = 32; auto chosen = mine<T, 2 * T>;"
        " start(chosen, dim3(N / (2 * T), M / T), T * 2, A, B, C, M, N, K); }",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "a helper with a forwarded pack": (
        TILED + PACK.format("&&", "std::forward<Args>(args)...")
        + f"{HOST} {{ start(mine<32, 64>, dim3(N / 64, M / 32), 64, A, B, C, M, N, K); }}",
        (4, 4, 1), (64, 1, 1), {"BM": "32", "BN": "64"}),
    "both sides of #if": (
        "#ifdef FAST\n#define T 32\n#else\n#define T 16\n#endif\n" + PLAIN
        + f"{HOST} {{ mine<<<dim3(N / T, M / T), T>>>{ARGS}; }}",
        (16, 8, 1), (16, 1, 1), {}),
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
def test_a_launch_of_each_style(style: str, tmp_path: Path) -> None:
    source, grid, block, template = STYLES[style]
    path = tmp_path / "mine.cu"
    path.write_text(source)
    options = UserOptions()
    spec = user_kernel(path, options)
    geometry = spec.geometry(PROBLEM, spec.config())
    assert (geometry.grid, geometry.block, dict(spec.geometry.template)) == (grid, block, template)
    assert geometry_source(path, options, PROBLEM) == "launch site"


def test_a_helper_in_a_header(tmp_path: Path) -> None:
    """The header with the launch does not name the kernel."""
    (tmp_path / "start.h").write_text(PACK.format("", "args..."))
    path = tmp_path / "mine.cu"
    path.write_text(
        '#include "start.h"\n' + PLAIN + f"{HOST} {{ start(mine, dim3(N / 32, M / 16), 64, {ARGS[1:-1]}); }}"
    )
    spec = user_kernel(path, UserOptions())
    geometry = spec.geometry(PROBLEM, spec.config())
    assert (geometry.grid, geometry.block) == ((8, 8, 1), (64, 1, 1))


def test_shared_memory_and_cluster_of_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(
        "struct Shared { alignas(128) float a[16 * 4]; half b[8][2]; int flag; };\n" + PLAIN
        + f"{HOST} {{ cudaLaunchConfig_t config = {{}}; config.gridDim = dim3(N / 32, M / 16); config.blockDim = 64;"
        " config.dynamicSmemBytes = sizeof(Shared); cudaLaunchAttribute attribute[1];"
        " attribute[0].id = cudaLaunchAttributeClusterDimension; attribute[0].val.clusterDim.x = 2;"
        " attribute[0].val.clusterDim.y = 1; attribute[0].val.clusterDim.z = 1;"
        " config.attrs = attribute; config.numAttrs = 1; cudaLaunchKernelEx(&config, mine, A, B, C, M, N, K); }"
    )  # fmt: skip
    geometry = user_kernel(path, UserOptions()).geometry(PROBLEM, user_kernel(path, UserOptions()).config())
    assert (geometry.grid, geometry.block, geometry.smem, geometry.cluster) == ((8, 8, 1), (64, 1, 1), 384, (2, 1, 1))


UNKNOWN = {
    "another kernel's launch": "__global__ void other(float* p) {}\nvoid run() { other<<<3, 96>>>(p); }",
    "a kernel of another namespace": f"namespace b {{ __global__ void mine({ABC}) {{}}\n"
                                     f"{HOST} {{ mine<<<dim3(N / 32, M / 16), 96>>>{ARGS}; }} }}",
    "a string": 'const char* s = "mine<<<1, 96>>>(A, B, C, M, N, K);";',
    "a raw string": 'const char* s = R"(\nvoid f() { mine<<<1, 96>>>(A, B, C, M, N, K); }\n)";',
    "a block comment": f"/* {HOST} {{ mine<<<1, 96>>>{ARGS}; }} */",
    "#if 0": f"#if 0\n{HOST} {{ mine<<<1, 96>>>{ARGS}; }}\n#endif",
}  # fmt: skip


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_no_launch_of_the_kernel(what: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PLAIN + UNKNOWN[what])
    assert geometry_source(path, UserOptions(entry="mine"), PROBLEM) == "guessed"


def test_each_value_is_shown_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(TILED + "constexpr int T = 16;\n" + HOST + " {\n  dim3 block(T * 4);\n"
                    "  mine<T, 2 * T><<<dim3(N / (2 * T), M / T), block, 64 * sizeof(float)>>>"
                    f"{ARGS};\n}}")  # fmt: skip
    assert [str(value) for value in found_values(path, UserOptions(), PROBLEM)] == [
        "template BM=16, BN=32 from mine.cu:5 `mine<T, 2 * T>`",
        "block 64x1 from mine.cu:4 `dim3 block(T * 4)`",
        "grid 8x8 from mine.cu:5 `dim3(N / (2 * T), M / T)`",
        "smem 256 from mine.cu:5 `64 * sizeof(float)`",
    ]


def test_a_grid_for_one_extent_only(tmp_path: Path) -> None:
    """M is passed neither to the kernel nor to the grid: the host code is for 512 rows."""
    path = tmp_path / "mine.cu"
    path.write_text(f"__global__ void mine(const float* A, const float* B, float* C, int N, int K) {BODY}"
                    "void run(float* A, float* B, float* C, int N, int K) {"
                    " const int height = 512; mine<<<dim3(N / 32, height / 16), 64>>>(A, B, C, N, K); }")  # fmt: skip
    assert geometry_source(path, UserOptions(), PROBLEM) == "block launch site, grid guessed"


def test_a_persistent_kernel_has_a_fixed_grid(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(f"template <int BLOCKS> __global__ void mine({ABC}) {BODY}"
                    f"{HOST} {{ constexpr int count = 12; mine<count><<<count, 64>>>{ARGS}; }}")  # fmt: skip
    assert user_kernel(path, UserOptions()).geometry(PROBLEM, user_kernel(path, UserOptions()).config()).grid == (
        12,
        1,
        1,
    )


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ("for (int i = blockIdx.x; i < M; i += blockDim.x) {}", "launch site"),  # a wrong step, with its own grid
        ("for (int i = blockIdx.x; i < M; ++i) {}", "block launch site, grid guessed"),
        ("int i = blockIdx.x;", "block launch site, grid guessed"),
    ],
)
def test_blocks_that_walk_over_tiles_keep_their_fixed_grid(body: str, source: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(f"__global__ void mine({ABC}) {{ {body} C[blockIdx.x] = A[0] * B[0]; }}\n"
                    f"{HOST} {{ mine<<<8, 64>>>{ARGS}; }}")  # fmt: skip
    assert geometry_source(path, UserOptions(), PROBLEM) == source


def test_a_grid_by_the_number_of_sms(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(f"__global__ void mine({ABC}) {{ for (int i = blockIdx.x; i < M; i += gridDim.x) {{}} }}\n"
                    f"{HOST} {{ int sms = 0; cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);"
                    f" mine<<<2 * sms, 64>>>{ARGS}; }}")  # fmt: skip
    values = [str(value) for value in found_values(path, UserOptions(), PROBLEM)]
    assert values[-1] == "grid (for 8 SMs) 16x1 from mine.cu:2 `2 * sms`"
