"""Host code of a user's file is blanked; device code and line numbers stay."""

from __future__ import annotations

import pytest

from gemmsmith.userfile.host.host_code import Source, without_host_code

KEPT = {
    "kernel": "__global__ void k(float* x) { if (x) { x[0] = 1; } }",
    "template": "template <int B>\n__global__ void k(float* x) { x[0] = B; }",
    "device function": "__device__ __forceinline__ float f(float x) { return x; }",
    "host and device": "__host__ __device__ int f(int a, int b) { return (a + b - 1) / b; }",
    "constexpr function": "constexpr int f(int a) { return a; }",
    "constant": "const int TILE = 32;",
    "constant memory": "__constant__ float weights[4];",
    "constant with braces": "constexpr int SIZES[] = {1, 2, 3};",
    "struct": "struct Tile { int row, col; };",
    "struct with device method": "struct T { __device__ int f() { return 1; } };",
    "macro": '#define CHECK(x) do { if (x) { printf("}"); } } while (0)',
    "macro of several lines": "#define F(x) \\\n    { x; \\\n    }",
    "comment with a brace": "// int main() {\n/* } */",
    "typedef": "typedef float real;",
    "using": "using real = float;",
    "kernel in a namespace": "namespace a { __global__ void k(float* x) { x[0] = 1; } }",
    "kernel in extern C": 'extern "C" { __global__ void k(float* x) { x[0] = 1; } }',
    "launch bounds": "__global__ void __launch_bounds__(256) k(float* x) { x[0] = 1; }",
}
GONE = {
    "main": "int main() { return 0; }",
    "main with arguments": "int main(int argc, char** argv)\n{\n    for (;;) { }\n}",
    "launcher": "void run(float* x) { k<<<1, 32>>>(x); }",
    "static helper": "static int ceil_div(int a, int b) { return (a + b - 1) / b; }",
    "template helper": "template <class T>\nT largest(T a, T b) { return a > b ? a : b; }",
    "std vector": "std::vector<float> data(16);",
    "reference": "float reference(const std::vector<float>& a) { return a[0]; }",
    "event": "cudaEvent_t start, stop;",
    "timer": "struct Timer { cudaEvent_t start, stop; void begin() { } };",
    "string with a brace": 'void f() { printf("} {"); }',
}


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT)
def test_device_code_stays(code: str) -> None:
    assert without_host_code(code) == code


@pytest.mark.parametrize("code", GONE.values(), ids=GONE)
def test_host_code_is_blanked(code: str) -> None:
    assert without_host_code(code).strip() == ""


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_line_numbers_stay(kept: str, gone: str) -> None:
    text = f"{gone}\n{kept}\n{gone}\n"
    result = without_host_code(text)
    assert result.count("\n") == text.count("\n")
    assert kept in result
    assert result.split("\n")[gone.count("\n") + 1] == kept.split("\n", maxsplit=1)[0]


def test_preprocessor_lines_inside_host_code_stay() -> None:
    result = without_host_code("int main() {\n#ifdef X\n    f();\n#endif\n}\n")
    assert result.split() == ["#ifdef", "X", "#endif"]


def test_host_code_inside_a_namespace_is_blanked() -> None:
    result = without_host_code("namespace a {\n__global__ void k(float* x) { }\nvoid run() { }\n}\n")
    assert result == "namespace a {\n__global__ void k(float* x) { }\n\n}\n"


SAME_NAME = """
namespace a { __device__ int f(int x) { return 1; } }
namespace b { __device__ int f(int x) { return 2; } }
"""


@pytest.mark.parametrize(
    ("use", "kept", "gone"),
    [
        ("a::f(1)", ("return 1",), ("return 2",)),
        ("::b::f(1)", ("return 2",), ("return 1",)),
        ("f(1)", ("return 1", "return 2"), ()),
    ],
)
def test_a_qualified_name_keeps_its_namespace_alone(use: str, kept: tuple[str, ...], gone: tuple[str, ...]) -> None:
    made = Source({"": SAME_NAME + f"__global__ void k(int* x) {{ x[0] = {use}; }}"}).device_code("k")[""]
    assert all(text in made for text in kept)
    assert not any(text in made for text in gone)


@pytest.mark.parametrize(
    "other",
    [
        "using namespace a;\nnamespace a { __device__ int f(float x) { return 1; } }",
        "namespace a { struct T {}; __device__ int f(T x) { return 1; } }",
        "namespace { __device__ int f(float x) { return 1; } }",
    ],
    ids=["using", "found by its argument", "unnamed"],
)
def test_overloads_that_a_call_may_mean_are_kept(other: str) -> None:
    text = f"__device__ int f(int x) {{ return 2; }}\n{other}\n__global__ void k(int* x) {{ x[0] = f(1); }}"
    made = Source({"": text}).device_code("k")[""]
    assert "return 1" in made
    assert "return 2" in made


def test_only_what_the_kernel_reaches_is_kept() -> None:
    text = (
        "struct A { int x; };\nusing B = A;\nconstexpr int N = 4;\n#define TWICE(x) helper(x, N)\n"
        "__device__ int helper(int x, int n) { return x * n; }\n__device__ int other() { return 0; }\n"
        "__global__ void k(B* b) { b->x = TWICE(1); }\n__global__ void j(int* x) { x[0] = other(); }\n"
    )
    made = Source({"": text}).device_code("k")[""]
    assert all(word in made for word in ("struct A", "using B", "N = 4", "int helper", "void k"))
    assert "other" not in made
    assert "void j" not in made
    assert made.count("\n") == text.count("\n")
