"""What a parameter means: by name, by use, at its launch, or as declared."""

from __future__ import annotations

import pytest

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.layout import LAYOUTS, ROW_MAJOR, Layout, layout_in_name, layout_named
from gemmsmith.kernel.operand_types import element_types
from gemmsmith.kernel.other_readings import readings
from gemmsmith.kernel.pointer_roles import with_written
from gemmsmith.kernel.pointer_use import written
from gemmsmith.kernel.role_evidence import HostArguments, KernelText
from gemmsmith.kernel.roles import recognise
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, UINT8, Problem


def parameters(text: str) -> list[tuple[str, str]]:
    return [(part.rpartition(" ")[0], part.rpartition(" ")[2]) for part in text.split(", ")]


def roles(text: str, body: str = "", passed: tuple[str, ...] = (), declared: str = "") -> str:
    return recognise("f", parameters(text), KernelText(body), HostArguments(passed), declared).declaration()


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("float * A, float * B, float * C, int N", "", "A,B,C,N"),
        ("float * d_A, float * dB, float * C_ptr, int m, int n, int k", "", "A,B,C,M,N,K"),
        ("float * matA, float * matB, float * matC, int M, int K, int N", "", "A,B,C,M,K,N"),
        ("float * M, float * N, float * P, int Width", "P[i] = s;", "A,B,C,N"),
        ("float * Md, float * Nd, float * Pd, int w", "Pd[r * w + c] = s;", "A,B,C,N"),
        ("float * y, const float * x, const float * w, int rows, int cols, int inner", "", "C,A,B,M,N,K"),
        ("const float * x, const float * w, const float * bias, float * y, int num_tokens, int out_features, "
         "int in_features", "", "A,B,bias,C,M,N,K"),
        ("const float * A, const float * B, float * C, int n, int in_features, int out_features", "",
         "A,B,C,?,?,?"),
        ("float * out, float * in1, float * in2, int m, int n, int k", "out[i] = s;", "C,A,B,M,N,K"),
        ("float * C, float * A, float * B, int wA, int wB", "", "C,A,B,K,N"),
        ("float * a, float * b, float * c, int hA, int wA, int wB", "", "A,B,C,M,K,N"),
        ("float * a, float * b, float * c, int a_rows, int a_cols, int b_cols", "", "A,B,C,M,K,N"),
        ("int M, int N, int K, float* A, long a_row, long a_col, float* B, long b_row, long b_col, float* C, int ldc",
         "", "M,N,K,A,lda,1,B,ldb,1,C,ldc"),
        ("float * a, float * b, float * c, int rowsA, int colsA, int colsB", "", "A,B,C,M,K,N"),
        (
            "float * lhs, float * rhs, float * dst, int lhs_rows, int rhs_cols, int lhs_cols, int row_stride_lhs",
            "",
            "A,B,C,M,N,K,lda",
        ),
        (
            "float * first, float * second, float * out, int rows_one, int columns_two, int k, int stride_dest",
            "",
            "A,B,C,M,N,K,ldc",
        ),
        ("float * a, float * b, float * c, int widthA, int heightA, int widthB", "", "A,B,C,K,M,N"),
        ("const half * a, const half * b, const float * c, float * d, int m_ld, int n_ld, int k_ld, float alpha, "
         "float beta", "", "A,B,C,D,M,N,K,alpha,beta"),
        ("half * a, half * b, float * c, float * d, int m, int n, int k", "wmma::store_matrix_sync(d + i, acc, n);",
         "A,B,C,D,M,N,K"),
        ("int m, int n, int k, float alpha, const float * A, int ldA, const float * B, int ld_b, float beta, "
         "float * C, int stride_c", "", "M,N,K,alpha,A,lda,B,ldb,beta,C,ldc"),
        ("const float * A, const float * B, float * C, int M, int N, int K, int strideA, int strideB, int strideC, "
         "int batch_count", "", "A,B,C,M,N,K,strideA,strideB,strideC,batch"),
        ("int M, int N, int K, float alpha, const float * A, int lda, long long sA, const float * B, int ldb, "
         "long long sB, float beta, float * C, int ldc, long long sC", "A += blockIdx.z * sA;",
         "M,N,K,alpha,A,lda,strideA,B,ldb,strideB,beta,C,ldc,strideC"),
        ("const float * a, const float * b, float * c, int m, int n, int k, long long sa, long long sb, long long sc",
         "a += blockIdx.z * sa;", "A,B,C,M,N,K,strideA,strideB,strideC"),
        ("const float * A, const float * B, float * C, int M, int N, int K, int lda, int strideA", "",
         "A,B,C,M,N,K,lda,strideA"),
        ("const float * A, const float * B, const float * bias, float * C, int M, int N, int K", "",
         "A,B,bias,C,M,N,K"),
        ("const float * A, const float * B, float * C, int m, int n, int p", "", "A,B,C,?,?,?"),
        ("const float * A, const float * B, float * C, int width, int height", "", "A,B,C,?,?"),
        ("const float * A, const float * B, float * C, int M, int N, int K, int flag", "", "A,B,C,M,N,K,?"),
        # A second array that is written is a workspace, no addend.
        ("const float * A, const float * B, float * C, float * Bt, int M, int N, int K", "Bt[j] = B[i]; C[i] = s;",
         "A,B,C,scratch,M,N,K"),
        ("const float * A, const float * B, float * C, float * other, int M, int N, int K", "C[i] = s + other[i];",
         "A,B,D,C,M,N,K"),
        ("float * p, float * q, float * r, int M, int N, int K", "", "?,?,?,M,N,K"),
        ("float * p, float * q, float * r, int M, int N, int K", "float* o = q + 3; o[i] += s;", "A,C,B,M,N,K"),
    ],
)  # fmt: skip
def test_names_and_use(text: str, body: str, expected: str) -> None:
    assert roles(text, body) == expected


