"""Reading users' files as they are: where kernels stand, how their heads are written, and that reading is linear."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from linear_time import assert_linear

from gemmsmith.errors import SignatureError, UsageError
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, geometry_source, user_kernel
from gemmsmith.userfile.text.source import find_kernels, read_source_file

ABC = "const float* A, const float* B, float* C, int M, int N, int K"
KERNEL = f"__global__ void mine({ABC}) {{ C[threadIdx.x] = A[0] * B[0]; }}\n"

# name: source, the kernels' qualified names
HEADS: dict[str, tuple[str, list[str]]] = {
    "a prototype first": (f"__global__ void mine({ABC});\n{KERNEL}", ["mine"]),
    "a prototype only": (f"__global__ void mine({ABC});\n", []),
    "a namespace": (f"namespace a {{ namespace b {{ {KERNEL} }} }}", ["a::b::mine"]),
    "a nested namespace": (f"namespace a::b {{ {KERNEL} }}", ["a::b::mine"]),
    "an unnamed namespace": (f"namespace {{ {KERNEL} }}", ["mine"]),
    'extern "C"': (f'extern "C" {KERNEL}', ["mine"]),
    'a block of extern "C"': (f'extern "C" {{\n{KERNEL}}}', ["mine"]),
    "both branches of #if": (f"#if defined(X)\n{KERNEL}#else\n{KERNEL.replace('mine', 'other')}#endif\n",
                             ["mine", "other"]),
    "a head per branch": ("#ifdef X\n__global__ void mine(int a) {\n#else\n"
                          f"__global__ void other({ABC}) {{\n#endif\n}}",
                          ["other"]),
    "#if 0": (f"#if 0\n{KERNEL}#endif\n", []),
    "a macro for __global__": (f"#define GLOBAL __global__ static\n{KERNEL.replace('__global__', 'GLOBAL')}", ["mine"]),
    "a macro of macros": ("#define DEV __device__\n#define KER(n) extern \"C\" __global__ void n\n"
                          "DEV int f() { return 1; }\n"
                          f"KER(mine)({ABC}) {{ f(); }}", ["mine"]),
    "an empty macro": (f"#define API\nAPI {KERNEL}", ["mine"]),
    "static before": (f"static {KERNEL}", ["mine"]),
    "__global__ after void": (KERNEL.replace("__global__ void", "void __global__"), ["mine"]),
    "launch bounds after void": (KERNEL.replace("void", "void __launch_bounds__(128, 2)"), ["mine"]),
    "launch bounds before void": (KERNEL.replace("void", "__launch_bounds__(128) void"), ["mine"]),
    "a cluster": (KERNEL.replace("void", "void __cluster_dims__(2, 1, 1) __launch_bounds__(128)"), ["mine"]),
    "registers": (KERNEL.replace("void", "__maxnreg__(64) void"), ["mine"]),
    "attributes": (f"[[maybe_unused]] __attribute__((noinline)) {KERNEL}", ["mine"]),
    "a requires clause": (f"template <int T> requires (T > 3) {KERNEL}", ["mine"]),
    "an explicit instantiation": (f"template <int T> {KERNEL}template __global__ void mine<3>({ABC});", ["mine"]),
    "a specialisation": (f"template <int T> {KERNEL}template <> __global__ void mine<3>({ABC}) {{}}", ["mine"]),
    "comments in the head": (KERNEL.replace("void", "/* { */ void // (\n"), ["mine"]),
    "a byte order mark": ("\ufeff" + KERNEL, ["mine"]),
    "a notebook's cell": ("\n%%writefile it's mine.cu\n" + KERNEL, ["mine"]),
    "Windows line ends": (KERNEL.replace(" {", "\r\n{\r\n"), ["mine"]),
    "other letters": ("// größe\nconst char* s = \"größe\";\n" + KERNEL, ["mine"]),
    "host code that the parser does not know": ("void f() { auto x = co_await <weird> ??; }\n" + KERNEL, ["mine"]),
    "source in a string": ('const char* s = R"(\n__global__ void other() {}\n)";\n' + KERNEL, ["mine"]),
}  # fmt: skip


@pytest.mark.parametrize("what", HEADS)
def test_the_kernels_of_a_file(what: str, tmp_path: Path) -> None:
    source, names = HEADS[what]
    path = tmp_path / "mine.cu"
    path.write_bytes(source.encode())
    assert [kernel.qualified for kernel in read_source_file(path).kernels] == names


def test_the_parts_of_a_kernel(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text("\n// a comment\n"
                    "template <int BM, bool V = (1 < 2), typename T = float, class... R, Layout L = Layout::Row>\n"
                    "__global__ void __launch_bounds__(BM * 2, 1)\nmine(T const* __restrict__ A, float B[], const "
                    "__grid_constant__ Map map, int n = 3) { int x; /* y */ }")  # fmt: skip
    (kernel,) = read_source_file(path).kernels
    assert (kernel.line, kernel.bounds, kernel.body.split()) == (5, "BM * 2", ["int", "x;"])
    assert [(p.type, p.name) for p in kernel.parameters] == [
        ("T const* __restrict__", "A"), ("float *", "B"), ("const __grid_constant__ Map", "map"),
        ("int", "n")]  # fmt: skip
    assert [(p.kind, p.name, p.default, p.pack) for p in kernel.template or ()] == [
        ("int", "BM", "", False), ("bool", "V", "(1 < 2)", False), ("typename", "T", "float", False),
        ("typename", "R", "", True), ("Layout", "L", "Layout::Row", False)]  # fmt: skip


def test_a_parameter_that_a_concept_constrains_is_a_type(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text("template <Size S, ns::Number T, Layout L> "
                    "__global__ void mine(const T* A, Pack<S> b, T* C) {}")  # fmt: skip
    (kernel,) = read_source_file(path).kernels
    assert [p.kind for p in kernel.template or ()] == ["Size", "typename", "Layout"]


def test_constants_and_aliases(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text("#define T 16\n#define F(x) x\nconst int a = 1, b{2};\nint g = 4;\n"
                    "namespace n { constexpr unsigned c(3); }\n"
                    "enum E { P, Q = 5, R };\nenum class S { P2 = 6 };\n"
                    "struct X { static constexpr int m = 7; int f; };\n"
                    "using real = float;\ntypedef half element;\nvoid f() { const int hidden = 8; }\n"
                    "template <int hidden2 = 9> void h() {}\n")  # fmt: skip
    source = read_source_file(path)
    assert dict(source.constants) == {
        "T": "16", "a": "1", "b": "2", "c": "3", "n::c": "3", "P": "0", "E::P": "0", "Q": "(5)", "E::Q": "(5)",
        "R": "(5) + 1", "E::R": "(5) + 1", "P2": "(6)", "S::P2": "(6)", "m": "7", "X::m": "7"}  # fmt: skip
    assert dict(source.variables) == {"g": "4"}
    assert dict(source.aliases) == {"real": "float", "element": "half"}


SLOW: dict[str, Callable[[int], str]] = {  # texts of so many times a length
    "comments": lambda n: "// a line of comment, forty characters.\n" * (25_000 * n),
    "one comment": lambda n: "/* x\n" * (200_000 * n),
    "functions": lambda n: "".join(f"__global__ void k{i}(float* a, int n) {{ if (n) a[0] = {i}; }}\n"
                                   for i in range(500 * n)),
    "launches": lambda n: "".join(f"__global__ void k{i}(int n) {{}}\nvoid f{i}(int n) {{ k{i}<<<n, 32>>>(n); }}\n"
                                  for i in range(250 * n)),
    "branches": lambda n: "#if A\nint x;\n#endif\n" * (2_500 * n),
    "nested branches": lambda n: "#if A\n" * (2_500 * n) + "#endif\n" * (2_500 * n),
    "parentheses": lambda n: "int x = " + "(" * (25_000 * n) + "1" + ")" * (25_000 * n) + ";",
    "braces": lambda n: "{" * (25_000 * n),
    "macros in a circle": lambda n: "#define A B __device__\n#define B A A A A A A A A\n" + "A B A\n" * (250 * n),
    "a string": lambda n: 'const char* s = "' + "x" * (250_000 * n) + '";',
}  # fmt: skip


@pytest.mark.parametrize("what", SLOW)
def test_reading_is_linear(what: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"

    def seconds(times: int) -> float:
        path.write_text(SLOW[what](times) + KERNEL)
        start = time.process_time()
        read_source_file(path)
        return time.process_time() - start

    assert_linear(seconds)


# --- headers and the rest of the repository


def repository(folder: Path, files: dict[str, str]) -> Path:
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


RUNNER = (
    '#include "kernels.cuh"\nvoid run(float* A, float* B, float* C, int M, int N, int K) {\n'
    "  dim3 block(32, 4);\n  mine<<<dim3(N / 32, M / 4), block>>>(A, B, C, M, N, K);\n}\n"
)


def test_kernels_in_headers(tmp_path: Path) -> None:
    root = repository(tmp_path, {
        "src/main.cu": '#include "kernels.cuh"\n#include <cstdio>\nint main() {}\n',
        "src/kernels.cuh": '#include "../include/one.cuh"\n#include "deep/two.cuh"\n#include "kernels.cuh"\n',
        "include/one.cuh": KERNEL, "src/deep/two.cuh": '#include "attributes.h"\n' + KERNEL.replace("mine", "two"),
        "include/attributes.h": "#define X 1\n",
    })  # fmt: skip
    assert [k.name for k in find_kernels(root / "src/main.cu")] == ["mine", "two"]
    assert user_kernel(root / "src/main.cu", UserOptions(entry="two")).entry == "two"


def test_includes_outside_the_repository_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.cuh").write_text(KERNEL)
    inside = tmp_path / "inside"
    inside.mkdir()
    repository(inside, {"main.cu": '#include "../secret.cuh"\n#include "link.cuh"\n'})
    (inside / "link.cuh").symlink_to(tmp_path / "secret.cuh")
    assert find_kernels(inside / "main.cu") == ()
    assert [k.name for k in find_kernels(inside / "main.cu", (tmp_path,))] == ["mine"]


def test_the_launch_is_in_another_file(tmp_path: Path) -> None:
    root = repository(tmp_path, {"src/kernels/mine.cuh": KERNEL, "src/kernels.cuh": '#include "kernels/mine.cuh"\n',
                                 "src/runner.cu": RUNNER})  # fmt: skip
    path = root / "src/kernels/mine.cuh"
    assert geometry_source(path, UserOptions()) == "launch site"
    spec = user_kernel(path, UserOptions())
    assert spec.geometry(Problem(128, 256, 64), spec.config()).block == (32, 4, 1)


def test_the_callers_are_in_a_third_file(tmp_path: Path) -> None:
    root = repository(tmp_path, {
        "mine.cuh": "template <int T> " + KERNEL,
        "run.cuh": '#include "mine.cuh"\ntemplate <int T> void run(float* A, float* B, float* C, int M, int N, int K) {'
                   " mine<T><<<dim3(N / T, M / T), T * T>>>(A, B, C, M, N, K); }\n",
        "main.cu": '#include "run.cuh"\nint main() { float* p; run<16>(p, p, p, 1, 2, 3); }\n',
    })  # fmt: skip
    spec = user_kernel(root / "mine.cuh", UserOptions())
    assert spec.geometry.template == {"T": "16"}
    assert spec.geometry(Problem(128, 256, 64), spec.config()).block == (256, 1, 1)


def test_a_kernel_of_the_same_name_elsewhere(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a/mine.cu": KERNEL, "b/mine.cu": KERNEL + RUNNER.split("\n", 1)[1]})
    assert geometry_source(root / "a/mine.cu", UserOptions()) == "guessed"


def test_without_a_repository_only_the_files_own_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/mine.cuh").write_text(KERNEL)
    (tmp_path / "runner.cu").write_text(RUNNER)
    assert geometry_source(tmp_path / "kernels/mine.cuh", UserOptions()) == "guessed"


# --- entries

TWO = f"namespace a {{ {KERNEL} }}\nnamespace b {{ {KERNEL} }}\n"
OTHER = "__global__ void fill(float* p, int n) { p[0] = n; }\n"


def entry(folder: Path, text: str, wanted: str = "") -> str:
    (folder / "mine.cu").write_text(text)
    return user_kernel(folder / "mine.cu", UserOptions(entry=wanted)).entry


def test_the_entry(tmp_path: Path) -> None:
    assert entry(tmp_path, KERNEL) == "mine"
    assert entry(tmp_path, OTHER + KERNEL) == "mine"  # the only product
    assert entry(tmp_path, TWO, "b::mine") == "b::mine"
    assert entry(tmp_path, f"namespace a {{ {KERNEL} }}", "mine") == "a::mine"
    for text, wanted, said in (
        (TWO, "", "several kernels: a::mine, b::mine"),
        (TWO, "mine", "names several kernels"),
        (KERNEL, "yours", "no __global__ function named 'yours'"),
        ("int x;", "", "has no __global__ function"),
        (KERNEL, "mine<3>", "gives 1 template arguments, but mine takes 0"),
    ):
        with pytest.raises(SignatureError, match=said):
            entry(tmp_path, text, wanted)


def test_template_arguments_of_the_entry(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    launch = "void run(float* A, float* B, float* C, int M, int N, int K) {"
    launch += " mine<8, half><<<dim3(N / 8, M / 8), 64>>>(A, B, C, M, N, K); }"
    path.write_text("template <int T, typename E> " + KERNEL.replace("const float*", "const E*") + launch)

    def values(options: UserOptions) -> dict[str, str]:
        launch = user_kernel(path, options).geometry
        return {**launch.template, **launch.facts.given}

    assert values(UserOptions()) == {"T": "8", "E": "half"}
    assert values(UserOptions(entry="mine<16, float>")) == {"T": "16", "E": "float"}
    assert values(UserOptions(entry="mine<16, float>", defines=(("T", "32"),))) == {"T": "32", "E": "float"}


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        user_kernel(tmp_path / "mine.cu", UserOptions())


def test_comments_in_another_encoding(tmp_path: Path) -> None:
    """Of the file itself, or of another one of its repository."""
    (tmp_path / "mine.cu").write_bytes(b"// \xb3\xcc\r\n" + KERNEL.encode())
    (tmp_path / "other.cu").write_bytes(b"// \xd0\xf2\n__global__ void other(float* x) {}\n")
    found = user_kernel(tmp_path / "mine.cu", UserOptions())
    assert found.signature.has("K")
    assert "mine" in found.code


def test_a_header_that_relies_on_the_file_that_includes_it(tmp_path: Path) -> None:
    main = "typedef float real;\n#define SIDE 8\n#include <cstdio>\n" + '#include "mine.cuh"\nint main() {}\n'
    uses = KERNEL.replace("const float*", "const real*").replace("C[", "int t = SIDE; C[")
    root = repository(tmp_path, {"src/main.cu": main, "src/mine.cuh": uses, "src/alone.cuh": KERNEL,
                                 "src/other.cu": '#include "alone.cuh"\n#define A 3\nint main() {}\n'})  # fmt: skip
    spec = user_kernel(root / "src/mine.cuh", UserOptions())
    assert (spec.source.name, spec.unit) == ("mine.cuh", root / "src/main.cu")
    assert user_kernel(root / "src/alone.cuh", UserOptions()).unit == root / "src/alone.cuh"
