"""The launch of a user's .cu file: as given, from its own host code, or inferred from the kernel's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import GemmsmithError, UnknownKernelError, UsageError
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, geometry_source, user_kernel

PROBLEM = Problem(128, 256, 64)
ABC = "const float* A, const float* B, float* C"
XY = "int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;"
FLAT = "int t = threadIdx.x, by = blockIdx.y, bx = blockIdx.x;"
CEIL = "#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))\n"
OTHER = "__global__ void other(float* p) { const int BM = 8, BN = 8, TILE = 4; p[threadIdx.y] = blockIdx.y; }\n"


def kernel(body: str = XY, sizes: str = "int M, int N, int K", head: str = "", bounds: str = "") -> str:
    return f"{head}__global__ void {bounds} mine({ABC}, {sizes}) {{ {body} }}\n"


def host(launch: str, before: str = "", sizes: str = "int M, int N, int K") -> str:
    return f"void run(float* A, float* B, float* C, {sizes}) {{ {before} {launch}; }}\n"


def launched(
    grid: str, block: str, before: str = "", call: str = "A, B, C, M, N, K", sizes: str = "int M, int N, int K"
) -> str:
    return kernel() + host(f"mine<<<{grid}, {block}>>>({call})", before, sizes)


G16 = "dim3 g((N + 15) / 16, (M + 15) / 16);"
# name: source, grid, block for M=128 N=256 K=64, where it comes from
Case = tuple[str, Dim3, Dim3, str]
LAUNCHED: dict[str, Case] = {
    "two variables": (launched("g", "b", f"dim3 b(16, 16); {G16}"), (16, 8, 1), (16, 16, 1), "launch site"),
    "temporaries": (launched("dim3(N / 8, M / 4)", "dim3(8, 4)"), (32, 32, 1), (8, 4, 1), "launch site"),
    "braced temporaries": (launched("dim3{N / 8u, M / 4u}", "dim3{8, 4}"), (32, 32, 1), (8, 4, 1), "launch site"),
    "plain integers": (launched("(M * N + 255) / 256", "256"), (128, 1, 1), (256, 1, 1), "launch site"),
    "three parts": (launched("dim3(N/8, M/8, 1)", "dim3(8, 8, 1)"), (32, 16, 1), (8, 8, 1), "launch site"),
    "one declaration": (launched("g", "b", "dim3 b(8, 8), g(N / b.x, M / b.y);"), (32, 16, 1), (8, 8, 1),
                        "launch site"),
    "assigned dim3": (launched("g", "b", "dim3 b = dim3(8, 8); const dim3 g = dim3(N / 8, M / 8);"),
                      (32, 16, 1), (8, 8, 1), "launch site"),
    "auto": (launched("g", "b", "auto b = dim3(8, 8); auto g = dim3(N / 8, M / 8);"), (32, 16, 1), (8, 8, 1),
             "launch site"),
    "braces": (launched("g", "b", "dim3 b = {8, 8}; dim3 g{N / 8, M / 8};"), (32, 16, 1), (8, 8, 1), "launch site"),
    "set by part": (launched("g", "b", "dim3 b(8, 8), g; g.x = N / 8; g.y = M / 8;"), (32, 16, 1), (8, 8, 1),
                    "launch site"),
    "block.x": (launched("g", "b", "dim3 b(32, 4); dim3 g((N + b.x - 1) / b.x, (M + b.y - 1) / b.y);"),
                (8, 32, 1), (32, 4, 1), "launch site"),
    "local constants": (launched("g", "T * T", "const int T = 16; unsigned gx = N / T; dim3 g(gx, M / T);"),
                        (16, 8, 1), (256, 1, 1), "launch site"),
    "CEIL_DIV": (CEIL + launched("dim3(CEIL_DIV(M, 32), CEIL_DIV(N, 32))", "dim3(32, 32)"), (4, 8, 1), (32, 32, 1),
                 "launch site"),
    "div_up": (launched("dim3(div_up(N, 48), divUp(M, 48))", "dim3(48, 2)"), (6, 3, 1), (48, 2, 1), "launch site"),
    "cdiv in a namespace": (launched("dim3(at::ceil_div(N, 48), cdiv(M, 48))", "64"), (6, 3, 1), (64, 1, 1),
                            "launch site"),
    "ceil of floats": (launched("dim3(ceil((float)N / 48), (unsigned)std::ceil(M / 48.0))", "64"),
                       (6, 3, 1), (64, 1, 1), "launch site"),
    "casts": (launched("dim3(static_cast<int>(N) / 8, (unsigned int)M / 8)", "64u"), (32, 16, 1), (64, 1, 1),
              "launch site"),
    "shifts": (launched("dim3(N >> 3, M >> 3)", "1 << 6"), (32, 16, 1), (64, 1, 1), "launch site"),
    "C division truncates": (launched("dim3(N / 48, M / 48)", "64"), (5, 2, 1), (64, 1, 1), "launch site"),
    "host names by order": (
        launched("dim3(cols / 8, rows / 8)", "64", call="A, B, C, rows, cols, deep",
                 sizes="int rows, int cols, int deep"),
        (32, 16, 1), (64, 1, 1), "launch site"),
    "host names crossed": (launched("dim3(M / 8, N / 8)", "64", call="A, B, C, N, M, K"), (32, 16, 1), (64, 1, 1),
                           "launch site"),
    "a size read at run time": (launched("dim3(N / 8, M / 8)", "64", "int M = atoi(v[1]), N = 512;", sizes="int K"),
                                (32, 16, 1), (64, 1, 1), "launch site"),
    "sizes as macros": ("#define M 1024\n#define N 1024\n#define K 1024\n"
                        + kernel(XY, "int m, int n, int k") + host("mine<<<dim3(N/8, M/8), 64>>>(A, B, C, M, N, K)"),
                        (32, 16, 1), (64, 1, 1), "launch site"),
    "members": (launched("dim3(p.n / 8, p->m / 8)", "64", call="A, B, C, p->m, p.n, p.k"), (32, 16, 1), (64, 1, 1),
                "launch site"),
    "a stream": (launched("g", "b, 0, stream", f"dim3 b(16, 16); {G16}"), (16, 8, 1), (16, 16, 1), "launch site"),
    "an inner block": (launched("g", "b", "{ dim3 b(1), g(1); } dim3 b(8, 8), g(N / 8, M / 8);"),
                       (32, 16, 1), (8, 8, 1), "launch site"),
    "another function's dim3": ("void f() { dim3 b(4, 4), g(9); }\n" + launched("g", "b", f"dim3 b(16, 16); {G16}"),
                                (16, 8, 1), (16, 16, 1), "launch site"),
    "a fixed grid": (launched("dim3(2, 2)", "dim3(16, 16)", call="A, B, C, 32, 32, 16"), (16, 8, 1), (16, 16, 1),
                     "block launch site, grid guessed"),
    "a fixed grid that is walked": (kernel(XY + " y += gridDim.y;")
                                    + host("mine<<<dim3(2, 2), 64>>>(A, B, C, M, N, K)"),
                                    (2, 2, 1), (64, 1, 1), "launch site"),
    "square only": (launched("dim3(n / 16, n / 16)", "dim3(16, 16)", call="A, B, C, n, n, n"), (16, 8, 1), (16, 16, 1),
                    "launch site"),
    "changed once": (launched("g", "b", "int t = 8; t *= 2; dim3 b(t, t); dim3 g(N / t, M / t);"),
                     (16, 8, 1), (16, 16, 1), "launch site"),
    "set in a loop": (
        launched("g", "b", "int t = 4; for (int i = 0; i < 2; ++i) { t *= 2; } dim3 b(t, t); dim3 g(N / t, M / t);"),
        (16, 8, 1), (16, 16, 1), "launch site"),
    "decided later": (launched("g", "b", f"dim3 b(16, 16); {G16} if (M < 64) {{ b = dim3(8, 8); }}"),
                      (16, 8, 1), (16, 16, 1), "launch site"),
    "unknown function": (launched("choose(N)", "b", "dim3 b = pick(M);"), (8, 4, 1), (32, 32, 1), "guessed"),
    "a comment": (kernel() + "// mine<<<1, 1>>>(A, B, C, M, N, K);\n", (8, 4, 1), (32, 32, 1), "guessed"),
    "template arguments": (
        kernel(FLAT, head="template <int BM, int BN>\n")
        + host("mine<BM, BN><<<dim3(N / BN, M / BM), BM * BN>>>(A, B, C, M, N, K)", "const int BM = 16, BN = 32;"),
        (8, 8, 1), (512, 1, 1), "launch site"),
}  # fmt: skip

GUESSED: dict[str, tuple[str, Dim3, Dim3]] = {
    "two dimensions": (kernel(), (8, 4, 1), (32, 32, 1)),
    "another kernel's text": (OTHER + kernel("int t = blockIdx.x * blockDim.x + threadIdx.x;"),
                              (32, 1, 1), (1024, 1, 1)),
    "another kernel's bounds": (
        "__global__ void __launch_bounds__(64) other(float* p) { }\n" + kernel(FLAT), (8, 4, 1), (1024, 1, 1)),
    "its own bounds": (kernel(FLAT, bounds="__launch_bounds__(128 / 2, 1)"), (8, 4, 1), (64, 1, 1)),
    "its own constant": (OTHER + kernel(XY + " const int TILE = 16;"), (16, 8, 1), (16, 16, 1)),
    "a host function's constant": (kernel() + "void f() { const int TILE = 8; }\n", (8, 4, 1), (32, 32, 1)),
    "a macro": ("#define TILE (8 * 2)\n" + kernel(), (16, 8, 1), (16, 16, 1)),
    "a constant in a namespace": ("namespace x { constexpr int TILE = 16; }\n" + kernel(), (16, 8, 1), (16, 16, 1)),
    "a list of constants": ("constexpr int BM = 64, BN = 32, TM = 4, TN = BN / 8;\n" + kernel(), (8, 2, 1), (8, 16, 1)),
    "const uint": ("const uint BM = 16;\nconst uint BN = 32;\n" + kernel(FLAT), (8, 8, 1), (512, 1, 1)),
    "a template's default": (kernel(head="template <int TILE = 16>\n"), (16, 8, 1), (16, 16, 1)),
    "a shared array": (kernel(XY + " __shared__ float As[16][17];"), (16, 8, 1), (16, 16, 1)),
    "rows named m": (kernel("int i = blockIdx.x + threadIdx.x, j = blockIdx.y + threadIdx.y;"
                            " if (i >= m || j >= n) return;",
                            "int m, int n, int k"), (4, 8, 1), (32, 32, 1)),
    "columns named width": (kernel(XY + " if (x < width && y < rows) {}", "int rows, int width, int inner"),
                            (8, 4, 1), (32, 32, 1)),
    "rows named rows": (kernel(XY + " if (rows > x) {}", "int rows, int width, int inner"), (4, 8, 1), (32, 32, 1)),
    "rows by use": (kernel(XY + " C[x * N + y] = 0;"), (4, 8, 1), (32, 32, 1)),
    "rows a step away": (kernel("int bx = blockIdx.x; int row = bx * 32 + threadIdx.x;"
                                " int q = blockIdx.y + threadIdx.y;"),
                         (4, 8, 1), (32, 32, 1)),
    "indices as macros": ("#define TY threadIdx.y\n#define BY blockIdx.y\n" + kernel("int a = TY + BY + blockIdx.x;"),
                          (8, 4, 1), (32, 32, 1)),
    "indices in a device function": (
        "__device__ int at() { return threadIdx.y + blockIdx.y; }\n" + kernel("int a = at();"), (8, 4, 1), (32, 32, 1)),
    "Windows line ends": (("#define TILE 16\n" + kernel()).replace("\n", "\r\n"), (16, 8, 1), (16, 16, 1)),
}  # fmt: skip


def geometry(folder: Path, source: str, problem: Problem = PROBLEM, **options: str) -> tuple[Geometry, str]:
    path = folder / "mine.cu"
    path.write_bytes(source.encode())
    defines = tuple(pair.split("=") for pair in options.pop("defines", "").split())
    given = UserOptions(entry="mine", defines=tuple((name, value) for name, value in defines), **options)
    spec = user_kernel(path, given)
    return spec.geometry(problem, spec.config()), geometry_source(path, given, problem)


@pytest.mark.parametrize("style", LAUNCHED)
def test_the_launch_in_the_files_own_host_code(style: str, tmp_path: Path) -> None:
    source, grid, block, origin = LAUNCHED[style]
    found, said = geometry(tmp_path, source)
    assert (found.grid, found.block, said) == (grid, block, origin)


@pytest.mark.parametrize("style", GUESSED)
def test_a_launch_inferred_from_the_kernels_own_text(style: str, tmp_path: Path) -> None:
    source, grid, block = GUESSED[style]
    found, said = geometry(tmp_path, source)
    assert (found.grid, found.block, said) == (grid, block, "guessed")


SITE = launched("g", "b", f"dim3 b(16, 16); {G16}")
OPTIONS: dict[str, tuple[str, dict[str, str], Dim3, Dim3, str]] = {
    "both given": (SITE, {"block": "8,8", "grid": "N//8,M//8"}, (32, 16, 1), (8, 8, 1), "given"),
    "block given": (SITE, {"block": "8,8"}, (32, 16, 1), (8, 8, 1), "block given, grid guessed"),
    "the site's block given": (SITE, {"block": "16,16"}, (16, 8, 1), (16, 16, 1), "block given, grid launch site"),
    "grid given": (SITE, {"grid": "7"}, (7, 1, 1), (16, 16, 1), "block launch site, grid given"),
    "directive": ("// gemmsmith: block=8,4 grid=N/8,M/4\n" + SITE, {}, (32, 32, 1), (8, 4, 1), "directive"),
    "one directive": ("// gemmsmith: block=8,4\n" + kernel(), {}, (32, 32, 1), (8, 4, 1),
                      "block directive, grid guessed"),
    "given over directive": ("// gemmsmith: block=8,4\n" + kernel(), {"block": "4,4"}, (64, 32, 1), (4, 4, 1),
                             "block given, grid guessed"),
    "a define first": ("#ifndef TILE\n#define TILE 32\n#endif\n" + kernel(), {"defines": "TILE=8"},
                       (32, 16, 1), (8, 8, 1), "guessed"),
    "a template's value": (LAUNCHED["template arguments"][0], {"defines": "BM=8"}, (8, 16, 1), (256, 1, 1),
                           "launch site"),
    "a template's value unlike the launch": (
        kernel(head="template <int TILE>\n") + host("mine<32><<<dim3(N/32, M/32), dim3(32, 32)>>>(A, B, C, M, N, K)"),
        {"defines": "TILE=8"}, (32, 16, 1), (8, 8, 1), "guessed"),
    "a flat block given": (kernel("int t = blockIdx.x * blockDim.x + threadIdx.x;"), {"block": "256"},
                           (128, 1, 1), (256, 1, 1), "block given, grid guessed"),
}  # fmt: skip


@pytest.mark.parametrize("what", OPTIONS)
def test_given_options_take_precedence(what: str, tmp_path: Path) -> None:
    source, options, grid, block, origin = OPTIONS[what]
    found, said = geometry(tmp_path, source, **options)
    assert (found.grid, found.block, said) == (grid, block, origin)


MOST = (227 - 8) * 1024  # host code's number is not understood: as much as a GPU has, beside some static memory


@pytest.mark.parametrize(
    ("text", "smem"),
    [
        ("0", 0),
        ("2 * 16 * sizeof(float)", 128),
        ("16*16*sizeof(half)", 512),
        ("K * sizeof(float)", 256),
        ("f(K)", MOST),
    ],
)
def test_shared_memory_at_the_launch_site(text: str, smem: int, tmp_path: Path) -> None:
    found, _ = geometry(tmp_path, launched("dim3(N / 16, M / 16)", f"dim3(16, 16), {text}"))
    assert (found.block, found.smem) == ((16, 16, 1), smem)
    assert geometry(tmp_path, launched("N", f"8, {text}"), smem="12")[0].smem == 12


def test_a_square_launcher_is_used_for_square_problems(tmp_path: Path) -> None:
    found, said = geometry(tmp_path, LAUNCHED["square only"][0], Problem(64, 64, 64))
    assert (found.grid, said) == ((4, 4, 1), "launch site")


@pytest.mark.parametrize("head", ["#define TILE 64\n", "constexpr int BM = 128, BN = 128;\n"])
def test_a_guessed_block_that_no_gpu_launches(head: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mine") as caught:
        geometry(tmp_path, head + kernel(FLAT))
    assert "--block" in str(caught.value)
    assert geometry(tmp_path, head + kernel(FLAT), block="256")[0].block == (256, 1, 1)


def test_template_values_of_the_launch_are_compiled(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(kernel(FLAT, head="template <typename T, int BM, int BN>\n")
                    + host("mine<float, BN, 2 * BM><<<dim3(N / BN, M / BM), 64>>>(A, B, C, M, N, K)",
                           "const int BM = 16, BN = 32;"))  # fmt: skip
    spec = user_kernel(path, UserOptions())
    assert spec.geometry.template == {"T": "float", "BM": "32", "BN": "32"}
    assert spec.geometry(PROBLEM, spec.config()).grid == (8, 8, 1)


@pytest.mark.parametrize(("kind", "dtype"), [("half", FP16), ("__nv_bfloat16", BF16)])
def test_the_type_a_template_is_launched_with(kind: str, dtype: object, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    source = kernel(head="template <typename T>\n").replace("const float*", "const T*")
    path.write_text(source + host(f"mine<{kind}><<<dim3(N / 8, M / 8), 64>>>(A, B, C, M, N, K)"))
    assert user_kernel(path, UserOptions()).dtypes == (dtype,)


def test_a_byte_order_mark_before_an_include(tmp_path: Path) -> None:
    """The header is read all the same: it names the parameters' types."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "names.h").write_text("#pragma once\nusing In = const float*;\nusing Size = const int;\n")
    source = launched("g", "b", f"dim3 b(16, 16); {G16}").replace("const float*", "In").replace("int M", "Size M", 1)
    assert geometry(tmp_path, "\ufeff#include <names.h>\n" + source)[0].block == (16, 16, 1)


def test_a_byte_order_mark_and_a_folder(tmp_path: Path) -> None:
    assert geometry(tmp_path, "\ufeff#define TILE 16\n" + kernel())[0].block == (16, 16, 1)
    with pytest.raises(UnknownKernelError, match=r"is a folder, not a \.cu file"):
        user_kernel(tmp_path, UserOptions())
    with pytest.raises(GemmsmithError, match="there is no file"):
        geometry_source(tmp_path / "none.cu", UserOptions())