def test_host_code_names_what_the_kernel_does_not() -> None:
    text = "const float * p, const float * q, float * r, int x, int y, int z"
    assert roles(text, passed=("dA", "dB", "dC", "M", "N", "K")) == "A,B,C,M,N,K"
    assert roles(text, passed=("dA", "dB", "dC", "a + 1", "b", "c")) == "A,B,C,?,?,?"


@pytest.mark.parametrize(
    "body",
    [
        "C[row * N + col] = s;", "C[r] += s;", "*(C + i) = s;", "*C = s;", "atomicAdd(&C[i], s);",
        "atomicAdd(C + i, s);", "reinterpret_cast<float4*>(&C[i])[0] = v;", "*(float4*)(C + i) = v;",
        "FETCH_FLOAT4(C[i]) = v;", "wmma::store_matrix_sync(C + i, acc, n, wmma::mem_row_major);", "C(i, j) = s;",
        "float* out = &C[i]; out[0] = s;", "auto c = C + 3; auto d = c; d[0] = 1;", "store_tile<4>(C, acc);",
    ],
)  # fmt: skip
def test_a_pointer_that_is_written(body: str) -> None:
    assert written(["A", "C"], f"float s = A[i] * 2; if (C == A) return; {body}") == {"C"}


def test_what_is_only_read_is_not_written() -> None:
    body = "float s = A[i]; float4 v = reinterpret_cast<const float4*>(A)[0]; if (A[0] == 1) s = 2; x = *A;"
    assert written(["A"], body) == set()


def test_the_compiled_kernel_may_know_better() -> None:
    signature = recognise("f", parameters("float * A, float * B, float * C, int N"))
    assert with_written(signature, {"A"}).declaration() == "C,A,B,N"


def test_fixed_extents() -> None:
    text = "const float * A, const float * B, float * C"
    plain = parameters(text)
    assert recognise("f", plain, KernelText("C[M * N] K", constants={"M": 64, "N": 32, "K": 16})).fixed == (
        ("M", 64), ("N", 32), ("K", 16))  # fmt: skip
    assert recognise("f", plain, KernelText("C[N]", constants={"N": 32, "TILE": 8})).fixed == (
        ("M", 32),
        ("N", 32),
        ("K", 32),
    )
    tensor = {"M": 16, "N": 16, "K": 16, "M_GLOBAL": 256, "N_GLOBAL": 128, "K_GLOBAL": 64}
    assert dict(recognise("f", plain, KernelText("M N K", constants=tensor)).fixed) == {"M": 256, "N": 128, "K": 64}
    with pytest.raises(SignatureError, match="takes no M, N or K"):
        recognise("f", plain, KernelText("", constants={}))


