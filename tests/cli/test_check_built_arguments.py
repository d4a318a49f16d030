"""gemmsmith check on kernels that take objects which host code builds: shapes and layouts as CuTe has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.cute_values import cute_call, cute_object
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import Scope, UnknownValueError, evaluate

LAYOUTS = """
template <int V> struct Int { static constexpr int value = V; };
template <class Rows, class Columns> struct Tile {};
template <class R, class C> __host__ __device__ Tile<R, C> make_tile(R, C) { return {}; }
struct RowMajor { int ld; __host__ __device__ long operator()(int r, int c) const { return long(r) * ld + c; } };
__host__ __device__ inline RowMajor make_rows(int ld) { return {ld}; }
template <class R, class C> constexpr int size(Tile<R, C>) { return R::value * C::value; }

template <class T, class Tiler, class LA, class LB, class LC, class Alpha>
__global__ void __launch_bounds__(256) product(Tiler, const T* A, LA la, const T* B, LB lb, T* C, LC lc, int m, int n,
                                               int k, Alpha alpha)
{
    int row = blockIdx.y * 8 + threadIdx.x / 32, col = blockIdx.x * 32 + threadIdx.x % 32;
    if (row >= m || col >= n) return;
    T sum = 0;
    for (int i = 0; i < k; ++i) sum += A[la(row, i)] * B[lb(i, col)];
    C[lc(row, col)] = alpha * sum;
}

template <class T, class Alpha>
void run(const T* A, const T* B, T* C, int m, int n, int k, Alpha alpha, cudaStream_t stream = 0)
{
    auto rows = Int<8>{};
    auto columns = Int<32>{};
    auto tiler = make_tile(rows, columns);
    auto la = make_rows(k);     // of A
    auto lb = make_rows(n), lc = make_rows(n);
    dim3 block(size(tiler)), grid((n + columns - 1) / columns, (m + rows - 1) / rows);
    product<<<grid, block, 0, stream>>>(tiler, A, la,
                                        B, lb, C, lc, m, n, k, alpha);
}
template void run<float, float>(const float*, const float*, float*, int, int, int, float, cudaStream_t);
"""


def test_objects_that_the_launching_function_builds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are built in every thread of a copy; the report says so, and lines stay as they are."""
    code, found = check(tmp_path, LAYOUTS, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["block"] == [256, 1, 1]
    assert any("built in every thread" in text for text in found["launch"]["found"]), found["launch"]
    wrong = LAYOUTS.replace("lb = make_rows(n)", "lb = make_rows(k)")
    code, found = check(tmp_path, wrong, capsys, "--trial", "M, N and K all different")
    assert (code, found["status"]) == (1, "wrong"), found
    past = LAYOUTS.replace("row >= m || col >= n", "row >= m")
    code, found = check(tmp_path, past, capsys, "--trial", "a shape that is no multiple of the tile")
    line = next(i for i, text in enumerate(LAYOUTS.splitlines(), 1) if "sum +=" in text)
    assert f":{line}" in str(found), found


def _scope(tmp_path: Path) -> Scope:
    path = tmp_path / "empty.cu"
    path.write_text("__global__ void k() {}\n")
    project = Project.of(path)
    return HostScope(Frame(project.sources(path)[0], project), {}, Sizes(), Asked())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("size(make_layout(make_shape(_16{}, Int<8>{})))", 128),
        ("size<1>(make_shape(_16{}, make_shape(_4{}, _2{})))", 8),
        ("size(make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _4>>{}))", 256),
        ("size(make_tiled_mma(UniversalFMA<float>{}, make_layout(make_shape(_16{}, _16{}, _1{}))))", 256),
        ("size(cute::ceil_div(1000, _128{}))", 8),
        ("size(select<0, 2>(make_shape(_2{}, _3{}, _5{})))", 10),
    ],
)
def test_sizes_of_shapes(text: str, value: int, tmp_path: Path) -> None:
    assert evaluate(text, _scope(tmp_path)) == value


def test_unknown_atoms_and_calls_have_no_size(tmp_path: Path) -> None:
    scope = _scope(tmp_path)
    with pytest.raises(UnknownValueError, match="threads of"):
        cute_call("make_tiled_mma", (), ("MyAtom{}",), scope)
    with pytest.raises(UnknownValueError, match="not known"):
        cute_call("make_tma_copy", (), ("x",), scope)
    with pytest.raises(UnknownValueError, match="no number"):
        cute_object("Swizzle", ("3", "3", "3"), scope)
