"""The expression that an access means, the loops around it, and elements of arrays, from the source alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.text.array_names import Constants
from gemmsmith.userfile.text.declared_arrays import declared_array
from gemmsmith.userfile.text.expression_at import expression_at
from gemmsmith.userfile.text.shared_pointers import pointer_into
from gemmsmith.userfile.text.source_tree import SourceTree

OTHERS = frozenset({"A", "B", "C", "As", "Bs", "x", "y"})
HEAD = """#define AT(i, j) As[(i) * 16 + (j)]  // a macro
#define FLOAT4(p) (reinterpret_cast<float4 *>(&(p))[0])
__global__ void k(const float *A, const float *B, float *C, int n) {
    __shared__ float As[16 * 16], Bs[16][16];
    const float *a = A + n, *b = B;
    /* é: not ASCII */ float sum = 0;
"""

# The statement, whether the access writes, the array; and the expression, None where it is not certain.
STATEMENTS = [
    ("sum += As[i] * Bs[i][j];", False, "As", "As[i]"),
    ("sum += As[i] * Bs[i][j];", False, "Bs", "Bs[i][j]"),
    ("As[i] = A[n * i + As[j]];", True, "As", "As[i]"),
    ("As[i] = A[n * i + As[j]];", False, "As", "As[j]"),
    ("As[i] = A[n * i + As[j]];", False, "A", "A[n * i + As[j]]"),
    ("As[i] += As[j];", True, "As", "As[i]"),
    ("As[i] += As[j];", False, "As", None),
    ("As[i]++;", False, "As", "As[i]"),
    ("sum = a[i] * b[j];", False, "A", "a[i]"),
    ("sum = a[i] * b[j];", False, "B", "b[j]"),
    ("sum = a[i] * a[j];", False, "A", None),
    ("*reinterpret_cast<float4 *>(&As[i]) = *reinterpret_cast<const float4 *>(&A[j]);", True, "As", "As[i]"),
    ("reinterpret_cast<float4 *>(&As[i])[0] = reinterpret_cast<const float4 *>(&A[j])[0];", False, "A", "A[j]"),
    ("FLOAT4(Bs[i][0]) = FLOAT4(A[j]);", True, "Bs", "Bs[i][0]"),
    ("sum += AT(i, j) * Bs[i][j];", False, "As", "AT(i, j)"),
    ("load(frag, As + 16, 32);", False, "As", "As + 16"),
    ("atomicAdd(&C[i], sum);", None, "C", "C[i]"),
    ("C[i * n +\n      j] = sum;", True, "C", "C[i * n + j]"),
    ("sum = s.x[i] + s.y[i];", False, "As", None),
    ("*(a + i) = sum;", True, "A", "*(a + i)"),
    ("if (i < n) C[i] = A[i];", True, "C", "C[i]"),
    ("for (int k = 0; k < 4; ++k) sum += As[k];", False, "As", "As[k]"),
    ("sum = i < n ? A[i] : 0.0f;", False, "A", "A[i]"),
    ("unknown[i] = sum;", True, "As", "unknown[i]"),
    ("x[i] = sum;", True, "As", None),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "writes", "name", "wanted"), STATEMENTS)
def test_the_expression_that_is_meant(
    statement: str, writes: bool | None, name: str, wanted: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(HEAD + "    " + statement + "\n}\n", encoding="utf-8")
    tree = SourceTree(path)
    found = expression_at(tree, HEAD.count("\n") + 1, 5, name, writes, OTHERS - {name})
    assert (found.text if found is not None else None) == wanted
    if found is not None and "\n" not in statement:
        line = tree.lines[found.span.line - 1]
        assert line[found.span.column : found.span.column + found.span.length] == wanted


def test_loops_around_a_line(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "void k() {\n  for (int t = 2; t < n; t += 3) {\n    a[t] = 1;\n"
        "    for (int k = 8; k > 0; k--)\n      b[k] = 2;\n"
        "    while (x) { c[0] = 1; }\n    for (i = 0; i < 4; i <<= 1) d[i] = 1;\n  }\n}\n"
    )
    tree = SourceTree(path)
    outer, inner = tree.loops(5, 7)
    assert (outer.line, outer.last_line, outer.variable, outer.start, outer.step) == (2, 8, "t", "2", "3")
    assert outer.own == {3}
    assert (inner.line, inner.variable, inner.start, inner.step) == (4, "k", "8", "-1")
    assert [(loop.line, loop.variable) for loop in tree.loops(6, 17)] == [(2, "t"), (6, "")]
    assert tree.loops(7)[1].step == ""  # i <<= 1 is no constant step
    assert tree.loops(1) == ()


ARRAYS = """
constexpr int PAD = 4;
template <typename T, int BM, int BK>
__global__ void k(int n) {
    __shared__ T As[2][BK][BM + PAD];
    __shared__ __align__(16) half Hs[BM * BK], Other[8];
    extern __shared__ unsigned char raw[];
    float *first = reinterpret_cast<float *>(raw);
    float *second = first + BM * BK;
    auto third = (half *)&raw[1024];
    float *moving = second + n;
    As[0][0][0] = second[0];
}
"""


def test_elements_of_declared_arrays(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(ARRAYS)
    trees = [SourceTree(path)]
    known = Constants({"BM": 64, "BK": 8, "PAD": 4}, {"T": "float"})
    array = declared_array(trees, known, "As", 2 * 8 * 68 * 4)
    assert array is not None
    assert (array.extents, array.itemsize, array.shape) == ((2, 8, 68), 4, "[2][8][68]")
    assert array.element((8 * 68 + 3 * 68 + 17) * 4) == "As[1][3][17]"
    assert array.element(2 * 8 * 68 * 4) == "As[2][0][0]"  # past the end
    halves = declared_array(trees, known, "Hs", 64 * 8 * 2)
    assert halves is not None
    assert halves.element(6) == "Hs[3]"
    # The compiler's size contradicts the extents, or one extent is not known.
    assert declared_array(trees, known, "As", 1000) is None
    unknown = declared_array(trees, Constants({"BM": 64, "PAD": 4}, {"T": "float"}), "As", 2 * 8 * 68 * 4)
    assert unknown is not None
    assert unknown.extents == (2, 8, 68)


def test_pointers_into_dynamic_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(ARRAYS)
    tree, known = SourceTree(path), Constants({"BM": 64, "BK": 8}, {})
    raw = declared_array([tree], known, "raw", 0)
    assert raw is not None
    assert raw.element(5) == "raw[5]"
    line = ARRAYS.splitlines().index("    As[0][0][0] = second[0];") + 1
    places = {name: pointer_into(tree, line, raw, name, known) for name in ("first", "second", "third", "moving")}
    assert {name: (p.start, p.itemsize) for name, p in places.items() if p is not None} == {
        "first": (0, 4), "second": (2048, 4), "third": (1024, 2)}  # fmt: skip
    second = places["second"]
    assert second is not None
    assert second.element(12) == "second[3]"


STRUCTS = """
namespace tiles {
template <typename T, int BM, int BK = 8>
struct Stage {
    static constexpr int PAD = 4;
    using Value = T;
    Value a[BK][BM + PAD];
    alignas(128) T b[BK][BM];
    __device__ T *row(int k) { return b[k]; }
};
}
struct Whole {
    tiles::Stage<float, 16> stages[2];
    char flag;
    double total;
};
struct Mixed : Whole { int more; };
__global__ void k(int s) {
    __shared__ Whole whole;
    __shared__ tiles::Stage<float, 16> ring[3];
    __shared__ Mixed mixed;
    extern __shared__ unsigned char raw[];
    Whole *first = reinterpret_cast<Whole *>(raw);
    Whole &second = *(Whole *)(raw + 4096);
    ring[s].a[0][s] = ring[s].b[s][1] + second.stages[s].a[1][2];
}
"""
STAGE = 640 + 512  # a has 8 rows of 20 numbers; b starts on a multiple of 128 bytes
WHOLE = 2 * STAGE + 128  # with flag, total and what makes it a multiple of 128


def test_members_of_structs(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(STRUCTS)
    tree, known = SourceTree(path), Constants({}, {})
    whole, ring = declared_array([tree], known, "whole", WHOLE), declared_array([tree], known, "ring", 3 * STAGE)
    assert whole is not None
    assert ring is not None
    assert [whole.element(at) for at in (0, STAGE + 640 + 68, 2 * STAGE, 2 * STAGE + 8)] == [
        "whole.stages[0].a[0][0]", "whole.stages[1].b[1][1]", "whole.flag", "whole.total"]  # fmt: skip
    assert whole.element(2 * STAGE + 4) == ""  # between two members
    assert ring.element(2 * STAGE + 20 * 4) == "ring[2].a[1][0]"
    assert declared_array([tree], known, "whole", WHOLE + 8) is None  # the compiler's size is another
    assert declared_array([tree], known, "mixed", WHOLE + 128) is None  # a base class
    raw = declared_array([tree], known, "raw", 0)
    assert raw is not None
    line = STRUCTS[: STRUCTS.index("    ring[s].a")].count("\n") + 1
    first, second = (pointer_into(tree, line, raw, name, known, [tree]) for name in ("first", "second"))
    assert first is not None
    assert second is not None
    assert (first.start, first.element(STAGE)) == (0, "first[0].stages[1].a[0][0]")
    assert (second.start, second.element(STAGE)) == (4096, "second.stages[1].a[0][0]")


@pytest.mark.parametrize(("member", "writes", "wanted"), [
    ("a", True, "ring[s].a[0][s]"), ("b", False, "ring[s].b[s][1]"), ("a", False, "second.stages[s].a[1][2]"),
])  # fmt: skip
def test_the_member_that_is_meant(tmp_path: Path, member: str, writes: bool, wanted: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(STRUCTS)
    line = STRUCTS[: STRUCTS.index("    ring[s].a")].count("\n") + 1
    found = expression_at(SourceTree(path), line, 5, "ring", writes, frozenset(), member)
    assert found is not None
    assert found.text == wanted