def test_declared_roles() -> None:
    text = "float * a, float * b, float * c, int x, int y, int z, int flag"
    assert roles(text, declared="B,A,C,N,M,K,1") == "B,A,C,N,M,K,1"
    packed = recognise("f", parameters(text), declared="B,A,C,N,M,K,1").pack(Problem(2, 3, 4), 16, 32, 48)
    assert [int.from_bytes(value, "little") for value in packed] == [32, 16, 48, 3, 2, 4, 1]
    for declared, message in (("A,B,C", "has 3 roles"), ("A,B,C,M,N,K,X", "unknown role 'X'"),
                              ("M,B,C,A,N,K,1", "a is a pointer"), ("A,A,C,M,N,K,1", "both seem to be A")):  # fmt: skip
        with pytest.raises(SignatureError, match=message):
            roles(text, declared=declared)


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (("float", "float", "float"), (FP32, FP32)), (("half", "__half", "float"), (FP16, FP32)),
        (("at::Half", "c10::Half", "at::Half"), (FP16, FP16)), (("half2", "half2", "half"), (FP16, FP16)),
        (("nv_bfloat16", "__nv_bfloat16", "__nv_bfloat16"), (BF16, BF16)), (("double",) * 3, (FP64, FP64)),
        (("int8_t", "signed char", "int"), (INT8, INT32)), (("uint8_t", "unsigned char", "int32_t"), (UINT8, INT32)),
        (("real", "real", "real"), (FP32, FP32)), (("T", "T", "Out"), (FP16, FP32)),
    ],
)  # fmt: skip
def test_element_types(kinds: tuple[str, str, str], found: tuple[object, object]) -> None:
    aliases = {"real": "scalar_t", "scalar_t": "float", "T": "half", "Out": "real"}
    named = [(f"const {kinds[0]} *", "A"), (f"{kinds[1]} const * __restrict__", "B"), (f"{kinds[2]} *", "C")]
    signature = recognise("f", [*named, ("int", "N")], KernelText(aliases=aliases))
    assert element_types(signature, "", aliases) == found


def test_types_that_are_refused_by_name() -> None:
    def types(*kinds: str) -> object:
        signature = recognise("f", [*zip((f"{kind} *" for kind in kinds), "ABC", strict=True), ("int", "N")])
        return element_types(signature)

    for kinds, message in (
        (("float", "half", "float"), "A and B differ"), (("float", "float", "half"), "C half"),
        (("__nv_fp8_e4m3",) * 3, "A points to __nv_fp8_e4m3"), (("void",) * 3, "points to void"),
    ):  # fmt: skip
        with pytest.raises(SignatureError, match=message):
            types(*kinds)


def test_parameter_types() -> None:
    found = parameter_type("const unsigned  int", {})
    assert (found.name, found.stars, found.scalar_code, found.is_integer) == ("unsigned int", 0, "I", True)
    assert parameter_type("float [ ]", {}).stars == 1
    assert parameter_type("const T* const* __restrict__", {"T": "float"}).stars == 2


# --- other readings


def test_readings_of_open_extents() -> None:
    signature = recognise("f", parameters("const float * A, const float * B, float * C, int m, int n, int p"))
    assert signature.unknown
    found = [reading.declaration() for reading in readings(signature)]
    assert len(found) == len(set(found)) == 6
    assert "A,B,C,M,K,N" in found


def test_readings_of_a_certain_signature_exchange_the_extents() -> None:
    signature = recognise("f", parameters("const float * A, const float * B, float * C, int M, int N, int K"))
    found = [reading.declaration() for reading in readings(signature)]
    assert len(found) == 5
    assert signature.declaration() not in found
    square = recognise("f", parameters("const float * A, const float * B, float * C, int N"))
    assert list(readings(square)) == []


def test_a_flag_beside_an_open_extent_is_tried_both_ways() -> None:
    text = "const float * A, const float * B, float * C, int M, int N, int part, bool first"
    found = [reading.declaration() for reading in readings(recognise("f", parameters(text)))]
    assert {"A,B,C,M,N,K,1", "A,B,C,M,N,K,0"} <= set(found)
    assert len(found) == 12


def test_too_many_unknowns_are_not_guessed() -> None:
    text = "const float * A, const float * B, float * C, int M, int N, int K, int flag"
    assert list(readings(recognise("f", parameters(text)))) == []


# --- layouts


