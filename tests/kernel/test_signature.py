"""Entries and their parameters: how they are recognised and packed, and what is refused."""

from __future__ import annotations

import struct

import pytest

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.signature import ROLES, entries, parse_signature
from gemmsmith.problem import Problem

PROBLEM = Problem(2, 3, 4, alpha=0.5, beta=-1.0, lda=5, ldb=6, ldc=7)


def roles(code: str, entry: str = "f", declared: str = "") -> str:
    return ",".join(a.role for a in parse_signature(code, entry, declared).arguments)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ("int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C",
         "M,N,K,alpha,A,B,beta,C"),
        ("float* A, float* B, float* C, int M, int N, int K", "A,B,C,M,N,K"),
        ("float* C, const float* A, const float* B, int M, int N, int K", "C,A,B,M,N,K"),
        ("const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int N", "A,B,C,N"),
        ("float const * const A, float const*B, float *C, unsigned int M, unsigned N, size_t K", "A,B,C,M,N,K"),
        ("const float A[], const float B[ ], float C[], int M, int N, int K", "A,B,C,M,N,K"),
        ("float *d_A, float *d_B, float *d_C, int width", "A,B,C,N"),
        ("const __half* a, const __half* b, float* out, int m, int n, int k, long long lda, long long ldb, int64_t ldc",
         "A,B,C,M,N,K,lda,ldb,ldc"),
        ("\n  float *A,\n  float *B, // second\n  float /* third */ *C,\n  int N\n", "A,B,C,N"),
        ("float*A,float*B,float*C,int N", "A,B,C,N"),
    ],
)  # fmt: skip
def test_usual_signatures(params: str, expected: str) -> None:
    assert roles(f"__global__ void f({params}) {{}}") == expected


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void f", "extern \"C\" __global__ void f", "__global__ void __launch_bounds__(256) f",
        "__global__ void __launch_bounds__((BM / TM) * (BN / TN), 2) f", "__global__ __launch_bounds__(64) void f",
        "__global__ static void f", "template <int BM>\n__global__\nvoid\nf",
        "__global__ __cluster_dims__(2, 1, 1) void f",
    ],
)  # fmt: skip
def test_usual_heads(head: str) -> None:
    code = f"{head}(float *A, float *B, float *C, int N) {{}}"
    assert roles(code) == "A,B,C,N"
    assert entries(code) == ["f"]


def test_entries_skips_comments_and_device_functions() -> None:
    code = """
    // __global__ void old(float *A) {}
    /* __global__ void older(float *A) {} */
    __device__ void helper(int x) {}
    __global__ void one(float *A, float *B, float *C, int N) {}
    __global__ void two(float *A, float *B, float *C, int N) {}
    """
    assert entries(code) == ["one", "two"]
    assert roles(code, "two") == "A,B,C,N"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [("A,B,C,M,N,K", "A,B,C,M,N,K"), (" C , A , B , K , N , M ", "C,A,B,K,N,M")],
)
def test_declared_roles_win_over_names(declared: str, expected: str) -> None:
    code = "__global__ void f(float *x, float *y, float *z, int p, int q, int r) {}"
    assert roles(code, declared=declared) == expected


def test_packing_by_role_and_type() -> None:
    code = (
        "__global__ void f(int M, unsigned N, size_t K, float alpha, float *A, long long lda, float *B, int ldb, "
        "double beta, float *C, int64_t ldc) {}"
    )
    packed = parse_signature(code, "f").pack(PROBLEM, 0x1000, 0x2000, 2**63)
    assert packed == (
        struct.pack("<i", 2), struct.pack("<I", 3), struct.pack("<Q", 4), struct.pack("<f", 0.5),
        struct.pack("<Q", 0x1000), struct.pack("<q", 5), struct.pack("<Q", 0x2000), struct.pack("<i", 6),
        struct.pack("<d", -1.0), struct.pack("<Q", 2**63), struct.pack("<q", 7),
    )  # fmt: skip


def test_has() -> None:
    signature = parse_signature("__global__ void f(float *A, float *B, float *C, int N) {}", "f")
    assert [role for role in ROLES if signature.has(role)] == ["N", "A", "B", "C"]


ABC = "float *A, float *B, float *C"
BAD: list[tuple[str, str, str]] = [
    ("__global__ void g(float *A) {}", "", "no __global__ function named 'f'"),
    ("void f(float *A, float *B, float *C, int N) {}", "", "entries found: none"),
    ("", "", "entries found: none"),
    ("__global__ void f() {}", "", "no parameter for A, B, C"),
    ("__global__ void f(float *A, float *B, int N) {}", "", "no parameter for C"),
    (f"__global__ void f({ABC}) {{}}", "", "no parameter for M, N or K"),
    (f"__global__ void f({ABC}, int N, int n) {{}}", "", "two parameters that mean N"),
    ("__global__ void f(float *A, float *a, float *C, int N) {}", "", "two parameters that mean A"),
    (f"__global__ void f({ABC}, int N, int tile) {{}}", "", "the meaning of parameter 'tile' is not recognised"),
    (f"__global__ void f({ABC}, int *N) {{}}", "", "parameter N is a pointer, but N must be a number"),
    (
        "__global__ void f(float A, float *B, float *C, int N) {}",
        "",
        "parameter A is a number, but A must be a pointer",
    ),
    (f"__global__ void f({ABC}, int N, float *alpha) {{}}", "", "parameter alpha is a pointer"),
    (f"__global__ void f({ABC}, dim3 N) {{}}", "", "parameter 'N' has type 'dim3'"),
    (f"__global__ void f({ABC}, __half alpha, int N) {{}}", "", "parameter 'alpha' has type '__half'"),
    (f"__global__ void f({ABC}, int) {{}}", "", "cannot read parameter 'int'"),
    (f"__global__ void f({ABC}, int N) {{}}", "A,B,C", "3 roles, but f takes 4 parameters"),
    (f"__global__ void f({ABC}, int N) {{}}", "A,B,C,N,K", "5 roles, but f takes 4 parameters"),
    (f"__global__ void f({ABC}, int N) {{}}", "A,B,C,X", "unknown role 'X'"),
    (f"__global__ void f({ABC}, int N) {{}}", "A,B,C,n", "unknown role 'n'"),
    (f"__global__ void f({ABC}, int N) {{}}", "A,B,N,C", "parameter C is a pointer, but N must be a number"),
    (f"__global__ void f({ABC}, int N) {{}}", "A,A,C,N", "two parameters that mean A"),
    (f"__global__ void f({ABC}, int N) {{}}", ",,,", "unknown role ''"),
]


@pytest.mark.parametrize(("code", "declared", "message"), BAD)
def test_unrecognised_entries_are_refused_with_a_reason(code: str, declared: str, message: str) -> None:
    with pytest.raises(SignatureError) as caught:
        parse_signature(code, "f", declared)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2
