"""gemmsmith check of two kernels that make a product together: slices of K, and the kernel that adds them up."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.cli.check_chain import adds_up, divides_sums
from gemmsmith.cli.main import run_command
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import joined_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

# Both kernels have a parameter C, which are two arrays; host code computes what it passes for depth and count.
SLICES = """template <int T>
__global__ void __launch_bounds__(T * T) slices(
    const float* A, const float* B, float* C, int M, int N, int K, int depth) {
    __shared__ float a[T][T], b[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    int from = blockIdx.z * depth, to = min(from + depth, K);
    float sum = 0.0f;
    for (int k = from; k < to; k += T) {
        a[threadIdx.y][threadIdx.x] = row < M && k + threadIdx.x < to ? A[row * K + k + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = col < N && k + threadIdx.y < to ? B[(k + threadIdx.y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[(blockIdx.z * M + row) * N + col] = sum;
}
__global__ void add(const float* sums, float* C, int count, int parts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float all = 0.0f;
    for (int p = 0; p < parts; ++p) all += sums[p * count + i];
    C[i] = all;
}
void product(const float* A, const float* B, float* C, float* room, int M, int N, int K) {
    const int parts = 3;
    int depth = (K + parts - 1) / parts;
    slices<8><<<dim3((N + 7) / 8, (M + 7) / 8, parts), dim3(8, 8)>>>(A, B, room, M, N, K, depth);
    int count = M * N;
    add<<<(count + 63) / 64, 64>>>(room, C, count, parts);
}
"""


def _checked(text: str, folder: Path) -> int:
    (folder / "mine.cu").write_text(text, encoding="utf-8")
    return run_command(["check", f"{folder / 'mine.cu'}:slices", "--cures", "0"])


def test_two_kernels_that_add_up_slices_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _checked(SLICES, tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "slices_then_add is right" in said
    assert "then add grid" in said


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("p < parts;", "p < parts - 1;"),  # a slice is lost
        ("sums[p * count + i]", "sums[p * (count - 1) + i]"),  # a wrong stride
        ("(K + parts - 1) / parts", "K / parts"),  # the rest of K is lost
        ("(count + 63) / 64", "count / 128"),  # too few blocks
    ],
)
def test_two_kernels_of_which_one_errs_are_wrong(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert right in SLICES
    assert _checked(SLICES.replace(right, wrong), tmp_path) == 1
    assert "slices_then_add is wrong" in " ".join(capsys.readouterr().out.split())


def test_a_race_in_one_of_two_kernels_is_shown_at_its_own_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _checked(SLICES.replace("        __syncthreads();\n", "", 1), tmp_path) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "slices_then_add races" in said
    assert "between line 10 and line 11 there must be a __syncthreads()" in said
    assert "calls it here" not in said


def _joined(text: str, folder: Path) -> UserLaunch | None:
    file = folder / "mine.cu"
    file.write_text(text, encoding="utf-8")
    spec = joined_kernel(file, UserOptions(entry="slices"))
    if spec is None or spec.signature.unknown:
        return None
    assert isinstance(spec.geometry, UserLaunch)
    return spec.geometry


def test_both_launches_are_those_of_host_code(tmp_path: Path) -> None:
    launch = _joined(SLICES, tmp_path)
    assert launch is not None
    first, second = launch.rounds(Problem(20, 30, 50))
    assert (first.grid, first.block) == ((4, 3, 3), (8, 8, 1))
    assert (second.grid, second.block) == ((10, 1, 1), (64, 1, 1))
    names = {arg.name: i for i, arg in enumerate(launch.signature.arguments)}
    assert first.numbers[names["depth"]] == 17
    assert second.numbers[names["count"]] == 600
    assert [first.numbers[names["which_launch"]], second.numbers[names["which_launch"]]] == [0, 1]
    assert [arg.name for arg in launch.signature.arguments if arg.role == "scratch"] == ["sums"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("    add<<<", "    if (parts > 1) add<<<"),  # not after every first launch
        ("    add<<<", "    for (int i = 0; i < parts; ++i) add<<<"),
        ("(room, C, count", "(room + count, C, count"),  # from some element on
        ("const float* sums", "float* sums"),  # it may change them
        ("    int count", "    clear<<<1, 64>>>(room);\n    int count"),  # another one in between
        ("int parts) {\n    int i", "int parts, const int* order) {\n    int i"),  # an array without a meaning
    ],
)
def test_what_is_not_understood_is_no_chain(text: str, other: str, tmp_path: Path) -> None:
    assert text in SLICES
    changed = SLICES.replace(text, other, 1)
    if "order" in other:
        changed = changed.replace("(room, C, count, parts)", "(room, C, count, parts, order)")
    assert _joined(changed, tmp_path) is None


def test_a_kernel_for_each_product_divides_no_sum(tmp_path: Path) -> None:
    launch = _joined(SLICES, tmp_path)
    assert launch is not None
    assert launch.second is not None
    kernels = {each.name: each for each in launch.second.frame.source.kernels}
    assert divides_sums(kernels["slices"])
    assert adds_up(kernels["add"])
    batched = SLICES.replace("blockIdx.z * depth", "0").replace("A[row", "A[blockIdx.z * M * K + row")
    again = _joined(batched.replace("all += sums[p * count + i]", "all += expf(sums[i])"), tmp_path)
    assert again is not None
    assert again.second is not None
    kernels = {each.name: each for each in again.second.frame.source.kernels}
    assert not divides_sums(kernels["slices"])
    assert not adds_up(kernels["add"])


def test_results_show_that_two_kernels_make_a_product(tmp_path: Path) -> None:
    # Nothing in the code says that it adds: all outputs but one do.
    changed = SLICES.replace("all += sums[p * count + i]", "all -= i == 5 ? 0.0f : -sums[p * count + i]")
    assert _checked(changed, tmp_path) == 1


@pytest.mark.parametrize(
    ("body", "adds"),
    [
        ("C[i] = fmaxf(P[i], P[i + n]);", False),
        ("int j = blockIdx.x * 4 + threadIdx.x; C[j] = P[j] * P[j + 1];", False),
        ("C[i] = P[i] + P[i + n];", True),
        ("float v = P[i] + P[i + n]; C[i] = v;", True),
        ("for (int s = 0; s < S; ++s) sum += P[s * n + i];", True),
        ("for (int s = 0; s < S; ++s) sum += expf(P[s * n + i]);", False),
    ],
)
def test_indices_are_no_sums(body: str, adds: bool, tmp_path: Path) -> None:
    launch = _joined(SLICES, tmp_path)
    assert launch is not None
    assert launch.second is not None
    assert adds_up(replace(launch.second.kernel, body=body)) == adds


def test_a_sum_over_one_part_too_many_is_wrong(tmp_path: Path) -> None:
    assert _checked(SLICES.replace("p < parts;", "p <= parts;"), tmp_path) == 1  # nobody has written that part


@pytest.mark.parametrize(
    ("right", "wrong", "cure"),
    [
        ("        __syncthreads();\n", "", "__syncthreads();"),
        ("p < parts;", "p < parts - 1;", "leaves out the last of parts"),
    ],
)
def test_causes_are_found_in_two_kernels(
    right: str, wrong: str, cure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.cu").write_text(SLICES.replace(right, wrong, 1), encoding="utf-8")
    assert run_command(["check", f"{tmp_path / 'mine.cu'}:slices", "--cures", "30"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert cure in said
    assert re.search(r"all \d+ trials pass", said)


TRANSPOSED_FIRST = """__global__ void transpose(const float* in, float* out, int rows, int cols) {
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];
}
__global__ void product(const float* A, const float* Bt, float* C, int M, int N, int K) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[i * K + k] * Bt[j * K + k];
    C[i * N + j] = sum;
}
void run(const float* A, const float* B, float* C, float* Bt, int M, int N, int K) {
    transpose<<<dim3((N + 7) / 8, (K + 7) / 8), dim3(8, 8)>>>(B, Bt, K, N);
    product<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, Bt, C, M, N, K);
}
"""


@pytest.mark.parametrize(("copy", "status"), [("out[x * rows + y]", 0), ("out[x * cols + y]", 1)])
def test_the_kernel_before_writes_an_operand(
    copy: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The product is right; with the copy that it is given, it may not be."""
    (tmp_path / "mine.cu").write_text(TRANSPOSED_FIRST.replace("out[x * rows + y]", copy), encoding="utf-8")
    trial = ("--trial", "M, N and K all different")
    assert run_command(["check", str(tmp_path / "mine.cu"), "--cures", "0", *trial]) == status
    said = " ".join(capsys.readouterr().out.split())
    assert ("transpose_then_product" in said) == bool(status)


def test_a_cause_is_found_in_the_kernel_that_prepares_an_operand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = TRANSPOSED_FIRST.replace("out[x * rows + y]", "out[x * cols + y]")
    (tmp_path / "mine.cu").write_text(wrong, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu"), "--cures", "30"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "`out[x * rows + y]`" in said
    assert re.search(r"all \d+ trials pass", said)
    assert "both write out[" in said, "the array has its name, not that of the workspace it lies in"


def test_a_file_of_partial_sums_and_their_sum_is_one_product(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither kernel has the signature of a product, and only one takes three arrays and three sizes."""
    (tmp_path / "mine.cu").write_text(SLICES, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu"), "--json", "--trial", "random data"]) == 0
    assert json.loads(capsys.readouterr().out)["entry"] == "slices_then_add"


# The second kernel stores four outputs at once, wherever rows begin.
FOUR_AT_ONCE = """
__global__ void add(const float4* sums, float4* C, int count, int parts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 all = make_float4(0, 0, 0, 0);
    for (int p = 0; p < parts; ++p) {
        float4 some = sums[p * count + i];
        all = make_float4(all.x + some.x, all.y + some.y, all.z + some.z, all.w + some.w);
    }
    C[i] = all;
}
"""


def test_outputs_of_the_second_kernel_come_four_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is right where M·N is a multiple of four, and has no code for others."""
    start, end = SLICES.index("__global__ void add"), SLICES.index("void product")
    text = SLICES[:start] + FOUR_AT_ONCE + SLICES[end:]
    text = text.replace("count = M * N", "count = M * N / 4").replace("(room, C,", "((float4*)room, (float4*)C,")
    (tmp_path / "mine.cu").write_text(text, encoding="utf-8")
    code = run_command(["check", f"{tmp_path / 'mine.cu'}:slices", "--cures", "0", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["status"]) == (0, "whole_tiles"), found["verdict"]
    assert "multiples of 4 in N" in found["verdict"]