def test_layout_words() -> None:
    for layout in LAYOUTS:
        assert layout_named(layout.word) == layout
        assert layout_named(layout.word.upper()) == layout
    assert layout_named("row") == layout_named("row-major") == ROW_MAJOR
    assert layout_named("column-major") == Layout(True)
    assert layout_named("col:tn") == Layout(True, True, False)
    assert layout_in_name("sgemm_nt_128x128") == Layout(False, False, True)
    assert layout_in_name("gemm_col_major") == Layout(True)
    assert layout_in_name("sgemm_v2") is None


def test_a_column_major_product_is_the_transposed_row_major_one() -> None:
    signature = Signature("f", recognise("f", parameters("const float * A, const float * B, float * C, int M, int N, "
                                                         "int K, int lda, int ldb, int ldc")).arguments)  # fmt: skip
    inside, layout = Layout(True).applied(signature)
    assert layout == "NN"
    assert [arg.role for arg in inside.arguments] == ["B", "A", "C", "N", "M", "K", "ldb", "lda", "ldc"]
    assert inside.declaration() == signature.declaration()
    assert inside.transposed() == signature
    assert Layout(True, True, False).applied(signature)[1] == "NT"


@pytest.mark.parametrize(
    "names", [("ldx", "ldw", "ldo"), ("ld_x", "ld_w", "ld_out"), ("stride_x", "w_stride", "pitch_o")]
)
def test_leading_dimensions_named_after_their_matrices(names: tuple[str, str, str]) -> None:
    x, w, out = names
    found = recognise("k", [("int", "rows"), ("int", "cols"), ("int", "inner"), ("const float*", "x"), ("int", x),
                            ("const float*", "w"), ("int", w), ("float*", "out"), ("int", out)])  # fmt: skip
    assert [arg.role for arg in found.arguments] == ["M", "N", "K", "A", "lda", "B", "ldb", "C", "ldc"]


def test_a_name_that_begins_two_matrices_stays_open() -> None:
    found = recognise("k", [("int", "m"), ("int", "n"), ("int", "k"), ("const float*", "input"), ("int", "ldi"),
                            ("const float*", "inner"), ("float*", "out")])  # fmt: skip
    assert "ldi" in [arg.name for arg in found.unknown]


def test_open_numbers_beside_all_extents_are_tried_as_leading_dimensions() -> None:
    found = recognise("k", [("int", "m"), ("int", "n"), ("int", "k"), ("const float*", "a"), ("int", "p"),
                            ("const float*", "b"), ("int", "q"), ("float*", "c"), ("int", "r")])  # fmt: skip
    first = next(readings(found))
    assert [arg.role for arg in first.arguments] == ["M", "N", "K", "A", "lda", "B", "ldb", "C", "ldc"]


def test_a_typedef_of_another_platform_does_not_change_a_standard_type() -> None:
    text = KernelText(aliases={"size_t": "unsigned"})
    found = recognise("k", [("size_t", "m"), ("size_t", "n"), ("size_t", "k"), ("const float*", "a"),
                            ("const float*", "b"), ("float*", "c")], text)  # fmt: skip
    assert [arg.code for arg in found.arguments[:3]] == ["Q", "Q", "Q"]


def test_a_view_of_a_transposed_operand_has_its_rows_and_columns_swapped() -> None:
    fields = ("data", "rows", "cols", "stride", "unit")
    roles = {"a": ("A", "M", "K", "lda", "1"), "b": ("B", "K", "N", "ldb", "1"), "c": ("C", "M", "N", "ldc", "1")}
    arguments = tuple(Argument(f"{view}.{field}", role, "P" if field == "data" else "i", "float")
                      for view, given in roles.items() for field, role in zip(fields, given, strict=True))  # fmt: skip
    signature = Signature("mm", arguments)
    read, operations = Layout(trans_b=True).applied(signature)
    assert operations == "NT"
    assert [each.role for each in read.arguments if each.name in ("b.rows", "b.cols")] == ["N", "K"]
    assert Layout().applied(signature)[0] == signature


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("float4* row = reinterpret_cast<float4*>(A + 4); s += row[0].x;", set()),
        ("float *a = A, *c = C; s = a[0];", set()),
        ("float* c = C + 4; *c = s;", {"C"}),
        ("if (i < n) *(C + i) = s; else *A = s;", {"A", "C"}),
        ("do *C += s; while (0);", {"C"}),
        ("*reinterpret_cast<float4*>(C) = v;", {"C"}),
    ],
)
def test_a_pointer_that_is_declared_is_not_written(body: str, names: set[str]) -> None:
    assert written(["A", "C"], body) == names
